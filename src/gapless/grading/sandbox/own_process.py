"""The process that runs a learner's cell on a real GPU: it asks, measures and leaves evidence by itself.

There is no boundary in here. Nothing keeps a cell that means harm from changing what is measured beside it, or from reading
the inputs; the sandbox keeps it from everything else.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

from .device_process import EVIDENCE
from .worker import BROKEN, FINISHED, READY, take_over_streams


def main(folder: str) -> None:
    """Do ``job.json`` in ``folder``, leave the evidence there, and end the process."""
    token = sys.stdin.readline().strip()
    path = Path(folder)
    said = take_over_streams(str(path / "output.txt"))

    def say(word: str, text: str = "") -> None:
        os.write(said, (json.dumps([token, word, text[-4000:]]) + "\n").encode())

    try:
        run = _prepare(path)
    except BaseException:
        say(BROKEN, traceback.format_exc())
        os._exit(1)
    say(READY)
    try:
        evidence = run()
        target = path / EVIDENCE
        target.mkdir()
        evidence.save(target)
        say(FINISHED)
    except BaseException:
        say(BROKEN, traceback.format_exc())
    # Not a plain exit: nothing the learner's code registered to run at the end has a say.
    os._exit(0)


def _prepare(folder: Path):
    import numpy as np

    from ...course.evidence import Evidence, load_plan
    from ...course.gather import gather
    from ...course.notebooks.cells import CellError, load_function
    from ...course.stage import LocalStage
    from ...measure.device import device as find_device

    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    lesson = importlib.import_module(job["lessons"]).find_lesson(job["lesson"]).of([f"# program: {job['program']}"])
    exercise = lesson.exercises[job["exercise"]]
    plan = load_plan(folder / "plan.npz")
    device = find_device(job["device"])
    names = lesson.names()

    def run() -> Evidence:
        try:
            function = load_function(job["source"], exercise.name, names)
        except CellError as error:
            return Evidence(exercise.name, job["device"], error=str(error))
        return gather(exercise, LocalStage(function, device, exercise.asked.ask), plan, device, name=job["device"],
                      again=True, order=np.random.default_rng(job["order"]), model=exercise.model_solution(names))

    return run
