"""Wrong answers as learners write them, each a cell: checked as in a notebook, none gets full points.

They are in ``answers/wrong_cells``, a file a lesson, each below a line ``# %% EXERCISE: what is wrong``. All of them passed once.
"""

import re
from functools import cache

import pytest

import gapless

from .. import ROOT

CELLS = []
for path in sorted((ROOT / "tests/lessons/answers/wrong_cells").glob("*.txt")):
    _, *parts = re.split(r"^# %% (\S+): (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
    CELLS += [(path.stem, *cell) for cell in zip(parts[::3], parts[1::3], parts[2::3])]


@cache
def notebook(lesson_id):
    return gapless.Notebook(lesson_id, device="vgpu:a10g")


def test_they_are_there():
    assert len(CELLS) > 90


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name, wrong, source", CELLS, ids=[f"{lesson_id}-{name}: {wrong[:60]}" for lesson_id, name, wrong, _ in CELLS])
def test_a_wrong_answer_has_no_full_points(lesson_id, name, wrong, source, progress_home):
    result = notebook(lesson_id).check_source(name, f"# exercise: {name}\n{source.strip()}\n")
    failed = [verdict.message for verdict in result.verdicts if verdict.outcome == "fail"]
    assert not result.passed and all(failed), wrong
