"""A notebook run in this process, beside the same one run in a kernel."""

import sys

import papermill
import pytest

from gapless.grading.notebooks.engine import register
from gapless.grading.notebooks.testnotebook import run_test_notebook
from gapless.grading.sandbox.confine import GradingError

from ..toy import GOOD_DOUBLE, GOOD_SQUARE, code, notebook, write
from ..toycourse import quick_test_notebook

CELLS = [code("word = ''", tags=["parameters"]),
         "import sys\nprint('out', word)\nprint('err', file=sys.stderr)\n1 + 1\n",
         "from IPython.display import HTML, Image, display\ndisplay(HTML('<b>x</b>'), metadata={'a': 1})\n"
         "display({'image/png': 'aGVsbG8=', 'text/plain': 'a picture'}, raw=True)",
         "x = word * 2\n", "class Thing: pass\nprint(x, Thing().__class__.__name__)"]


def executed(path, engine, **parameters):
    options = {"kernel_name": "python3", "progress_bar": False, "engine_name": engine, "parameters": parameters}
    return papermill.execute_notebook(path, None, **options)


def outputs(done):
    """Of each cell: what was printed to each stream, and what was shown."""
    found = []
    for cell in done["cells"]:
        each = [*cell.get("outputs", [])]
        printed = {name: "".join(out["text"] for out in each if out.get("name") == name) for name in ("stdout", "stderr")}
        found.append((printed, [(dict(out["data"]), dict(out["metadata"])) for out in each if "data" in out]))
    return found


def test_outputs_are_a_kernels(tmp_path):
    main = sys.modules["__main__"]
    path = str(write(notebook(*CELLS, kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"}), tmp_path / "a.ipynb"))
    here, kernel = outputs(executed(path, register(), word="mine")), outputs(executed(path, None, word="mine"))
    assert here == kernel and sum(len(shown) for _, shown in here) == 3
    assert sys.modules["__main__"] is main


def test_one_leaves_nothing_for_the_next_and_a_failure_is_told(tmp_path):
    first = write(quick_test_notebook("left = 1\n"), tmp_path / "a.ipynb")
    second = write(quick_test_notebook("assert 'left' not in dir(), 'it is there'\nraise ValueError('mine')\n"), tmp_path / "b.ipynb")
    submission = write(notebook(GOOD_DOUBLE, GOOD_SQUARE), tmp_path / "s.ipynb")
    results, _ = run_test_notebook(first, submission, seed=3, here=True)
    assert results["seed"] == 3
    with pytest.raises(GradingError, match="ValueError: mine"):
        run_test_notebook(second, submission, here=True)
