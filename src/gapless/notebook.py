"""What a lesson's notebook calls: checks and hints. Needs neither papermill nor nbgrader."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from dataclasses import dataclass

import torch

from .checks import PASS, Verdict
from .device import device as choose_device
from .device import device_name
from .lessons import Exercise, find_lesson
from .lessons.cells import CellError, load_function
from .lessons.evidence import Evidence
from .lessons.gather import gather
from .lessons.judge import judge
from .marker import exercise_name
from .verdicts import SIGNS, as_html
from .vgpu.location import is_notebook_cell

# The seed of the checks in a notebook. Grading draws its own.
_SEED = 0


@dataclass(frozen=True)
class CheckResult:
    """The verdicts of one exercise; shows itself in a notebook and in a terminal."""

    exercise: str
    verdicts: tuple[Verdict, ...]
    evidence: Evidence
    printed: str = ""

    @property
    def earned(self) -> float:
        """Points so far."""
        return sum(verdict.earned for verdict in self.verdicts)

    @property
    def points(self) -> float:
        """Points there are."""
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(verdict.outcome == PASS for verdict in self.verdicts)

    def __str__(self) -> str:
        lines = [f"{self.exercise}: {self.earned:g} of {self.points:g} points"]
        for verdict in self.verdicts:
            name = verdict.id.rpartition(".")[2].replace("_", " ")
            body = verdict.message.replace("\n", "\n      ")
            lines.append(f"  {SIGNS[verdict.outcome]}  {name} ({verdict.earned:g}/{verdict.points:g})\n      {body}")
        return "\n".join([*lines, *([self._print_note()] if self.printed else [])])

    __repr__ = __str__

    def _print_note(self) -> str:
        lines = self.printed.rstrip().splitlines()
        more = f" … and {len(lines) - 2} lines more" if len(lines) > 2 else ""
        return f"Your cell printed: {' / '.join(line[:80] for line in lines[:2])}{more}"

    def _repr_html_(self) -> str:
        notes = [self._print_note()] if self.printed else []
        return as_html([verdict.to_json() for verdict in self.verdicts], notes)

    def timeline(self):
        """A picture of one step of your function at full size. Needs matplotlib."""
        from .report import StepReport

        if self.evidence.learner is None:
            raise ValueError("nothing was measured: the cell has to run first")
        return StepReport.from_trace(self.evidence.learner.trace).show()


class Notebook:
    """One lesson in a notebook: ``Notebook("02_masked_loss")``, then ``check`` and ``hint``.

    ``device``: a name as for :func:`gapless.device`. Raises UnknownLesson, UnknownDevice.
    """

    def __init__(self, lesson_id: str, device: str | None = None):
        self.lesson = find_lesson(lesson_id)
        self._device_text = device
        self.device = choose_device(device)
        self.results: dict[str, CheckResult] = {}
        self._hints_given: dict[str, int] = {}

    def __repr__(self) -> str:
        kind = "simulated" if self.device.type == "vgpu" else "real"
        return f"Lesson {self.lesson.id} on {self.device} ({kind} {device_name(self.device)})"

    def check(self, function) -> CheckResult:
        """Check an exercise's function, or the exercise of that name if given as text.

        The newest cell marked with the exercise's name is run again by itself, as grading does: what it needs must be in
        it. What it prints is shown in short. Raises ValueError if the function's name is no exercise of this lesson.
        """
        name = function if isinstance(function, str) else getattr(function, "__name__", "")
        exercise = self._exercise(name)
        cases = exercise.cases(_SEED)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            evidence = self._gather(exercise, function, cases)
        result = CheckResult(name, tuple(judge(exercise, cases, evidence)), evidence, printed.getvalue())
        self.results[name] = result
        return result

    def hint(self, name: str) -> "Hint":
        """The next hint for the exercise: three stages, from a question to nearly the answer."""
        exercise = self._exercise(name)
        stage = min(self._hints_given.get(name, 0) + 1, len(exercise.hints))
        self._hints_given[name] = stage
        return Hint(name, stage, len(exercise.hints), exercise.hints[stage - 1])

    def score(self) -> str:
        """Points so far, of each exercise's last check in this session."""
        lines = []
        for name, exercise in self.lesson.exercises.items():
            result = self.results.get(name)
            state = f"{result.earned:g} of {result.points:g}" if result else f"not checked yet (of {exercise.max_points:g})"
            lines.append(f"{name:24} {state}")
        earned = sum(result.earned for result in self.results.values())
        return "\n".join([*lines, f"{'in all':24} {earned:g} of {self.lesson.max_points:g}"])

    def _exercise(self, name: str) -> Exercise:
        try:
            return self.lesson.exercises[name]
        except KeyError:
            known = ", ".join(self.lesson.exercises)
            raise ValueError(f"{name!r} is no exercise of this lesson; its exercises are {known}") from None

    def _gather(self, exercise: Exercise, function, cases) -> Evidence:
        try:
            own = self._from_cell(function, exercise.name)
        except CellError as error:
            return Evidence(exercise.name, str(self.device), device_name(self.device), error=str(error))
        try:
            # A name of the course's, so that "vgpu:a100" stays what the learner chose.
            return gather(exercise, own, cases, self._device_text or str(self.device), again=False)
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(
                f"{error} Something in this notebook still holds the memory, perhaps an earlier error: restart the "
                "kernel and run from the top."
            ) from None

    def _from_cell(self, function, name: str):
        if isinstance(function, str):
            raise ValueError(f"give the function itself: check({name})")
        filename = function.__code__.co_filename if hasattr(function, "__code__") else ""
        source = _newest_cell(name) or "".join(linecache.getlines(filename))
        if exercise_name(source) == name:
            return load_function(source, name, self.lesson.names)
        if is_notebook_cell(filename):
            raise CellError(f"the cell that defines {name} does not begin with the line '# exercise: {name}': put it back, "
                            "grading finds the cell by it")
        return function  # from a file: a script or a test


def _newest_cell(name: str) -> str | None:
    """The source of the cell marked ``name`` that was run last, whether or not it ran to its end; None outside
    IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    history = shell.user_ns.get("In", []) if shell is not None else []
    return next((source for source in reversed(history) if exercise_name(source) == name), None)


@dataclass(frozen=True)
class Hint:
    """One hint, with its stage."""

    exercise: str
    stage: int
    stages: int
    text: str

    def __str__(self) -> str:
        more = "Run the cell again for the next one." if self.stage < self.stages else "This was the last one."
        return f"Hint {self.stage} of {self.stages} for {self.exercise}: {self.text} {more}"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        more = "*Run the cell again for the next one.*" if self.stage < self.stages else "*This was the last one.*"
        return f"**Hint {self.stage} of {self.stages}.** {self.text} {more}"
