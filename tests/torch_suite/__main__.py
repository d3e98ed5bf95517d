"""PyTorch's own tests for any device, on the virtual GPU and beside it on the CPU.

    python -m tests.torch_suite PATH/TO/pytorch/test [FILE …] [--every 20] [--jobs 2] [--out torch_suite.json]

PATH is the folder ``test`` of a PyTorch checkout, of the installed version or an older one. Only what passes on the CPU is
run on the device: in child processes, each test with a limit of time. What fails there is listed, but for what an entry of
``expected.toml`` covers; then the exit status is 1, as where an entry covered nothing of the files that were run whole.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from functools import partial
from pathlib import Path

import torch

from gapless.files import write_json

from ..children import Outcome, run_all
from . import CPU, DEVICE, expected, names, run, sampled

SECONDS, SECONDS_TO_LOAD = 60, 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch_suite", description=__doc__.split("\n\n")[0])
    parser.add_argument("path", type=Path, help="the folder test of a PyTorch checkout")
    parser.add_argument("files", nargs="*", default=["test_view_ops.py", "test_indexing.py", "test_torch.py"],
                        help="in that folder (default: %(default)s)")
    parser.add_argument("--every", type=int, default=1, help="run one test in so many (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--out", default="torch_suite.json", help="what became of each test (default: %(default)s)")
    arguments = parser.parse_args()
    if missing := [name for name in arguments.files if not (arguments.path / name).is_file()]:
        parser.error(f"{arguments.path} has no {', '.join(missing)}: give the folder test of a PyTorch checkout")
    arguments.path, out = arguments.path.resolve(), Path(arguments.out).resolve()
    chosen = {}
    for name, (ended, said) in run_all(partial(names, arguments.path), [[name] for name in arguments.files], SECONDS_TO_LOAD, "file",
                                       arguments.jobs):
        if ended == "ok":
            chosen[name] = sampled(said, arguments.every)
        else:
            print(f"{name} cannot be loaded: {ended}: {said}")
    on_the_cpu = _outcomes(arguments.path, CPU, chosen, arguments.jobs)
    passing = {name: [test for test in tests if on_the_cpu[name, test][0] == "ok"] for name, tests in chosen.items()}
    found = {f"{name}::{test}": [ended, said or ""]
             for (name, test), (ended, said) in _outcomes(arguments.path, DEVICE, passing, arguments.jobs).items()}
    write_json(out, {"torch": torch.__version__, "tests": found})
    return _told(found, every=arguments.every)


def _outcomes(folder: Path, device: str, chosen: dict[str, list[str]], jobs: int) -> dict[tuple[str, str], Outcome]:
    """(file, test) → what became of it on ``device``."""
    return dict(run_all(partial(run, folder, device), [[(name, test) for test in tests] for name, tests in chosen.items()], SECONDS,
                        "test", jobs))


def _told(found: dict[str, list[str]], every: int) -> int:
    """Print a line a file and what fails unexpectedly; the exit status."""
    entries, used, unexpected = expected(), set(), []
    rows: dict[str, list[int]] = {}
    for test, (ended, said) in sorted(found.items()):
        row = rows.setdefault(test.partition("::")[0], [0, 0, 0, 0, 0])
        row[0] += 1
        if ended == "Skipped":
            row[4] += 1
            continue
        if ended == "ok":
            row[1] += 1
            continue
        entry = next((each for each in entries if each.covers(test, f"{ended}: {said}")), None)
        row[2 if entry else 3] += 1
        used.add(entry)
        if entry is None:
            unexpected.append(f"{test}: {ended}: {said}")
    print("\n".join(unexpected))
    print("| file | pass on the CPU | pass here | expected failures | others | skip themselves |\n|---|--:|--:|--:|--:|--:|")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(map(str, row))} |")
    spare = [each for each in entries if every == 1 and each not in used
             and any(fnmatch.fnmatchcase(test, each.tests) for test in found)]
    for each in spare:
        print(f"expected.toml: {each.tests} covers nothing")
    return 1 if unexpected or spare else 0


if __name__ == "__main__":
    sys.exit(main())
