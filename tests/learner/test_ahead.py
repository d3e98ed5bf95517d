import os
import pickle
import time

import pytest
from jupyter_client.manager import start_new_kernel

from gapless import Notebook
from gapless.course.notebooks.stub import handed_out
from gapless.learner.known import Known

LESSON = "02_masked_loss"


@pytest.mark.slow
def test_checks_take_what_another_process_has_found_out_and_say_the_same():
    alone, helped = (Notebook(LESSON, device="vgpu:t4") for _ in range(2))
    helped.ahead.start()
    helped.ahead.wait()
    for name, exercise in helped.lesson.exercises.items():
        source = handed_out(exercise)
        assert str(helped.check_source(name, source)) == str(alone.check_source(name, source))
        assert helped.ahead.found(helped.lesson, exercise) is None  # it was taken
        assert {kind for kind, *_ in helped._known[name].runs} == {"full", "trial"}


def test_what_is_not_written_to_its_end_is_read_later():
    notebook = Notebook(LESSON, device="vgpu:t4")
    ahead, exercise = notebook.ahead, notebook.lesson.exercises["ignore_background"]
    assert ahead.found(notebook.lesson, exercise) is None
    found = Known.of(exercise, notebook.device_name).find_out()
    written = pickle.dumps((("", exercise.name), pickle.dumps(found)))
    ahead._command = ["true"]
    ahead.start()
    for part in (written[:-5], written[-5:]):
        assert ahead.found(notebook.lesson, exercise) is None
        os.write(ahead._file.fileno(), part)
    read = ahead.found(notebook.lesson, exercise)
    assert len(read.answers) == len(read.plan.cases) + len(read.plan.trial) and set(read.runs) == set(found.runs)


@pytest.mark.slow
def test_a_kernel_starts_it_once_somebody_reads():
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        def run(code):
            reply = client.execute_interactive(code, timeout=120, output_hook=lambda message: None,
                                               user_expressions={"started": "lesson.ahead._process is not None"})["content"]
            assert reply["status"] == "ok", "\n".join(reply["traceback"])
            return reply["user_expressions"]["started"]["data"]["text/plain"] == "True"

        assert not run(f"import gapless; lesson = gapless.Notebook({LESSON!r}, device='vgpu:t4')")
        until = time.monotonic() + 60
        while time.monotonic() < until and not run("pass"):
            time.sleep(3)
        assert run("pass")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
