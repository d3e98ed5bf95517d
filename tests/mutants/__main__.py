"""Every solution with one thing changed, through the checks: which changes does none of them notice?

    python -m tests.mutants [--only '05_convolutions.*'] [--share 0.1] [--seed 3] [--card a10g] [--out mutants.json]

A change that gets full marks is a wrong answer that passes, or it changes nothing that matters; ``survivors/LESSON.toml``
lists the latter, each with the reason (a `…` stands for any text). The rest is printed, and what an entry with a `…`
covers although a check notices it; then the exit status is 1. The file has all, with what was said.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import functools
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from ..children import run_all
from . import EXERCISES, UNCHANGED, judged, listed, mutants_of, unchanged

SECONDS = 120  # of one mutant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="*", help="exercises LESSON.NAME that fit this pattern")
    parser.add_argument("--share", type=float, default=1.0, help="of an exercise's changes, drawn by the seed (default: all)")
    parser.add_argument("--seed", type=int, default=3, help="of the inputs (default: %(default)s)")
    parser.add_argument("--card", default="a10g", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--out", default="mutants.json", help="default: %(default)s")
    arguments = parser.parse_args()
    out = Path(arguments.out).resolve()
    with tempfile.TemporaryDirectory() as folder:  # what answers write, they write there
        os.chdir(folder)
        return run(arguments, out)


def run(arguments: argparse.Namespace, out: Path) -> int:
    given = []
    for lesson_id, name in EXERCISES:
        if fnmatch.fnmatch(f"{lesson_id}.{name}", arguments.only):
            all_of = mutants_of(lesson_id, name)
            some = random.Random(arguments.seed).sample(all_of, max(1, round(arguments.share * len(all_of))))
            given.append([(lesson_id, name, mutant) for mutant in [unchanged(lesson_id, name), *some]])
    do = functools.partial(judged, seed=arguments.seed, card=arguments.card)
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    rows, unlisted, noticed = [], 0, 0
    for (lesson_id, name, mutant), (ended, said) in run_all(do, given, SECONDS, "mutant", arguments.jobs):
        exercise = f"{lesson_id}.{name}"
        passed = ended == "ok" and all(outcome == "pass" for outcome, _ in said.values())
        if mutant.change == UNCHANGED:
            if not passed:
                unlisted += 1
                print(f"{exercise}: the solution itself does not pass: {said}")
            continue
        pattern, why = listed(lesson_id, name, mutant.change) or ("", None)
        counts[exercise]["passed" if passed else "noticed"] += 1
        counts[exercise]["listed"] += passed and why is not None
        rows.append({"exercise": exercise, "line": mutant.line, "change": mutant.change, "passed": passed, "why": why,
                     "ended": ended, "said": said})
        if passed and why is None:
            unlisted += 1
            print(f"{exercise}, line {mutant.line}: {mutant.change}")
        if ended == "ok" and not passed and "…" in pattern:
            noticed += 1
            print(f"{exercise}, line {mutant.line}: {mutant.change} is noticed, and listed as {pattern!r}")
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for exercise, count in counts.items():
        print(f"{exercise:44} {count['passed'] + count['noticed']:4} changes, {count['passed']:3} pass, {count['listed']:3} of them listed")
    print(f"{len(rows)} changes, {unlisted} pass and are not listed, {noticed} are noticed and listed; all are in {out}")
    return 1 if unlisted or noticed else 0


if __name__ == "__main__":
    sys.exit(main())
