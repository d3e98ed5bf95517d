"""The course's first page: it lists every lesson, its links lead somewhere, and it runs."""

import re

import nbformat
from nbclient import NotebookClient

from gapless.lessons import LESSONS

from . import ROOT

NOTEBOOKS = ROOT / "notebooks"
INDEX = nbformat.read(NOTEBOOKS / "index.ipynb", as_version=4)


def test_lists_every_lesson_and_no_other():
    links = re.findall(r"\]\((\S+\.ipynb)\)", INDEX.cells[0].source)
    assert links == [f"{lesson}/{lesson}.ipynb" for lesson in LESSONS]
    assert all((NOTEBOOKS / link).is_file() for link in links)


def test_runs_from_the_top(tmp_path):
    notebook = INDEX.copy()
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {cell.id: "".join(output.get("text", "") + str(output.get("data", "")) for output in cell.outputs)
             for cell in notebook.cells if cell.cell_type == "code"}
    assert "virtual GPU" in shown["doctor"] or "cuda" in shown["doctor"]
    assert all(lesson in shown["progress"] for lesson in LESSONS)
