"""The lesson's object in a real kernel: what it hands to the notebook beside text."""

import json
import os

import pytest
from jupyter_client.manager import start_new_kernel

from gapless.course.stub import handed_out
from gapless.lessons import find_lesson

from .. import forked


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run code in a kernel where nothing is recorded yet: (the reply's content, the display data by type)."""
    home = str(tmp_path_factory.mktemp("progress-home"))
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, "GAPLESS_HOME": home})

    def execute(code):
        shown = {}

        def collect(message):
            if message["msg_type"] == "execute_result":
                shown.update(message["content"]["data"])

        reply = client.execute_interactive(code, timeout=120, output_hook=collect)["content"]
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        return reply, shown

    execute("import gapless; lesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g')")
    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_reset_puts_the_text_into_a_new_cell(run):
    reply, shown = run("lesson.reset('ignore_background')")
    text = handed_out(find_lesson("02_masked_loss").exercises["ignore_background"])
    offered, = [each for each in reply["payload"] if each["source"] == "set_next_input"]
    assert (offered["text"], offered["replace"]) == (text, False)
    assert "delete your old cell" in shown["text/plain"] and shown["text/plain"].endswith(text)


def test_progress_is_a_table_and_text(run):
    run("lesson.check_source('ignore_background', '# exercise: ignore_background\\n1 / 0')")
    for code in ("lesson.progress()", "gapless.progress()"):
        shown = run(code)[1]
        assert "<table>" in shown["text/html"] and "of 21" in shown["text/plain"] and "started" in shown["text/html"]


SOLVED = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"


@pytest.mark.parametrize("source, says", [
    ("%%time\n" + SOLVED, "`%%time` (line 1)"),
    (SOLVED + "!echo done\n", "`!echo done` (line 4)"),
    (SOLVED + "files = !ls\n", "`files = !ls` (line 4)"),
    ("%matplotlib inline\n" + SOLVED, "`%matplotlib inline` (line 1)"),
    ("%%time\n" + SOLVED.partition("\n")[2], "does not begin with the line"),
])
def test_the_check_reads_the_cell_as_grading_does(run, source, says):
    """Jupyter runs them all; grading has the text only."""
    run("globals().update(lesson.lesson.names())")
    run("get_ipython().history_manager.input_hist_raw.clear()")
    run(source)
    shown = run("lesson.check(ignore_background)")[1]["text/plain"]
    assert "0 of 5 points" in shown and says in shown
    if "line" in says and "begin" not in says:
        assert says in run(f"lesson.check_source('ignore_background', {source!r})")[1]["text/plain"]
    run(SOLVED)
    assert "5 of 5 points" in run("lesson.check(ignore_background)")[1]["text/plain"]


def _learners_notebook(cell):
    def code(source, **nbgrader):
        metadata = {"nbgrader": {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False,
                                 **nbgrader}} if nbgrader else {}
        return {"cell_type": "code", "id": str(abs(hash(source)))[:8], "metadata": metadata, "source": source, "outputs": [],
                "execution_count": None}

    cells = [code("import gapless\nlesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g')\n"
                  "globals().update(lesson.lesson.names())"),
             code(cell, grade_id="ignore_background", solution=True),
             code("lesson.check(ignore_background)", grade_id="check_ignore_background", grade=True, locked=True, points=5)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


@pytest.mark.parametrize("cell, says", [
    (handed_out(find_lesson("02_masked_loss").exercises["ignore_background"]), ("VALIDATION FAILED ON 1 CELL", "0 of 5 points")),
    (SOLVED, ("Success! Your notebook passes all the tests",)),
])
def test_nbgraders_validate_tells_the_truth(tmp_path, cell, says):
    """As the button in a learner's JupyterLab does, with no configuration at hand."""
    pytest.importorskip("nbgrader")
    (tmp_path / "mine.ipynb").write_text(json.dumps(_learners_notebook(cell)))
    environment = {**os.environ, "GAPLESS_HOME": str(tmp_path / "home")}
    done = forked.run("-m", "nbgrader", "validate", "mine.ipynb", imports=forked.NBGRADER, cwd=tmp_path, env=environment)
    for words in says:
        assert words in done.stdout, done.stdout + done.stderr
