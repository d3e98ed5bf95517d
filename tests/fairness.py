"""Every right answer, judged again and again: no seed, card, number of threads or processor may refuse one.

    python -m tests.fairness [--seeds 100] [--cards a10g h200 t4 v100] [--threads 1] [--capability default] [--load 0]
                             [--only '05_convolutions.*'] [--grader] [--out fairness.json]

Answers are the solutions and the other right routes of tests/lessons/answers, their inputs asked in an order that hangs on the
seed; with ``--grader`` the published notebooks, through the grader and its processes. ``--capability`` is that of PyTorch's
kernels (ATEN_CPU_CAPABILITY; oneDNN follows it), as other people's processors have it. ``--load``: so many busy processes
beside it. Exit 1 where an answer did not get full marks.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

SECONDS = 600  # of one answer with one seed
CAPABILITIES = {"default": "SSE41", "avx2": "AVX2", "avx512": "AVX512_CORE"}  # → oneDNN's name


def judged(threads: int, task: tuple) -> dict[str, str]:
    """Check → what it said, of those that did not pass."""
    import numpy as np
    import torch

    from .lessons.test_exercises import grade

    torch.set_num_threads(threads)
    (lesson_id, name, _), function, seed, card = task
    verdicts = grade(lesson_id, name, function, seed=seed, device=f"vgpu:{card}", order=np.random.default_rng(seed))
    return {check: verdict.message for check, verdict in verdicts.items() if verdict.outcome != "pass"}


def graded(task: tuple) -> dict[str, str]:
    """The same of a whole published notebook, by the grader."""
    from gapless.grading.grade import Grader

    from . import ROOT

    (lesson_id, *_), _, seed, card = task
    with Grader(ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb", f"vgpu:{card}", seed) as grader:
        verdicts = grader.result().verdicts
    return {verdict.id: verdict.message for verdict in verdicts if verdict.outcome != "pass"}


def notebooks(only: str) -> list[tuple]:
    """As :func:`right_answers`; each stands for all exercises of its lesson."""
    from gapless.lessons import LESSONS

    return [((lesson_id, "*", "notebook"), None) for lesson_id in LESSONS if fnmatch.fnmatch(f"{lesson_id}.*", only)]


def right_answers(only: str) -> list[tuple]:
    """((lesson, exercise, route), function)"""
    from .lessons.reference import solution
    from .lessons.test_exercises import EXERCISES, OTHER_ROUTES

    found = [((lesson_id, name, "solution"), solution(lesson_id)[name]) for lesson_id, name in EXERCISES]
    found += [((lesson_id, name, getattr(function, "__name__", "route")), function) for lesson_id, name, function in OTHER_ROUTES]
    return [each for each in found if fnmatch.fnmatch(".".join(each[0][:2]), only)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fairness", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="0, 1, … (default: %(default)s)")
    parser.add_argument("--cards", nargs="+", default=["a10g", "h200", "t4", "v100"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--capability", choices=CAPABILITIES)
    parser.add_argument("--load", type=int, default=0, help="busy processes")
    parser.add_argument("--only", default="*", help="exercises LESSON.NAME that fit this pattern")
    parser.add_argument("--grader", action="store_true", help="the published notebooks, through the grader")
    parser.add_argument("--jobs", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--out", default="fairness.json", help="default: %(default)s")
    arguments = parser.parse_args()
    if arguments.capability is not None:  # before PyTorch is imported
        os.environ |= {"ATEN_CPU_CAPABILITY": arguments.capability, "ONEDNN_MAX_CPU_ISA": CAPABILITIES[arguments.capability]}
    import functools

    from .children import run_all

    failures, counts = [], collections.Counter()

    def then(task: tuple, outcome: tuple) -> None:
        (answer, _, seed, card), (ended, said) = task, outcome
        counts[answer[0]] += 1
        refused = ended != "ok" or said
        if refused:
            failures.append({"answer": ".".join(answer), "seed": seed, "card": card, "ended": ended, "said": said})
            tqdm.write(f"{'.'.join(answer)}, seed {seed}, {card}: {ended} {said}"[:400])
        if refused or sum(counts.values()) % 100 == 0:
            write()

    def write() -> None:
        Path(arguments.out).write_text(json.dumps({"options": vars(arguments), "judgements": counts, "failures": failures},
                                                  indent=1) + "\n", encoding="utf-8")

    answers = (notebooks if arguments.grader else right_answers)(arguments.only)
    do = graded if arguments.grader else functools.partial(judged, arguments.threads)
    # A list of tasks an answer and seed: the plan is made once for all cards.
    given = [[(*answer, seed, card) for card in arguments.cards] for answer in answers for seed in range(arguments.seeds)]
    random.Random(0).shuffle(given)  # a part of it is a sample of all
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(arguments.load)]
    try:
        run_all(do, given, SECONDS, "notebook" if arguments.grader else "judgement", arguments.jobs, then)
    finally:
        for each in busy:
            each.kill()
        write()
    print(f"{sum(counts.values())} {'notebooks' if arguments.grader else 'judgements'} of right answers, {len(failures)} refused; "
          f"all are in {arguments.out}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
