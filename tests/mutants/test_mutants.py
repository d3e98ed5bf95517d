"""A few changes of each solution of lessons 00 to 09, drawn by a fixed seed: none passes that is not listed.

``python -m tests.mutants`` tries all.
"""

import subprocess
import sys

import pytest

from .. import ROOT


@pytest.mark.slow
def test_a_few_changes_of_every_solution_are_noticed_or_listed(tmp_path):
    command = [sys.executable, "-m", "tests.mutants", "--only", "0*", "--share", "0.01", "--out", str(tmp_path / "mutants.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
