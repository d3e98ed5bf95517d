"""Lesson 10: the exercise ``train``, made of a program."""

from __future__ import annotations

from collections import Counter

from ....course.checks import PeakBytes, SpeedUp, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching, Trial
from ..program import ENTRY, Program
from ..stage import ask_train
from . import cases, explain


def _by_lesson(program: Program) -> str:
    """How many causes are which lesson's. Their names would be the answer to ``findings``."""
    lessons = Counter(cause.lesson[:2] for cause in program.causes)
    return ", ".join(f"{count} from lesson {lesson}" for lesson, count in sorted(lessons.items()))


def train_exercise(program: Program) -> Exercise:
    """Make ``program`` fast and keep what it reports."""
    return Exercise(
        name=ENTRY,
        slow=program.slow,
        cases=cases.cases_of(program),
        asked=Asked(ask=ask_train),
        right=Right(relative_tolerance=explain.RELATIVE, absolute_tolerance=explain.ABSOLUTE),
        measurement=Measurement(
            trial=Trial(cases.trial_of(program), program.slowdown),
            full=cases.full_of(program),
            whole_run=True,
            best=program.solved,
            step_is="a run",
            least_bytes_ratio=0.9,
            # compiled graphs need fewer kernels
            least_work_ratio=0.3,
            # of a whole run
            max_read_back_bytes=2**16,
        ),
        checks=(
            Values(4),
            PeakBytes(2, at_most=program.max_peak_ratio, advice=(
                "Which of these tensors does the program need again, and which does it only keep?")),
            SpeedUp(3, at_least=0.25, advice=(
                "What is most expensive now? Profile your version, and read the lines from the top.")),
            SpeedUp(3, at_least=0.5, advice=(
                "What is most expensive now? Profile your version, and read the lines from the top.")),
            SpeedUp(4, at_least=0.8, advice=(
                "What is most expensive now? Profile your version, and read the lines from the top.")),
        ),
        teaching=Teaching(
            hints=(
                "Do not search the code for lines that look slow. Profile it, and begin with the largest cost. Does the "
                "device wait for the host, or the host for the device, and at which line? What does the device do while "
                "nothing waits?",
                "Look for these in this order. Debug aids left on. Batches that come too late. Lines that wait, above all "
                "in loops. Many short kernels where a list, or one operator, would do. Kernels whose results "
                "nobody needs. For the memory: tensors that are kept although no backward pass follows.",
                f"Each cause belongs to a lesson: {_by_lesson(program)}. After each change run the check again: it says "
                "how long a run takes now.",
            ),
            explain=explain.report,
            stub=program.handed_out,
            solution=lambda: program.text("solutions/train.md"),
        ),
    )
