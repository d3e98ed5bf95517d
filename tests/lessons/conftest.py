"""What the lessons' tests share: the reference solutions."""

from pathlib import Path

import pytest

from gapless.lessons import LESSONS
from gapless.lessons.variants import fixes

ROOT = Path(__file__).parents[2]
LESSON = LESSONS["02_masked_loss"]


@pytest.fixture(scope="session")
def solutions():
    """The functions of the reference solution's exercise cells."""
    return fixes(ROOT / "solutions" / LESSON.id / f"{LESSON.id}.ipynb")
