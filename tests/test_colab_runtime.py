"""All lessons' notebooks in an environment like Colab's, where ``GAPLESS_COLAB_PYTHON`` names its interpreter (else skipped):
some fifteen minutes. benchmarks/colab_runtime.py says what belongs into it."""

import os
import subprocess

import pytest

from gapless.lessons import LESSONS

from . import ROOT

PYTHON = os.environ.get("GAPLESS_COLAB_PYTHON")


@pytest.mark.skipif(not PYTHON, reason="set GAPLESS_COLAB_PYTHON to an interpreter like Colab's")
@pytest.mark.parametrize("lesson_id", LESSONS)
def test_a_lesson_runs_and_scores_as_everywhere(lesson_id, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "GAPLESS_HOME": str(tmp_path),
                   "PATH": os.pathsep.join([os.path.dirname(PYTHON), os.environ["PATH"]])}
    done = subprocess.run([PYTHON, ROOT / "benchmarks" / "colab_runtime.py", lesson_id], env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count("ok ") == 2, done.stdout
