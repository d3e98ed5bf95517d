import io
import os
import pickle
import subprocess
import sys

import pytest

from gapless.lessons import find_lesson

LESSON = "02_masked_loss"


def found_out(process: str) -> bytes:
    command = [sys.executable, "-m", "gapless.learner.find_out", process, LESSON, "vgpu:t4"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


@pytest.mark.slow
def test_every_exercise_is_found_out():
    written = io.BytesIO(found_out(str(os.getpid())))
    keys = [pickle.load(written)[0] for _ in find_lesson(LESSON).exercises]
    assert keys == [("", name) for name in find_lesson(LESSON).exercises] and not written.read()


@pytest.mark.slow
def test_nothing_is_found_out_for_a_process_that_has_ended():
    assert found_out("-1") == b""  # nobody has that number
