"""Constants of the kernel models, fitted to measured times: a JSON file for each model, written by ``gapless fit``.

    {"source": "what it was fitted to", "command": "gapless fit products", "shared": {"name": 1.0},
     "cards": {"t4": {"name": 2.0}}}

A card's own constants come before the shared ones, which are what a card that nobody measured gets.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

FOLDER = Path(__file__).parent


@functools.cache
def _file(model: str) -> dict:
    return json.loads((FOLDER / f"{model}.json").read_text(encoding="utf-8"))


@functools.cache
def constants(model: str, card: str | None = None) -> dict:
    """The constants of ``model`` for the card with that key. Do not change what is returned."""
    found = _file(model)
    return {**found["shared"], **found["cards"].get(card, {})}


def hosts(model: str) -> dict:
    """What the fit of ``model`` found of the hosts that measured, by card: no part of a card's own times."""
    return _file(model).get("hosts", {})
