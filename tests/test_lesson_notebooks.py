"""The lessons' notebooks in a real kernel: they run from the top, solved and unsolved, and forgive mistakes."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
LESSON = "02_masked_loss"


def read(folder):
    return nbformat.read(ROOT / folder / LESSON / f"{LESSON}.ipynb", as_version=4)


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


@pytest.mark.parametrize("folder, score", [("notebooks", "8 of 21"), ("solutions", "21 of 21")])
def test_notebook_runs_from_the_top(folder, score, tmp_path):
    shown = run(read(folder), tmp_path)
    assert shown["score"].rstrip().endswith(score)
    assert "simulated" in shown["summary_table"] or "measured" in shown["summary_table"]
    assert "Timeline of 3 steps" in shown["measure_picture"]  # the picture's alternative text


def cell(notebook, name):
    return next(c for c in notebook.cells if c.id == name)


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
