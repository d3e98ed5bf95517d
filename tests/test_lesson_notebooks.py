"""The lessons' notebooks: their parts, and that they forgive mistakes. tests/test_any_order.py runs them whole."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from gapless.commands.skeleton import SUBMIT
from gapless.lessons import LESSONS

from . import ROOT


def read(folder, lesson_id="02_masked_loss"):
    return nbformat.read(ROOT / folder / lesson_id / f"{lesson_id}.ipynb", as_version=4)


def run(notebook, tmp_path, **options):
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}},
                   **options).execute()
    return {cell.id: output_text(cell) for cell in notebook.cells if cell.cell_type == "code"}


def output_text(cell):
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", "") + "".join(output.get("data", {}).get("text/plain", ""))
                     + "\n".join(output.get("traceback", [])))
    return "\n".join(parts)


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_notebook_has_the_parts_of_a_lesson(lesson_id):
    """What learners, nbgrader and the checks find their way by."""
    lesson = LESSONS[lesson_id]
    notebook = read("solutions", lesson_id)
    ids = [cell.id for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata["gapless"]["lesson"] == lesson_id
    assert ids[0] == "setup" and {"headline", "score"} <= set(ids)
    assert ids[-1] == "submit" and cell(notebook, "submit").source == SUBMIT
    for name, exercise in lesson.exercises.items():
        place = ids.index(name)
        assert ids[place + 1:place + 3] == [f"check_{name}", f"hint_{name}"]
        assert cell(notebook, name).source.startswith(f"# exercise: {name}\n")
        graded = cell(notebook, f"check_{name}").metadata["nbgrader"]
        assert graded["grade"] and graded["locked"] and graded["points"] == exercise.max_points
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert f"| points | {lesson.max_points:g}, in" in text and "| time |" in text and "<summary>Answer</summary>" in text


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_going_further_is_folded_and_its_points_are_stated(lesson_id):
    notebook = read("notebooks", lesson_id)
    further, points = False, {False: 0, True: 0}
    for each in notebook.cells:
        heading = re.search(r"^## (.*)", each.source, re.M) if each.cell_type == "markdown" else None
        if heading:
            further = heading[1].endswith("Going further")
            assert not further or each.metadata["jp-MarkdownHeadingCollapsed"]
        points[further] += each.metadata.get("nbgrader", {}).get("points", 0)
    row, = re.findall(r"^\| points \| (.*) \|$", cell(notebook, "title").source, re.M)
    assert ("Going further" in row) == bool(points[True])
    if points[True]:
        assert row.endswith(f": {points[False]:g} before *Going further*, {points[True]:g} in it")


@pytest.mark.parametrize("lesson_id", [each for each in LESSONS if each != "10_capstone"])  # there they have no numbers
def test_the_exercises_have_one_order(lesson_id):
    """In lesson.py, in the notebook and in the numbers of its headings."""
    notebook, exercises = read("solutions", lesson_id), list(LESSONS[lesson_id].exercises)
    assert [each.id for each in notebook.cells if each.id in exercises] == exercises
    numbers = [int(number) for each in notebook.cells if each.cell_type == "markdown"
               for number in re.findall(r"^#+ (?:\d+\. )?Exercise (\d+):", each.source, re.M)]
    assert numbers == list(range(1, len(exercises) + 1))


def cell(notebook, name):
    return next(c for c in notebook.cells if c.id == name)


@pytest.mark.slow
def test_mistakes_are_forgiven(tmp_path):
    """An error at full size holds no memory; a cell that does not compile or lost its name is not the old one."""
    notebook = read("notebooks")
    right = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)"
    sources = [
        cell(notebook, "setup").source,
        cell(notebook, "measure_slow").source,
        right.replace("BACKGROUND, IGNORE", "BACKGROUD, IGNORE"),
        "look(LossParts(ignore_background))",
        "look(LossParts(masked_cross_entropy=lambda pred, target: pred.nothing))",
        right,
        "look(LossParts(ignore_background)); lesson.check(ignore_background)",
        right.replace("(target):", "(target:"),
        "lesson.check(ignore_background)",
        right.replace("def ignore_background", "def background"),
        "lesson.check(ignore_background)",
        right.partition("\n")[2],
        "lesson.check(ignore_background)",
        right.replace("    return", "    print('looking at', target)\n    return"),
        "lesson.check(ignore_background)",
    ]
    changed = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s, id=f"c{i}") for i, s in enumerate(sources)])
    shown = run(changed, tmp_path, allow_errors=True)
    assert "NameError" in shown["c3"] and "AttributeError" in shown["c4"]
    assert "5 of 5 points" in shown["c6"], shown["c6"]
    assert "does not compile" in shown["c8"]
    assert "defines no function called 'ignore_background'" in shown["c10"]
    assert "5 of 5" not in shown["c12"]
    assert "Your cell printed: looking at" in shown["c14"] and "lines more" in shown["c14"]
