"""What is said of a test that hangs, in a run of pytest's own."""

import subprocess
import sys

import pytest

from . import ROOT

HANGS = """
import subprocess, sys

def test_hangs():
    subprocess.run([sys.executable, "-c", "import time\\ndef asleep(): time.sleep(600)\\nasleep()"])

def test_goes_on():
    pass
"""


@pytest.mark.slow
def test_it_fails_with_the_stacks_of_what_it_has_started_and_the_next_runs(tmp_path):
    (tmp_path / "test_one.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.hangs import *\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", "-o", "faulthandler_timeout=30",
                           "-o", "faulthandler_exit_on_timeout=true", tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False)
    for said in ("test_one.py::test_hangs: not done within 15 s", "asleep", "crashed while running", "1 failed, 1 passed"):
        assert said in done.stdout, done.stdout + done.stderr
