"""``gapless record``: the lessons' headline programs measured on a device.

A record is the JSON that docs/headlines.md's figures rest on: device, versions, date, command, figures.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
import traceback
from pathlib import Path

import torch

from ..course.headline import Figures, measure_programs, read_fixes, table
from ..course.notebooks.cells import CellError
from ..files import write_json
from ..lessons import LESSONS, Lesson, find_lesson
from ..measure.device import device as choose_device
from ..measure.device import device_name
from ..measure.versions import versions

SOLUTIONS = Path("solutions")


class RecordError(ValueError):
    """The record cannot be made; the message says what to do."""


def add_parser(commands) -> None:
    """Add ``record`` to the command line."""
    parser = commands.add_parser("record", help="measure the lessons' headline programs and write a record",
                                 description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, help="the record to write (.json), or - for standard output")
    parser.add_argument("--device", help="cuda, vgpu, vgpu:a10g, …; by default the best there is")
    parser.add_argument("--lesson", action="append", metavar="ID", help="only this lesson, such as 02_masked_loss; may be "
                                                                        "given more than once")
    parser.add_argument("--solutions", default=str(SOLUTIONS),
                        help="the folder of the notebooks whose exercise cells are the fixes (default: %(default)s)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Measure, write the record after each lesson, print the tables. Raises RecordError where a lesson failed."""
    device = choose_device(arguments.device)
    lessons = [lesson for lesson in (map(find_lesson, arguments.lesson) if arguments.lesson else LESSONS.values())
               if lesson.programs is not None]
    command = ["gapless", "record", "--out", arguments.out]
    command += ["--device", arguments.device] if arguments.device else []
    command += [word for each in arguments.lesson or () for word in ("--lesson", each)]
    found: dict[str, list[dict]] = {}
    record = {
        "what": "the lessons' headline programs",
        "simulated": device.type == "vgpu",
        "gpu": device_name(device),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(command),
        "lessons": found,
    }
    if device.type == "cuda":
        record["driver_memory_bytes"] = torch.cuda.get_device_properties(device).total_memory
    tables, failed = [], []
    for lesson in lessons:
        for name, each in lesson.named.items():
            fixes = load_fixes(each, arguments.solutions) if each is lesson else best_of(each)
            try:
                rows = measure(each, device, fixes)
            except Exception:  # it costs the other lessons nothing
                traceback.print_exc()
                failed.append(name)
                continue
            found[name] = [figures.to_json() for figures in rows]
            tables.append(table(each, rows))
            if arguments.out != "-":
                write_json(arguments.out, record)
    for each in tables:
        print(f"\n{each}", file=sys.stderr)
    if arguments.out == "-":
        print(json.dumps(record, indent=1, ensure_ascii=False))
    elif found:
        print(f"record: {arguments.out}", file=sys.stderr)
    if failed:
        raise RecordError(f"not recorded, for the errors above: {', '.join(failed)}")
    return 0


def find_solution(lesson_id: str, folder: str | os.PathLike = SOLUTIONS) -> Path:
    """The reference solution's notebook."""
    return Path(folder) / lesson_id / f"{lesson_id}.ipynb"


def load_fixes(lesson: Lesson, folder: str | os.PathLike = SOLUTIONS) -> dict:
    """The fixes from the lesson's reference solution. Raises RecordError where there is none."""
    notebook = find_solution(lesson.id, folder)
    try:
        return read_fixes(lesson, notebook)
    except FileNotFoundError:
        raise RecordError(f"there is no {notebook}: run this at the top of the repository, or name the folder of the "
                          "reference solutions with --solutions") from None
    except (ValueError, KeyError, CellError) as error:
        raise RecordError(f"{notebook} does not hold the lesson's exercises ({error}): name the folder of the reference "
                          "solutions with --solutions") from None


def best_of(lesson: Lesson) -> dict:
    """The model solutions of a variant, which no notebook holds."""
    return {exercise.name: exercise.measurement.best for exercise in lesson.exercises.values()
            if exercise.measurement is not None and exercise.measurement.best is not None}


def measure(lesson: Lesson, device: torch.device, fixed: dict) -> list[Figures]:
    """All of the lesson's programs on ``device``, with a line of progress each."""
    rows = []
    for figures, _ in measure_programs(lesson, device, fixed):
        rows.append(figures)
        print(f"{lesson.id} {figures.name}: {figures.true_step_ms:.1f} ms a step, {figures.syncs:g} syncs", file=sys.stderr,
              flush=True)
    return rows
