"""``make programs``: every program in a fresh process, with a time limit, side by side on the cores.

    python -m tests.programs [--only PATTERN …] [--jobs 4] [--seconds 300] [--out FILE] [--write]

Writes the record and, with ``--write``, the table in ``docs/virtual_gpu.md``. Of programs that were not asked for, the record
keeps what it has if the libraries are of the same versions. Exit 1 if a program differs, fails or crashes.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path

from tqdm import tqdm

from gapless.files import between, write_json

from .table import PROGRAMS, table

ROOT = Path(__file__).parents[2]
RECORD, PAGE = ROOT / "records" / "programs.json", ROOT / "docs" / "virtual_gpu.md"
BEGIN, END = "<!-- programs: written by make programs -->", "<!-- /programs -->"
LIBRARIES = ("torch", "torchvision", "timm", "transformers", "accelerate", "lightning", "torchmetrics", "torch_geometric")


def run(name: str, seconds: int) -> dict:
    """What became of the program, in a process of its own."""
    if PROGRAMS[name].missing:
        return {"outcome": "not installed", "why": ", ".join(PROGRAMS[name].missing)}
    try:
        done = subprocess.run([sys.executable, "-m", "tests.programs.one", name], cwd=ROOT, timeout=seconds,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        return {"outcome": "timeout", "why": f"{seconds} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"outcome": "crash", "why": f"exit status {done.returncode} {last}"[:300]}


def installed() -> dict[str, str]:
    """Library → version, of those that are there."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="*", default=["*"], help="programs whose group/name fits one of these patterns")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=300, help="limit for each program (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help=f"write the table in {PAGE.name}")
    arguments = parser.parse_args()
    names = [name for name in PROGRAMS if any(fnmatch.fnmatch(name, each) for each in arguments.only)]
    results = {}
    before = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    if before.get("versions") == installed():
        results = {name: result for name, result in before["programs"].items() if name in PROGRAMS}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        running = {pool.submit(run, name, arguments.seconds): name for name in names}
        for done in tqdm(as_completed(running), total=len(names), unit="program"):
            name = running[done]
            results[name] = done.result()
            if results[name]["outcome"] not in ("same", "not installed"):
                tqdm.write(f"{name}: {results[name]['outcome']}: {results[name].get('why', '')}")
    record = {"what": "programs on the virtual GPU against the CPU", "programs": {name: results[name] for name in PROGRAMS if name in results},
              "versions": installed(), "date": datetime.date.today().isoformat(), "command": "python -m tests.programs --write"}
    write_json(arguments.out, record)
    print(table(record))
    if arguments.write:
        PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), BEGIN, END, table(record)), encoding="utf-8")
    return 0 if all(results[name]["outcome"] in ("same", "not installed") for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
