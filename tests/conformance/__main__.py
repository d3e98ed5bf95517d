"""``make conformance``: the whole operator database, a process an entry, with a progress bar and a summary file.

    python -m tests.conformance [--dtype float32 …] [--only PATTERN] [--out summary.json] [--jobs 2]

A process an entry, since one crash must not hide the rest: workers are forked from one that has everything
imported (spawned where there is no fork). Exit 1 if anything outside the table of exceptions failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch
from tqdm import tqdm

from .entries import DTYPES, EXCEPTIONS, check, entries

SECONDS = 120


def work(pipe, name: str, dtype: str, samples: int | None) -> None:
    """In the child: check one entry and say how it went."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        pipe.send(("ok", check(name, DTYPES[dtype], samples)))
    except BaseException as error:
        pipe.send((type(error).__name__, (str(error).strip().splitlines() or [""])[0][:200]))


def run(context, name: str, dtype: str, samples: int | None):
    """In the parent: (outcome, detail) of one entry."""
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(theirs, name, dtype, samples), daemon=True)
    child.start()
    theirs.close()
    outcome = ("timeout", f"{SECONDS} s")
    if ours.poll(SECONDS):
        try:
            outcome = ours.recv()
        except EOFError:
            child.join()
            outcome = ("crash", f"exit status {child.exitcode}")
    child.kill()
    child.join()
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n\n")[0])
    parser.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--only", default="*", help="entries whose name fits this pattern")
    parser.add_argument("--samples", type=int, help="at most so many samples of an entry")
    parser.add_argument("--out", default="conformance.json", help="the summary (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    tasks = [(n, d) for d in arguments.dtype for n in entries(DTYPES[d]) if fnmatch.fnmatch(n, arguments.only)]
    results: dict = {d: {} for d in arguments.dtype}
    started = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        running = {pool.submit(run, context, n, d, arguments.samples): (n, d) for n, d in tasks}
        for done in tqdm(as_completed(running), total=len(tasks), unit="entry"):
            name, dtype = running[done]
            results[dtype][name] = done.result()
    summary = {"torch": torch.__version__, "seconds": round(time.monotonic() - started), "dtypes": {}, "failures": {}}
    unexpected = 0
    for dtype, found in results.items():
        passed = {n: r[1] for n, r in found.items() if r[0] == "ok" and r[1][0]}
        failed = {n: r for n, r in found.items() if r[0] != "ok"}
        unexpected += len(set(failed) - set(EXCEPTIONS))
        summary["dtypes"][dtype] = {
            "entries": len(found), "passed": len(passed), "failed": len(failed),
            "no sample that the CPU takes": len(found) - len(passed) - len(failed),
            "with gradients": sum(1 for r in passed.values() if r[1]),
        }
        summary["failures"][dtype] = {n: f"{k}: {d}" for n, (k, d) in sorted(failed.items())}
    Path(arguments.out).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary["dtypes"], indent=1))
    for dtype, failures in summary["failures"].items():
        for name, why in failures.items():
            print(f"{dtype:8} {name:40} {why}" + (f"  (known: {EXCEPTIONS[name]})" if name in EXCEPTIONS else ""))
    print(f"{unexpected} unexpected failures; summary in {arguments.out}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
