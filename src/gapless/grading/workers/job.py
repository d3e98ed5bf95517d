"""The grading of one submission as data: what a worker needs, and what comes back. It can be done on any machine."""

from __future__ import annotations

import functools
import json
import secrets
import sys
import threading
from dataclasses import dataclass, field
from importlib.metadata import version

from ...files import temporary_folder
from ..notebooks.testnotebook import run_test_notebook
from ..sandbox.confine import GradingError, require_confinement

_ONE_AT_A_TIME = threading.Lock()  # a process has one card in use


@dataclass(frozen=True)
class Job:
    """One submission to be graded. ``submission`` and ``test_notebook``: the files' content. ``device``: '' for the
    course's. ``attempts``: how often to try where a measurement was too noisy to decide. ``versions``: :func:`versions` of
    who wants it graded."""

    lesson: str
    submission: bytes
    test_notebook: bytes
    device: str = ""
    unconfined: bool = False
    attempts: int = 3
    versions: str = field(default_factory=lambda: versions())  # type: ignore[has-type]  # it is below


@dataclass(frozen=True)
class Outcome:
    """``results``: as :meth:`..grade.Result.to_json` gives them; ``executed``: the executed test notebook. JSON types."""

    results: dict
    executed: dict


@functools.cache
def versions() -> str:
    """What has to be the same wherever a class is graded: a verdict hangs on it."""
    torch = version("torch").partition("+")[0]  # what it was built for decides nothing
    return f"gapless {version('gapless')}, torch {torch}, Python {sys.version_info.major}.{sys.version_info.minor}"


def check_versions(wanted: str) -> None:
    """Raise GradingError where this process has others than ``wanted``."""
    if wanted != versions():
        raise GradingError(f"this worker has {versions()}, and the class is graded with {wanted}: install the same on both")


def grade_job(job: Job, here: bool = True) -> Outcome:
    """Grade a submission. ``here``: from this process, else from a kernel; its cells run in a sandbox either way. Raises
    GradingError.
    """
    check_versions(job.versions)
    require_confinement(job.unconfined)
    with _ONE_AT_A_TIME, temporary_folder() as folder:
        test_notebook, submission = folder / "test.ipynb", folder / f"{job.lesson}.ipynb"
        test_notebook.write_bytes(job.test_notebook)
        submission.write_bytes(job.submission)
        for _ in range(job.attempts):
            seed = secrets.randbits(64)
            results, executed = run_test_notebook(test_notebook, submission, job.device or None, seed,
                                                  unconfined=job.unconfined, here=here)
            if not any(check["outcome"] == "inconclusive" for check in results["checks"]):
                break
        else:
            raise GradingError(f"the measurements were too noisy {job.attempts} times; no score is stored. Grade again when "
                               "the machine is quiet")
    if results["lesson"] != job.lesson:
        raise GradingError(f"the test notebook of {job.lesson} is for lesson {results['lesson']}")
    if results["seed"] != seed:
        raise GradingError(f"the test notebook of {job.lesson} does not use the seed it is given: make it again with make "
                           "notebooks")
    return Outcome(results, json.loads(json.dumps(executed)))
