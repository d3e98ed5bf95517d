"""Which cell a check is about, in a real kernel."""

import os

import pytest
from jupyter_client.manager import start_new_kernel

NAME = "ignore_background"
MARK = f"# exercise: {NAME}\n"
FAST = f"def {NAME}(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"
WRONG = f"def {NAME}(target):\n    return target * 0\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run cells one after another, in a kernel where none has been run before: the last one's text, or its traceback."""
    home = str(tmp_path_factory.mktemp("progress-home"))
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, "GAPLESS_HOME": home})

    def execute(*cells):
        shown = []

        def collect(message):
            content = message["content"]
            if message["msg_type"] == "execute_result":
                shown.append(content["data"]["text/plain"])
            if message["msg_type"] == "error":
                shown.append("\n".join(content["traceback"]))

        client.execute_interactive("get_ipython().history_manager.input_hist_raw.clear()\n"
                                   "get_ipython().history_manager.input_hist_parsed.clear()", timeout=60)
        for cell in cells:
            shown.clear()
            client.execute_interactive(cell, timeout=120, output_hook=collect)
        return "\n".join(shown)

    execute("import gapless; lesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g'); globals().update(lesson.lesson.names())")
    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


CHECK = f"lesson.check({NAME})"


@pytest.mark.parametrize("cells, says", [
    ((MARK + FAST, CHECK), "5 of 5 points"),
    ((MARK + FAST, FAST, CHECK), "comes from a cell that does not begin with the line '# exercise: ignore_background' (it begins with `def"),
    ((MARK + FAST, "# excercise: ignore_background\n" + WRONG, CHECK), "it begins with `# excercise: ignore_background`"),
    ((MARK + FAST, "# exercise: ignore_backgroud\n" + WRONG, CHECK), "would take the older cell that has it"),
    ((FAST, CHECK), "does not begin with the line"),
    ((MARK + f"{NAME} = lambda target: torch.where(target == BACKGROUND, IGNORE, target)\n", CHECK), "5 of 5 points"),
    ((MARK + FAST, f"lesson.check('{NAME}')"), "5 of 5 points"),
    ((f"lesson.check('{NAME}')",), "has been run yet: run it, then this one"),
    ((MARK + FAST.replace(NAME, "ignore_backgrounds"), "lesson.check(ignore_backgrounds)"), "defines no function called 'ignore_background'"),
    ((MARK + FAST, MARK + FAST.replace("):", ":"), CHECK), "does not compile"),
    ((MARK + FAST, MARK + WRONG, CHECK), "0 of 5 points"),
    ((MARK + FAST, f"lesson.check({NAME}(torch.zeros(2, 2, 2).long()))"), "check takes a function, but this is a Tensor"),
    (("lesson.check('ignore_backgroud')",), "'ignore_backgroud' is not an exercise of this lesson; its exercises are ignore_background,"),
    (("lesson.check(len)",), "'len' is not an exercise of this lesson"),
])
def test_the_marked_cell_is_what_is_checked(run, cells, says):
    shown = run(*cells)
    assert says in shown
    assert "Traceback" not in shown and "site-packages" not in shown and "learner/" not in shown
