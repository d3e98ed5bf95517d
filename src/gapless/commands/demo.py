"""``gapless demo``: the course in one command. Measures lesson 02's slow loss and each fix at full size, draws the
timelines before and after, then grades the exercise as handed out and the reference solution."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from ..course.headline import measure_programs, table
from ..evidence.report import StepReport
from ..files import temporary_folder
from ..lessons import find_lesson
from ..measure.device import VARIABLE, device_name
from ..measure.device import device as choose_device
from .record import RecordError, find_solution, load_fixes

LESSON = "02_masked_loss"
OUTPUT = Path("demo-output")


def add_parser(commands) -> None:
    """Add ``demo`` to the command line."""
    parser = commands.add_parser("demo", help="measure lesson 02 and grade it", description=__doc__)
    parser.add_argument("--device", help="cuda, vgpu, vgpu:a10g, …; by default the best there is")
    parser.add_argument("--out", default=str(OUTPUT), help="folder for the picture and the table (default: %(default)s)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo at the top of the repository."""
    if not (Path("solutions").is_dir() and Path("autograde").is_dir()):
        raise RecordError("the demo grades the reference solution, which only the course's repository has: clone it, and "
                          "run this at its top. The lessons need no repository: gapless start FOLDER")
    started = time.monotonic()
    lesson = find_lesson(LESSON)
    fixed = load_fixes(lesson)
    device = choose_device(arguments.device)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    _say(f"1/3 Measuring the slow loss and its fixes on {device_name(device)}"
         + (" (simulated: no GPU is used)" if device.type == "vgpu" else ""))
    rows, traces = [], []
    for figures, trace in measure_programs(lesson, device, fixed):
        _say(f"    {figures.name:28} {figures.syncs:g} syncs a step, {figures.true_step_ms:.1f} ms a step")
        rows.append(figures)
        traces.append(trace)
    text = table(lesson, rows)
    print(f"\n{text}\n", flush=True)
    (out / "table.md").write_text(text + "\n", encoding="utf-8")

    _say("2/3 Drawing the timelines before and after")
    from ..evidence.pictures.picture import draw_pair

    before, after = (StepReport.from_trace(trace) for trace in (traces[0], traces[-1]))
    picture = out / "timelines.png"
    draw_pair(before, after, picture)
    traces[0].write(out / "slow.json.gz")
    traces[-1].write(out / "fixed.json.gz")
    _say(f"    {picture} (and the two traces beside it: open them in ui.perfetto.dev)")

    _say("3/3 Grading the exercise as handed out and the reference solution, through papermill and nbgrader")
    scores = grade_class(arguments.device)
    print()
    for student, (score, most) in scores.items():
        print(f"{student:24} {score:g} of {most:g} points")
    _say(f"done in {time.monotonic() - started:.0f} s")
    return 0


def grade_class(device: str | None = None) -> dict[str, tuple[float, float]]:
    """Grade the stub and the solution as two students of a throwaway nbgrader course: score and maximum of each."""
    from nbgrader.api import Gradebook

    from ..grading.notebooks.release import make_course, run_nbgrader
    from ..grading.sandbox.confine import UNCONFINED, find_confinement

    students = {"as_handed_out": Path("notebooks") / LESSON / f"{LESSON}.ipynb",
                "reference_solution": find_solution(LESSON)}
    with temporary_folder("gapless-demo-") as course:
        make_course(Path.cwd(), course)
        environment = {VARIABLE: device} if device else {}
        if find_confinement().bubblewrap is None:
            _say(f"    {find_confinement().description}: fit for these two notebooks, which are ours")
            environment[UNCONFINED] = "1"
        run_nbgrader(course, "generate_assignment", LESSON)
        for student, notebook in students.items():
            target = course / "submitted" / student / LESSON
            target.mkdir(parents=True)
            shutil.copy(notebook, target / f"{LESSON}.ipynb")
        for student in students:
            _say(f"    {student} …")
            run_nbgrader(course, "autograde", LESSON, "--student", student, environment=environment)
        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
            found = {student: gradebook.find_submission(LESSON, student) for student in students}
            return {student: (submission.score, submission.max_score) for student, submission in found.items()}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
