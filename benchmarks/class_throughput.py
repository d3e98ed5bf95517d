"""How fast a class is graded, and what memory that takes.

    taskset -c 0,1 python benchmarks/class_throughput.py [--lesson 02_masked_loss] [--students 12] [--hanging 0]
        [--modes before sequential warm dask] [--before FOLDER] [--scheduler ADDRESS] [--workers N]

A course of nbgrader's is made in a temporary folder. Its students hand in the lesson's solution with some exercises as
handed out, none, one, two, … in turn; ``--hanging`` of them never end in one exercise. All on a virtual GPU. The class is
graded anew in each mode:

- ``before``: by the ``nbgrader autograde`` of another checkout with its own ``.venv``, ``--before FOLDER``;
- ``sequential``: one after another, each in a kernel and servers of its own, as ``nbgrader autograde`` did before workers;
- ``warm``: ``nbgrader autograde`` as it is: workers that keep what they have imported;
- ``dask``: ``nbgrader autograde --Autograde.scheduler``, on workers that you have started.

Printed: real seconds; submissions an hour; CPU seconds (without those of processes that were killed in the end, which
no system call tells); most memory at once (proportional set size of all that the mode started, MB, Linux); and whether all
scores are equal to those of the first mode. Below each mode the most memory in each tenth of its time.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

_SUBREAPER = 36
ROOT = Path(__file__).parent.parent
BARE = """
import sys
import gapless.grading.autograde as autograde
from concurrent.futures import ThreadPoolExecutor
from gapless.grading.workers.job import grade_job
from gapless.grading.workers.pool import LocalWorkers
import gapless.grading.workers.pool as pool

class Cold(LocalWorkers):  # one at a time: gradings in kernels of one process wait for each other
    def begin(self): return ThreadPoolExecutor(1)
    def end(self, at_once=False): self.executor.shutdown(cancel_futures=at_once)

