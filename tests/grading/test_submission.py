import pytest

from gapless.course.notebooks.submission import SubmissionError, plain_notebook
from gapless.grading.submission import find_handed_in

from .toy import GOOD_DOUBLE, GOOD_SQUARE, code, notebook, write

LESSONS = {"77_toy": ["double", "square"], "78_other": ["triple"]}


def handed_in(folder):
    return find_handed_in(folder, "77_toy", LESSONS["77_toy"])


@pytest.mark.parametrize("name", ["Copy of 77_toy.ipynb", "77_toy (1).ipynb", "77_toy.ipynb.txt", "mine.json"])
def test_a_notebook_is_known_by_its_content(tmp_path, name):
    write(notebook(GOOD_DOUBLE), tmp_path / name)
    write("no notebook", tmp_path / "notes.ipynb")
    write(notebook("# exercise: triple"), tmp_path / "78_other.ipynb")
    found = handed_in(tmp_path)
    assert found.name == name and name in found.notes[0]


def test_the_right_name_counts_and_the_others_are_named(tmp_path):
    write(notebook(GOOD_DOUBLE), tmp_path / "77_toy.ipynb")
    write(notebook(GOOD_SQUARE), tmp_path / "77_toy-Copy1.ipynb")
    found = handed_in(tmp_path)
    assert found.name == "77_toy.ipynb" and found.notes == ["Graded is 77_toy.ipynb. Also handed in, and not graded: 77_toy-Copy1.ipynb."]


def test_cells_of_two_lessons_are_each_lesson_s_own(tmp_path):
    write(notebook(GOOD_DOUBLE, "# exercise: triple"), tmp_path / "both.ipynb")
    assert handed_in(tmp_path).name == find_handed_in(tmp_path, "78_other", ["triple"]).name == "both.ipynb"


@pytest.mark.parametrize("cells, says", [([], "has none of the exercises"), (["# exercise: triple"], "has none of the exercises")])
def test_a_notebook_without_the_exercises_is_no_zero(tmp_path, cells, says):
    write(notebook(*cells), tmp_path / "77_toy.ipynb")
    with pytest.raises(SubmissionError, match=says):
        handed_in(tmp_path)


def test_what_is_there_instead_is_said(tmp_path):
    write(notebook("# exercise: triple"), tmp_path / "other.ipynb")
    write("hello", tmp_path / "x.ipynb")
    with pytest.raises(SubmissionError, match="x.ipynb is not a notebook.*other.ipynb is for another lesson.*hand in 77_toy.ipynb"):
        handed_in(tmp_path)


@pytest.mark.slow
def test_a_hundred_thousand_cells_are_read(tmp_path):
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [code("1")] * 100_000 + [code(GOOD_DOUBLE)]}
    write(content, tmp_path / "77_toy.ipynb")
    assert len(plain_notebook(handed_in(tmp_path).notebook)["cells"]) == 100_001
