"""What the tests of the learner's commands share: a copy of the released notebook, saving it, and the command line."""

import json

import pytest

from gapless.commands.cli import main

from .. import ROOT
from .learner import LESSON


@pytest.fixture
def notebook(tmp_path, progress_home):
    """The learner's copy of lesson 02, in a folder of its own."""
    path = tmp_path / "course" / f"{LESSON}.ipynb"
    path.parent.mkdir()
    path.write_bytes((ROOT / "notebooks" / LESSON / path.name).read_bytes())
    return path


@pytest.fixture
def put():
    """``put(path, name, source)``: save the notebook with another text in the exercise's cell; None takes the cell out."""

    def change(path, name, source):
        content = json.loads(path.read_text(encoding="utf-8"))
        for cell in list(content["cells"]):
            if "".join(cell["source"]).startswith(f"# exercise: {name}\n"):
                if source is None:
                    content["cells"].remove(cell)
                else:
                    cell["source"] = source.splitlines(keepends=True)
        # As JupyterLab saves: another file in its place.
        new = path.with_name(f".~{path.name}")
        new.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(path)

    return change


@pytest.fixture
def gapless(capsys):
    """Run the command line: (exit status, what it printed, what it complained)."""

    def run(*arguments):
        status = main([*map(str, arguments)])
        return status, *capsys.readouterr()

    return run
