import json
import os

import pytest

from gapless.course.notebooks.submission import SubmissionError, plain_notebook, read_submission
from gapless.marker import parts

from ...grading.toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, code, markdown, notebook, write

LESSONS = {"77_toy": ["double", "square"], "78_other": ["triple"]}


def read(tmp_path, content, name="mine.ipynb", **options):
    return read_submission(write(content, tmp_path / name), LESSONS, **options)


def test_cells_are_found_by_their_marker_line(tmp_path):
    submission = read(tmp_path, notebook("import torch", markdown(GOOD_SQUARE), GOOD_DOUBLE, "\n \n" + GOOD_SQUARE,
                                         "x = 1\n# exercise: double\n"))
    assert submission.cells == {"double": GOOD_DOUBLE, "square": "\n \n" + GOOD_SQUARE}
    assert submission.lesson_id == "77_toy"


def test_a_source_may_be_a_list_of_lines(tmp_path):
    assert read(tmp_path, notebook(code(GOOD_DOUBLE.splitlines(keepends=True)))).cells["double"] == GOOD_DOUBLE


def test_of_duplicates_the_last_counts_and_a_note_says_so(tmp_path):
    submission = read(tmp_path, notebook(GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE))
    assert submission.cells["double"] == SLOW_DOUBLE
    assert len(submission.notes) == 1 and "more than once" in submission.notes[0]


def test_what_is_missing_or_strange_is_noted(tmp_path):
    notes = " ".join(read(tmp_path, notebook(GOOD_DOUBLE, "# exercise: cube\n", markdown("# exercise: square"))).notes)
    assert "'cube'" in notes and "markdown" in notes and "# exercise: square" in notes


@pytest.mark.parametrize("metadata, cells, name, expected", [
    ({"gapless": {"lesson": "78_other"}}, [GOOD_DOUBLE], "mine.ipynb", "78_other"),
    ({}, ["# exercise: triple"], "77_toy.ipynb", "78_other"),
    ({}, [], "77_toy.ipynb", "77_toy"),
    ({"gapless": "odd"}, [GOOD_DOUBLE], "Copy of it (1).ipynb", "77_toy"),
])
def test_the_lesson_is_found(tmp_path, metadata, cells, name, expected):
    assert read(tmp_path, notebook(*cells, **metadata), name).lesson_id == expected


@pytest.mark.parametrize("above", ["%%time\n", "\n!pip install x\n%matplotlib inline\n"])
def test_a_cell_under_jupyters_commands_is_the_exercises(tmp_path, above):
    assert read(tmp_path, notebook(above + GOOD_DOUBLE)).cells == {"double": above + GOOD_DOUBLE}


def test_a_stated_lesson_wins(tmp_path):
    metadata = {"gapless": {"lesson": "78_other"}}
    assert read(tmp_path, notebook(GOOD_DOUBLE, **metadata), lesson_id="77_toy").cells == {"double": GOOD_DOUBLE}


@pytest.mark.parametrize("content, says", [
    ("", "is empty"),
    ("  \n", "is empty"),
    ("print('hello')", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ("[1, 2]", "not a notebook"),
    ('{"cells": []}', "no 'nbformat'"),
    ('{"nbformat": 3, "worksheets": []}', "format 3"),
    ('{"nbformat": 4}', "no list of cells"),
    ('{"nbformat": 4, "cells": [1]}', "no list of cells"),
    (json.dumps(notebook("x = 1")), "unknown lesson 'mine'. Known lessons: 77_toy, 78_other"),
    (json.dumps(notebook(GOOD_DOUBLE, gapless={"lesson": "99"})), "unknown lesson '99'"),
])
def test_what_cannot_be_graded_says_why(tmp_path, content, says):
    with pytest.raises(SubmissionError, match=says.replace(".", r"\.")):
        read(tmp_path, content)


def test_files_that_are_none(tmp_path):
    for path, says in ((tmp_path, "is a folder"), (tmp_path / "no.ipynb", "cannot be read")):
        with pytest.raises(SubmissionError, match=says):
            read_submission(path, LESSONS)
    if hasattr(os, "mkfifo"):  # nobody ever writes to it
        os.mkfifo(tmp_path / "pipe.ipynb")
        with pytest.raises(SubmissionError, match="not a regular file"):
            read_submission(tmp_path / "pipe.ipynb", LESSONS)
    (tmp_path / "bytes.ipynb").write_bytes(b"\xff\xfd\x00\x01")
    with pytest.raises(SubmissionError, match="not text"):
        read_submission(tmp_path / "bytes.ipynb", LESSONS)


def test_a_plain_notebook_can_be_written_and_keeps_what_is_graded(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    odd = notebook(GOOD_DOUBLE, code("x = '\ud83d'\r\n", nbgrader={"grade_id": "check", "points": 100}), markdown("text"))
    odd["cells"] += [{"cell_type": "heading", "source": ["a", 1]}, {"cell_type": "code", "metadata": 3, "source": None}]
    plain = plain_notebook(odd)
    nbformat.validate(plain)
    assert [(cell["cell_type"], cell["source"]) for cell in plain["cells"]] == [
        ("code", GOOD_DOUBLE), ("code", "x = '?'\n"), ("markdown", "text"), ("raw", "a"), ("code", "")]
    assert plain["cells"][1]["metadata"] == {"nbgrader": {"grade_id": "check"}}


def test_of_what_is_attached_to_a_text_pictures_are_kept():
    nbformat = pytest.importorskip("nbformat")
    picture = {"image/png": "iVBO\nRw0KGgo="}
    text = {**markdown("![one](attachment:a.png)"), "attachments": {
        "a.png": {**picture, "text/html": "<b>"}, "page": {"text/html": "<b>"}, "broken": {"image/png": "a?b="},
        "empty": {"image/png": ""}, "number": {"image/png": 3}, "list": [], "\ud83d": picture}}
    plain = plain_notebook(notebook(GOOD_DOUBLE, text, {**markdown("y"), "attachments": ["a.png"]}))
    nbformat.validate(plain)
    assert plain["cells"][1]["attachments"] == {"a.png": picture, "?": picture}
    assert "attachments" not in plain["cells"][2]


def test_the_files_of_a_program_are_put_together_with_the_exercise(tmp_path):
    last = "# exercise: double\n# file: main.py\ndef double(x):\n    return helper(x)"
    first = "# file: tools.py\ndef helper(x):\n    return 2 * x"
    found = read(tmp_path, notebook(first, last, first.replace("2", "3")))
    assert list(parts(found.cells["double"])) == ["tools.py", "main.py"] and "3 * x" in found.cells["double"]
    assert any("tools.py is there more than once" in note for note in found.notes)
