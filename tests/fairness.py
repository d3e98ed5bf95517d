"""Every right answer, judged again and again: no seed, card, number of threads or processor may refuse one.

    python -m tests.fairness [--seeds 100] [--cards a10g h200 t4 v100] [--threads 1] [--capability default] [--load 0]
                             [--only '05_convolutions.*'] [--out fairness.json]

Answers are the solutions and the other right routes of tests/lessons/answers. ``--capability`` is that of PyTorch's kernels
(ATEN_CPU_CAPABILITY; oneDNN follows it), as other people's processors have it. ``--load``: so many busy processes beside it. Exit 1 where
an answer did not get full marks.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path

SECONDS = 600  # of one answer with one seed
CAPABILITIES = {"default": "SSE41", "avx2": "AVX2", "avx512": "AVX512_CORE"}  # → oneDNN's name


def judged(threads: int, task: tuple) -> dict[str, str]:
    """Check → what it said, of those that did not pass."""
    import torch

    from .lessons.test_exercises import grade

    torch.set_num_threads(threads)
    (lesson_id, name, _), function, seed, card = task
    verdicts = grade(lesson_id, name, function, seed=seed, device=f"vgpu:{card}")
    return {check: verdict.message for check, verdict in verdicts.items() if verdict.outcome != "pass"}


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
    parser.add_argument("--jobs", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--out", default="fairness.json", help="default: %(default)s")
    arguments = parser.parse_args()
    if arguments.capability is not None:  # before PyTorch is imported
        os.environ |= {"ATEN_CPU_CAPABILITY": arguments.capability, "ONEDNN_MAX_CPU_ISA": CAPABILITIES[arguments.capability]}
    import functools

    from .children import run_all

    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(arguments.load)]
    try:
        # A list of tasks an answer and seed: the plan is made once for all cards.
        given = [[(*answer, seed, card) for card in arguments.cards]
                 for answer in right_answers(arguments.only) for seed in range(arguments.seeds)]
        found = run_all(functools.partial(judged, arguments.threads), given, SECONDS, "judgement", arguments.jobs)
    finally:
        for each in busy:
            each.kill()
    failures, counts = [], collections.Counter()
    for (answer, _, seed, card), (ended, said) in found:
        counts[answer[0]] += 1
        if ended != "ok" or said:
            failures.append({"answer": ".".join(answer), "seed": seed, "card": card, "ended": ended, "said": said})
    Path(arguments.out).write_text(json.dumps({"options": vars(arguments), "judgements": counts, "failures": failures}, indent=1)
                                   + "\n", encoding="utf-8")
    for failure in failures:
        print(f"{failure['answer']}, seed {failure['seed']}, {failure['card']}: {failure['ended']} {failure['said']}"[:400])
    print(f"{len(found)} judgements of right answers, {len(failures)} refused; all are in {arguments.out}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
