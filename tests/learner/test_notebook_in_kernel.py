"""The lesson's object in a real kernel: what it hands to the notebook beside text."""

import os

import pytest
from jupyter_client.manager import start_new_kernel

from gapless.course.stub import handed_out
from gapless.lessons import find_lesson


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
        assert "<table>" in shown["text/html"] and "of 21" in shown["text/plain"] and "begun" in shown["text/html"]
