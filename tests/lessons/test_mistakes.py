"""The known mistakes of every lesson that are written as changes: each fits its code, compiles, and makes other code of it."""

import ast
import importlib

import pytest

from gapless.course.mistakes import FILE, Changed, right_code
from gapless.lessons import LESSONS

from .. import ROOT

LISTED = sorted((ROOT / "src" / "gapless" / "lessons").rglob(FILE))


@pytest.mark.parametrize("path", LISTED, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_every_change_fits_and_makes_other_code(path):
    lesson, name = path.parent.parent.name, path.parent.name
    exercise, = (each.exercises[name] for each in LESSONS.values() if each.id[3:] == lesson)
    package = f"gapless.lessons.{lesson}.{name}"
    mistakes = exercise.teaching.mistakes or importlib.import_module(f"{package}.explain").MISTAKES
    made = [mistake for mistake in mistakes if isinstance(mistake, Changed)]
    assert made
    seen = {ast.dump(ast.parse(right_code(package, made[0].file)))}
    for mistake in made:
        tree = ast.dump(ast.parse(mistake.source))
        assert tree not in seen, mistake.why
        seen.add(tree)
        assert callable(mistake.function)
