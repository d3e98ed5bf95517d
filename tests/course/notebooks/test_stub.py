"""The handed-out text of a cell, from the lesson itself: it is what the released notebooks hold."""

import json
from types import SimpleNamespace

import pytest

from gapless.course.notebooks.stub import YOUR_VERSION, handed_out
from gapless.lessons import LESSONS, find_lesson
from gapless.marker import exercise_name, file_name, joined

from ... import ROOT

RELEASED = [lesson for lesson in LESSONS if (ROOT / "notebooks" / lesson / f"{lesson}.ipynb").is_file()]


def released_cells(lesson_id):
    notebook = json.loads((ROOT / "notebooks" / lesson_id / f"{lesson_id}.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    files = {file_name(source): source for source in sources if file_name(source) and not exercise_name(source)}
    return {exercise_name(source): joined(source, files) for source in sources if exercise_name(source)}


def test_there_are_released_notebooks():
    assert "02_masked_loss" in RELEASED


@pytest.mark.parametrize("lesson_id", RELEASED)
def test_handed_out_text_is_the_released_cell(lesson_id):
    assert {name: handed_out(exercise) for name, exercise in find_lesson(lesson_id).exercises.items()} == released_cells(lesson_id)


class Toy:
    """An exercise as far as its cell goes."""

    def __init__(self, slow, name=None, stub=None):
        self.slow, self.name, self.teaching = slow, name or slow.__name__, SimpleNamespace(stub=stub)


def with_docstring(x):
    """Goes.

    All of it.
    """

    # This stays.
    return x


def only_docstring(x):
    """Stays: a function needs a body."""


def test_docstring_goes_and_the_rest_stays():
    assert handed_out(Toy(with_docstring)) == (
        f"# exercise: with_docstring\ndef with_docstring(x):\n    # This stays.\n    return x\n{YOUR_VERSION}")
    assert '"""Stays' in handed_out(Toy(only_docstring))


def test_function_inside_a_function_is_moved_to_the_left():
    def inner(x):
        return x

    assert "\ndef inner(x):\n    return x\n" in handed_out(Toy(inner))


def test_a_stated_stub_is_taken():
    assert handed_out(Toy(len, "anything", stub="# exercise: anything\nx = 1")) == "# exercise: anything\nx = 1"


@pytest.mark.parametrize("slow, name, says", [(with_docstring, "other", "is called 'with_docstring'"), (len, "len", "no source")])
def test_raises_when_the_source_cannot_be_the_cells(slow, name, says):
    with pytest.raises(ValueError, match=says):
        handed_out(Toy(slow, name))


def test_nbgrader_leaves_the_same_comment():
    assert 'code_stub = {"python": YOUR_VERSION}' in (ROOT / "nbgrader_config.py").read_text()
