"""The tests, laid out as src/gapless is."""

from pathlib import Path

ROOT = Path(__file__).parents[1]  # of the repository
