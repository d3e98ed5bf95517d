"""The annotated solutions show the reference solution's own code."""

import re

import nbformat
import pytest

from gapless.course.solution import annotated_solution
from gapless.lessons import LESSONS

from .. import ROOT

EXERCISES = [(lesson_id, name) for lesson_id, lesson in LESSONS.items() for name in lesson.exercises]


@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_the_code_is_that_of_the_source_notebook_and_remarks_follow(lesson_id, name):
    notebook = nbformat.read(ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if cell.id == name)
    solved, = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.S)
    text = annotated_solution(LESSONS[lesson_id], name)
    shown, = re.findall(r"```python\n(.*?)```", text, re.S)
    assert shown.strip() == solved.strip()
    assert 3 <= len(re.findall(r"^[-*] ", text.rpartition("```")[2], re.M)) <= 8
