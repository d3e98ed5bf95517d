"""How long a learner waits for a check: real time of every exercise's, the first of it in a process and the next.

    python benchmarks/checks.py [--only '05_*'] [--busy 3] [--device vgpu:a10g]
    python benchmarks/checks.py --device cuda --folders solutions --out checks.json    # on a real GPU

Each lesson has a process of its own, as a notebook has a kernel: in it every exercise is checked with what is handed out (a
first check, which is wrong), then with the solution. ``--solution-first`` turns that round. ``--read``: the first comes once
the learner has read so long that everything is found out that does not depend on an answer. ``--busy``: so many other
processes compute meanwhile. Seconds by the clock; CPU seconds of the process and its children. ``--out`` writes each check's
verdicts too, after each lesson.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

from gapless.files import write_json
from gapless.measure.versions import versions

ROOT = Path(__file__).parent.parent
_ROW = "check: "  # what begins a line for this script
BUSY = "while True: sum(range(10**6))"


def lesson(lesson_id: str, device: str, folders: list[str], *, read: bool) -> None:
    """Check all exercises of one lesson; a line of JSON for each check."""
    import gapless
    from gapless.course.notebooks.submission import read_submission

    notebook = gapless.Notebook(lesson_id, device=device)
    notebook.lesson.names()  # imports what the notebook's first cell does
    if read:
        notebook.ahead.start()
        notebook.ahead.wait()
    known = {lesson_id: notebook.lesson.exercises}
    sources = {folder: read_submission(ROOT / folder / lesson_id / f"{lesson_id}.ipynb", known, lesson_id).cells
               for folder in folders}
    for name in sources[folders[0]]:
        for folder in folders:
            begin, cpu = time.perf_counter(), sum(os.times()[:4])
            result = notebook.check_source(name, sources[folder][name])
            row = {"exercise": f"{lesson_id}.{name}", "folder": folder, "passed": result.passed,
                   "seconds": time.perf_counter() - begin, "cpu": sum(os.times()[:4]) - cpu,
                   "verdicts": {verdict.id.rpartition(".")[2]: f"{verdict.outcome}: {verdict.message}"
                                for verdict in result.verdicts}}
            print(_ROW + json.dumps(row), flush=True)


def measured(lesson_ids: list[str], device: str, folders: list[str], out: Path | None, *, read: bool) -> list[dict]:
    """The rows of these lessons, also written to ``out``. Raises CalledProcessError where a lesson's process fails."""
    rows: list[dict] = []
    for lesson_id in tqdm(lesson_ids, unit="lesson"):
        command = [sys.executable, __file__, "--lesson", lesson_id, "--device", device, *(["--read"] if read else []),
                   "--folders", *folders]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows += [json.loads(line.removeprefix(_ROW)) for line in done.stdout.splitlines() if line.startswith(_ROW)]
        if out is not None:
            write_json(out, {**versions(), "device": device, "date": time.strftime("%Y-%m-%d"), "checks": rows})
    return rows


def at(share: float, rows: list[dict]) -> float:
    """The seconds that this share of the rows does not exceed."""
    seconds = sorted(row["seconds"] for row in rows)
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))]


def main() -> None:
    """Print a line an exercise, and what 50 and 95 of 100 checks take."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="lessons that fit this pattern")
    parser.add_argument("--device", default="vgpu:a10g", help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--busy", type=int, default=0, help="other processes that compute meanwhile")
    parser.add_argument("--solution-first", action="store_true", help="the solution's check is the first of its exercise")
    parser.add_argument("--read", action="store_true", help="first wait until all is found out that can be while one reads")
    parser.add_argument("--lesson", help=argparse.SUPPRESS)
    parser.add_argument("--folders", nargs="+", default=["notebooks", "solutions"],
                        help="whose answers are checked, in this order (default: %(default)s)")
    options = parser.parse_args()
    if options.lesson:
        lesson(options.lesson, options.device, options.folders, read=options.read)
        return
    folders = options.folders[::-1] if options.solution_first else options.folders
    lesson_ids = sorted(path.name for path in (ROOT / "solutions").iterdir() if fnmatch.fnmatch(path.name, options.only)
                        and (path / f"{path.name}.ipynb").is_file())
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    try:
        rows = measured(lesson_ids, options.device, folders, options.out, read=options.read)
    finally:
        for each in busy:
            each.kill()
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        own = {row["folder"]: row for row in rows if row["exercise"] == exercise}
        print(f"{exercise:46}" + "".join(f"  {folder} {own[folder]['seconds']:6.2f} s ({own[folder]['cpu']:6.2f} CPU)"
                                         + ("" if own[folder]["passed"] == (folder == "solutions") else " PASSED?")
                                         for folder in folders))
    for place, folder in enumerate(folders):
        some = [row for row in rows if row["folder"] == folder]
        print(f"{('first', 'next')[place]:6} {folder:10} p50 {at(0.5, some):5.2f} s   p95 {at(0.95, some):5.2f} s   "
              f"longest {at(1, some):5.2f} s   ({len(some)} checks, {options.busy} busy processes beside them)")


if __name__ == "__main__":
    main()
