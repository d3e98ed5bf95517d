"""The course's first page: it lists every lesson, its links lead somewhere, and it runs."""

import json
import re
import urllib.request

import nbformat
import pytest
from nbclient import NotebookClient

from gapless.lessons import LESSONS

from . import ROOT
from .browser.server import GAPLESS_LAB, served

NOTEBOOKS = ROOT / "notebooks"
INDEX = nbformat.read(NOTEBOOKS / "index.ipynb", as_version=4)


def test_lists_every_lesson_and_no_other():
    links = re.findall(r"\]\(((?!https:)\S+\.ipynb)\)", INDEX.cells[0].source)
    assert links == [f"{lesson}/{lesson}.ipynb" for lesson in LESSONS]
    assert all((NOTEBOOKS / link).is_file() for link in links)


@pytest.mark.slow
def test_runs_from_the_top(tmp_path):
    notebook = INDEX.copy()
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = {cell.id: "".join(output.get("text", "") + str(output.get("data", "")) for output in cell.outputs)
             for cell in notebook.cells if cell.cell_type == "code"}
    assert "virtual GPU" in shown["doctor"] or "cuda" in shown["doctor"]
    assert all(lesson in shown["progress"] for lesson in LESSONS)


def test_progress_comes_before_anything_technical():
    ids = [cell.id for cell in INDEX.cells]
    assert ids.index("progress") < ids.index("doctor")
    doctor, = [cell.source for cell in INDEX.cells if cell.id == "doctor"]
    assert doctor.endswith("doctor --short")


@pytest.mark.slow
def test_gapless_lab_opens_it(tmp_path):
    """Its command, in a real server: where its first page leads."""
    pytest.importorskip("jupyterlab")
    with served(*GAPLESS_LAB, cwd=ROOT, home=tmp_path) as address:
        assert address.endswith("/lab/tree/index.ipynb")  # what the browser is given
        root = re.match(r"http://[^/]+/", address)[0]
        with urllib.request.urlopen(root) as page:
            assert page.url == address and page.status == 200
        with urllib.request.urlopen(f"{root}api/contents/index.ipynb?content=0") as page:
            assert json.load(page)["type"] == "notebook"
