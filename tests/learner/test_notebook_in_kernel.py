"""The lesson's object in a real kernel: what it hands to the notebook beside text."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from gapless.course.notebooks.stub import handed_out
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


@pytest.fixture
def server(tmp_path):
    """The address of a Jupyter server in tmp_path, whose kernels run here."""
    pytest.importorskip("jupyter_server")
    home = {**os.environ, "GAPLESS_HOME": str(tmp_path / "home"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter", "server", "--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=",
         "--ServerApp.disable_check_xsrf=True"], cwd=tmp_path, env=home, stderr=subprocess.DEVNULL)
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api"):
            break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/api"
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.slow
def test_submit_finds_the_notebook_that_jupyter_has_opened(server, tmp_path):
    """As JupyterLab and Notebook 7 open it: by a session of the server's."""
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "Copy of mine.ipynb").write_text(json.dumps(_learners_notebook(SOLVED)))
    session = {"path": "course/Copy of mine.ipynb", "name": "Copy of mine.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    order = urllib.request.Request(f"{server}/sessions", json.dumps(session).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(order) as answer:
        kernel = json.load(answer)["kernel"]["id"]
    client = BlockingKernelClient()
    client.load_connection_file(str(tmp_path / "runtime" / f"kernel-{kernel}.json"))
    client.start_channels(hb=False)  # a busy machine's kernel misses a beat, and is taken for dead
    shown = []

    def execute(code):
        reply = client.execute_interactive(code, timeout=120, output_hook=lambda message: shown.append(message["content"].get("data", {})))
        assert reply["content"]["status"] == "ok", reply["content"]
        return next(each["text/plain"] for each in reversed(shown) if "text/plain" in each)

    client.wait_for_ready(timeout=60)
    execute("import gapless; lesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g'); globals().update(lesson.lesson.names()); 1")
    assert "To hand in: hand_in/ada--02_masked_loss.ipynb" in execute("lesson.submit(name='ada')")
    assert json.loads((tmp_path / "course" / "hand_in" / "ada--02_masked_loss.ipynb").read_text())["cells"][1]["source"] == SOLVED
    execute(SOLVED.replace("return", "return 0 *") + "1")  # in the notebook that is open, and not saved
    assert "the text of ignore_background is not what you ran last" in execute("lesson.submit(name='ada')")
    client.stop_channels()


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


@pytest.mark.slow
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
