"""Lesson 10: the exercise ``train``, made of a program."""

from __future__ import annotations

from ....course.exercise import Exercise, Trial
from ..program import ENTRY, Program
from ..stage import ask_train
from . import cases


def _by_lesson(program: Program) -> str:
    """What the causes are called, lesson by lesson."""
    lessons: dict[str, list[str]] = {}
    for cause in program.causes:
        lessons.setdefault(cause.lesson[:2], []).append(cause.name)
    return "; ".join(f"{lesson}: {', '.join(names)}" for lesson, names in sorted(lessons.items()))


def train_exercise(program: Program) -> Exercise:
    """Make ``program`` fast and keep what it reports."""
    return Exercise(
        name=ENTRY,
        slow=program.slow,
        best=program.solved,
        whole_run=True,
        cases=cases.cases_of(program),
        ask=ask_train,
        full=cases.full_of(program),
        trial=Trial(cases.trial_of(program), program.slowdown),
        stub=program.handed_out,
        solution=lambda: program.text("solutions/train.md"),
        relative_tolerance=2e-4,
        absolute_tolerance=2e-5,
        points={"values": 4, "peak_bytes": 2, "speed_up_25": 3, "speed_up_50": 3, "speed_up_80": 4},
        speed_up_shares={"speed_up_25": 0.25, "speed_up_50": 0.5, "speed_up_80": 0.8},
        max_peak_ratio=program.max_peak_ratio,
        least_bytes_ratio=0.9,
        least_work_ratio=0.3,  # compiled graphs need fewer kernels
        max_read_back_bytes=2**16,  # of a whole run
        step_is="a run",
        advice={"peak_bytes": "Which of these does the program need again, and which does it only still refer to?",
                "step_time": "What costs most now? Profile your version, and read the lines from the top."},
        hints=(
            "Do not read the code for what looks slow: profile it, and begin with what takes most. Does the device wait for "
            "the host, or the host for the device, and at which line? What is the device doing while nothing waits?",
            "Look for these in this order: debug aids left on; batches that come too late; lines that wait, of which one in "
            "a loop counts often; many short kernels where a list, or one operator, would do; kernels that compute what "
            "nobody needs; and, for the memory, what is kept though nobody goes back through it.",
            f"Each is a lesson's. {_by_lesson(program)}. After each change run the check again: it says what a run takes "
            "now.",
        ),
    )
