"""``make conformance``: PyTorch's operator database in every mode, with a progress bar and a summary file.

    python -m tests.conformance [--mode values vmap …] [--dtype float32 …] [--only PATTERN] [--out summary.json] [--jobs 2]

``values``: results and gradients, in each of the dtypes, all samples. The further modes are those of ``modes.py``, in
float32, and the two of ``dtypes.py``, ``pairs`` and ``halves``, the first samples of each entry.

In processes of their own, since one crash must not hide the rest: what crashes or takes too long costs a process, and a new
one goes on with the next entry. Exit 1 if anything outside the tables of exceptions failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import torch

from ..children import run_all
from . import dtypes, modes
from .entries import DTYPES, EXCEPTIONS, check, entries

SECONDS = 120
SAMPLES = 3  # of an entry, in the further modes

MODES = ("values", *modes.MODES, "pairs", "halves")


def tasks(mode: str, kinds: list[str]) -> list[tuple[str, str]]:
    """(mode or dtype, entry)"""
    if mode == "values":
        return [(kind, name) for kind in kinds for name in entries(DTYPES[kind])]
    names = {"pairs": dtypes.pairs, "halves": dtypes.halves}.get(mode)
    return [(mode, name) for name in (names() if names is not None else modes.tasks(mode))]


def run_one(samples: int | None, task: tuple[str, str]) -> tuple[int, int]:
    """Check one entry; see the functions called."""
    how, name = task
    if how in DTYPES:
        return check(name, DTYPES[how], samples)
    few = SAMPLES if samples is None else samples
    if how == "pairs":
        return dtypes.check_pairs(name, few)
    return dtypes.check_halves(name, few) if how == "halves" else modes.check(name, how, few)


def summed_up(found: dict) -> dict:
    """Counts of a mode's outcomes by entry."""
    passed = [r[1] for r in found.values() if r[0] == "ok" and r[1][0]]
    failed = sum(r[0] != "ok" for r in found.values())
    return {"entries": len(found), "passed": len(passed), "failed": failed,
            "no sample that fits and that the CPU takes": len(found) - len(passed) - failed,
            "samples": sum(each[0] for each in passed), "with gradients": sum(1 for each in passed if each[1])}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n\n")[0])
    parser.add_argument("--mode", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=list(DTYPES), help="of the mode values")
    parser.add_argument("--only", default="*", help="entries whose name fits this pattern")
    parser.add_argument("--samples", type=int, help=f"at most so many samples of an entry (else all of values, {SAMPLES} of others)")
    parser.add_argument("--out", default="conformance.json", help="the summary (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    given = [task for mode in arguments.mode for task in tasks(mode, arguments.dtype)
             if fnmatch.fnmatch(task[1], arguments.only)]
    results: dict = {how: {} for how, _ in given}
    started = time.monotonic()
    shares = [given[place::arguments.jobs] for place in range(arguments.jobs)]
    for (how, name), outcome in run_all(partial(run_one, arguments.samples), shares, SECONDS, unit="entry"):
        results[how][name] = outcome
    summary = {"torch": torch.__version__, "seconds": round(time.monotonic() - started),
               "modes": {how: summed_up(found) for how, found in results.items()},
               "failures": {how: {n: f"{r[0]}: {r[1]}" for n, r in sorted(found.items()) if r[0] != "ok"}
                            for how, found in results.items()}}
    Path(arguments.out).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary["modes"], indent=1))
    unexpected = 0
    for how, failures in summary["failures"].items():
        known = EXCEPTIONS if how in DTYPES else {}
        unexpected += len(set(failures) - set(known))
        for name, why in failures.items():
            print(f"{how:8} {name:40} {why}" + (f"  (known: {known[name]})" if name in known else ""))
    print(f"{unexpected} unexpected failures; summary in {arguments.out}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
