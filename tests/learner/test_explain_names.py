"""What a notebook says of a name that is not there, in a real kernel; every other error is as it was."""

import pytest
from jupyter_client.manager import start_new_kernel

from gapless.learner.explain_names import EXPLAINED, explanation


@pytest.fixture(scope="module")
def error_of():
    """Run code in a kernel with a lesson: (the reply's content, the text of the error that was shown)."""
    manager, client = start_new_kernel(kernel_name="python3")

    def execute(code):
        shown = []
        reply = client.execute_interactive(code, timeout=120, output_hook=lambda message: shown.append(message))["content"]
        errors = [message["content"] for message in shown if message["msg_type"] == "error"]
        assert len(errors) <= 1, "an error is shown once"
        return reply, "\n".join(errors[0]["traceback"]) if errors else ""

    execute("import gapless; lesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g')")
    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_an_exercises_name_leads_to_its_cell(error_of):
    reply, shown = error_of("lesson.check(ignore_background)")
    assert (reply["status"], reply["ename"]) == ("error", "NameError")
    assert "NameError" in shown and "lesson.check(" in shown  # the error itself, with its line
    assert shown.splitlines()[-1].startswith(EXPLAINED) and "`# exercise: ignore_background`" in shown
    assert shown.count(EXPLAINED) == 1


def test_another_name_leads_further_up(error_of):
    reply, shown = error_of("def f():\n    return look()\nf()")
    assert reply["ename"] == "NameError" and "Run All Above Selected Cell" in shown.splitlines()[-1]


def test_twice_the_lesson_is_one_explanation(error_of):
    error_of("lesson = gapless.Notebook('02_masked_loss', device='vgpu:a10g')")
    assert error_of("nothing_like_it")[1].count(EXPLAINED) == 1


@pytest.mark.parametrize("code", [
    "import no_such_module", "lesson.nothing", "1 / 0", "def f():\n    a = b\n    b = 1\nf()",
    "import string; string.Template('${x}').substitute()",  # a KeyError inside a package
    "assert False", "raise NameError('said by hand')",
])
def test_other_errors_are_as_they_were(error_of, code):
    reply, shown = error_of(code)
    assert reply["status"] == "error" and reply["ename"] in shown and EXPLAINED not in shown


def test_an_error_in_a_package_is_none_of_the_notebooks(error_of):
    assert EXPLAINED not in error_of("import string; exec(compile('missing', string.__file__, 'exec'))")[1]


def test_a_misspelt_name_is_shown_its_likeness():
    text = explanation("BACKGROUD", ["train"], ["BACKGROUND", "_BACKGROUD", "torch"])
    assert "there is a `BACKGROUND`: is `BACKGROUD` misspelt?" in text and "further up" in text
    assert "misspelt" not in explanation("mine", ["train"], ["torch", "device"])