pool._grade = lambda given: grade_job(given, here=False)
autograde.LocalWorkers = Cold
from nbgrader.apps import NbGraderApp
sys.argv[0] = "nbgrader"
NbGraderApp.launch_instance()
"""


def answers(lesson: str, students: int, hanging: int) -> list[dict]:
    """Notebooks of a class."""
    def notebook(folder: str) -> dict:
        return json.loads((ROOT / folder / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))

    solved, handed_out = notebook("solutions"), notebook("notebooks")
    slow = {cell["metadata"]["nbgrader"]["grade_id"]: cell["source"] for cell in handed_out["cells"]
            if cell["metadata"].get("nbgrader", {}).get("solution")}
    names = list(slow)
    found = []
    for student in range(students):
        mine = json.loads(json.dumps(solved))
        unsolved = {names[(student + more) % len(names)] for more in range(student % (len(names) + 1))}
        hangs = names[student % len(names)] if student < hanging else None
        for cell in mine["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if name in unsolved:
                cell["source"] = slow[name]
            if name == hangs:
                cell["source"] = [*cell["source"], "\nwhile True:\n    pass\n"]
        found.append(mine)
    return found


class Watched:
    """Runs a command; CPU seconds and memory of it and all that it starts."""

    def __init__(self, command: list[str], course: Path, environment: dict[str, str]):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self.memory: list[tuple[float, float]] = []  # (seconds since the start, MB)
        with open(course / "output.txt", "a", encoding="utf-8") as output:
            process = subprocess.Popen(command, cwd=course, env=environment, stdout=output, stderr=output)
            watcher = threading.Thread(target=self._watch, args=(process.pid, began), daemon=True)
            watcher.start()
            self.status = process.wait()
        self.seconds = time.monotonic() - began
        while _ended():
            pass
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_seconds = sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_utime", "ru_stime"))

    def _watch(self, pid: int, began: float) -> None:
        try:
            root = psutil.Process(pid)
            while root.is_running():
                used = 0
                for each in [root, *root.children(recursive=True)]:
                    try:
                        used += each.memory_full_info().pss
                    except psutil.Error:
                        continue
                self.memory.append((time.monotonic() - began, used / 1e6))
                time.sleep(2)
        except psutil.Error:
            return

    def by_tenths(self) -> list[float]:
        """The most memory in each tenth of the time, MB."""
        tenths = [[mb for when, mb in self.memory if int(10 * when / self.seconds) == number] for number in range(10)]
        return [max(tenth) for tenth in tenths if tenth]


def _ended() -> bool:
    """Whether there was one more child, which has ended by now."""
    try:
        return bool(os.waitpid(-1, 0))
    except ChildProcessError:
        return False


def scores(course: Path, lesson: str) -> dict[str, str]:
    """The score of each student, as the course's table says it."""
    with open(course / "results" / f"{lesson}.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: f"{row['state']} {row['score']}" for row in csv.DictReader(file)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lesson", default="02_masked_loss")
    parser.add_argument("--students", type=int, default=12)
    parser.add_argument("--hanging", type=int, default=0)
    parser.add_argument("--modes", nargs="+", default=["sequential", "warm"])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--scheduler")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="vgpu:a10g")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # processes that outlive what started them are counted too
    lesson = options.lesson
    cores = len(os.sched_getaffinity(0))
    print(f"lesson {lesson}, {options.students} submissions, {options.hanging} of them hang; {cores} processors, "
          f"load {os.getloadavg()[0]:.1f}")
    print(f"{'mode':<12}{'s':>8}{'an hour':>9}{'CPU s':>8}{'MB':>7}  scores", flush=True)
    first = None
    with tempfile.TemporaryDirectory() as temporary:
        for mode in options.modes:
            course, python, root = Path(temporary) / mode, sys.executable, ROOT
            if mode == "before":
                root = options.before.resolve()
                python = str(root / ".venv" / "bin" / "python")
            course.mkdir()
            shutil.copy(root / "nbgrader_config.py", course)
            (course / "solutions").mkdir()
            shutil.copytree(root / "solutions" / lesson, course / "solutions" / lesson)
            shutil.copytree(root / "autograde", course / "autograde")
            environment = {**os.environ, "GAPLESS_DEVICE": options.device, "OMP_NUM_THREADS": "1"}
            nbgrader = [python, "-m", "nbgrader"]
            subprocess.run([*nbgrader, "generate_assignment", lesson], cwd=course, env=environment, check=True,
                           capture_output=True)
            for number, notebook in enumerate(answers(lesson, options.students, options.hanging)):
                folder = course / "submitted" / f"student{number:03}" / lesson
                folder.mkdir(parents=True)
                (folder / f"{lesson}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
            workers = 1 if mode == "sequential" else options.workers
            command = {"before": nbgrader, "warm": nbgrader, "dask": nbgrader}.get(mode, [python, "-c", BARE])
            command = [*command, "autograde", lesson]
            command += [f"--Autograde.workers={workers}"] if workers and mode != "before" else []
            command += [f"--Autograde.scheduler={options.scheduler}"] if mode == "dask" else []
            watched = Watched(command, course, environment)
            found = scores(course, lesson)
            first = found if first is None else first
            same = "the same" if found == first else f"DIFFERENT: {set(found.items()) ^ set(first.items())}"
            print(f"{mode:<12}{watched.seconds:>8.1f}{3600 * options.students / watched.seconds:>9.0f}"
                  f"{watched.cpu_seconds:>8.1f}{max(mb for _, mb in watched.memory):>7.0f}  {same}"
                  + (f", exit status {watched.status}" if watched.status else ""), flush=True)
            if watched.status:
                print((course / "output.txt").read_text(encoding="utf-8")[-2000:])
            print(f"{'':<12}MB by tenths: {' '.join(f'{mb:.0f}' for mb in watched.by_tenths())}", flush=True)


if __name__ == "__main__":
    main()
