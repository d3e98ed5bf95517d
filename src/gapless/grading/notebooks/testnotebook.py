"""Running a lesson's test notebook with papermill.

The notebook is the instructor's own and trusted; it starts the processes that run cells and writes the results. It runs
in the very interpreter that runs this, whichever kernels else are installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ...files import temporary_folder
from ..sandbox.confine import UNCONFINED, GradingError

FOLDER = "autograde"
_KERNEL = "gapless-grading"
_STARTS = 3  # of a kernel
_environment = threading.Lock()


def find_test_notebook(lesson_id: str, folder: str | os.PathLike = FOLDER) -> Path:
    """The path of a lesson's test notebook. Raises GradingError where there is none."""
    path = Path(folder) / f"{lesson_id}.ipynb"
    if not path.is_file():
        raise GradingError(f"there is no test notebook {path}: run this in the course's folder, or name the folder")
    return path


def run_test_notebook(notebook: str | os.PathLike, submission: str | os.PathLike, device: str | None = None,
                      seed: int | None = None, unconfined: bool = False, here: bool = False) -> tuple[dict, dict]:
    """Run a test notebook on the notebook file ``submission``: (results JSON, executed notebook).

    ``device`` and ``seed`` as for :class:`gapless.grading.grade.Grader`; what is returned holds the seed.
    ``unconfined``: whether to grade without a sandbox where there is none. ``here``: in this process, in place of a kernel.
    Raises GradingError where the notebook does not run to its end.
    """
    try:
        import papermill
    except ImportError:
        raise GradingError("this needs papermill: pip install 'gapless[grading]'") from None
    with temporary_folder() as folder:
        results = folder / "results.json"
        try:
            environment = {UNCONFINED: "1"} if unconfined else {}
            with _environ(environment) if here else _own_kernel(folder, environment):
                executed = _started(lambda: papermill.execute_notebook(
                    os.path.abspath(notebook), None, kernel_name=_KERNEL, progress_bar=False, cwd=str(folder),
                    engine_name=_engine() if here else None,
                    parameters={"submission": os.path.abspath(submission), "device": device, "seed": seed,
                                "results": str(results)}))
            return check_results(json.loads(results.read_text(encoding="utf-8"))), executed
        except GradingError:
            raise
        except papermill.PapermillExecutionError as error:
            raise GradingError(f"the test notebook {notebook} did not run to its end: {error.ename}: {error.evalue}"
                               ) from error
        except Exception as error:
            raise GradingError(f"the test notebook {notebook} did not run to its end: {error}") from error


def _started(execute: Callable[[], dict]) -> dict:
    """What ``execute`` returns. A kernel that could not start is started again: its ports are chosen before it has them, and
    another kernel may have been faster."""
    for _ in range(_STARTS - 1):
        try:
            return execute()
        except RuntimeError as error:  # jupyter_client's
            if "Kernel died before replying" not in str(error):
                raise
    return execute()


def _engine() -> str:
    from .engine import register

    return register()


def check_results(results) -> dict:
    """``results`` where it has the agreed form. Raises GradingError."""
    try:
        for key in ("lesson", "device", "simulated", "score", "max_score", "confinement", "seed", "notes"):
            results[key]
        for check in results["checks"]:
            if not 0 <= check["earned"] <= check["points"]:
                raise ValueError(f"{check['id']} earned {check['earned']} of {check['points']} points")
            check["exercise"], check["outcome"], check["message"]
    except (KeyError, TypeError, ValueError) as error:
        raise GradingError(f"the results are not of the agreed form: {error!r}") from None
    return results


@contextlib.contextmanager
def _own_kernel(folder: Path, environment: dict[str, str]):
    """A kernel specification for this interpreter, first on the path where kernels are looked for.

    What the kernel keeps for a while lies in ``folder`` too: it goes with it, even where the kernel is killed.
    """
    spec = folder / "jupyter" / "kernels" / _KERNEL
    spec.mkdir(parents=True)
    temporary = folder / "tmp"
    temporary.mkdir()
    (spec / "kernel.json").write_text(json.dumps({
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}",
                 "--HistoryManager.hist_file=:memory:",
                 "--IPKernelApp.log_level=ERROR"],  # else each grading warns of TCP, which does not leave the machine
        "display_name": "Python 3", "language": "python",
        "env": {**dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary)), **environment}}), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(spec.parent.parent), os.environ.get("JUPYTER_PATH")]))
    with _environment, _environ({"JUPYTER_PATH": path}):
        yield


@contextlib.contextmanager
def _environ(variables: dict[str, str]):
    """These environment variables, inside."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
