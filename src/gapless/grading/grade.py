"""From a submission to a result: each exercise asked behind the fence, its evidence judged here.

This side never runs the learner's code. It makes the hidden inputs, has the learner's function asked
(:mod:`.sandbox.ask`), and decides on what was seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import math
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version

import torch

from ..course.evidence import Evidence, Plan
from ..course.exercise import Exercise, Lesson
from ..course.judge import judge
from ..course.notebooks.stub import handed_out
from ..course.notebooks.submission import Submission, read_submission
from ..course.truth import Truth
from ..course.verdicts import Verdict
from ..files import write_json
from ..measure.device import VARIABLE
from ..measure.device import device as find_device
from .sandbox.ask import AskAlone, Asker, Broken, DeviceBehind, Ended, OwnProcess
from .sandbox.confine import Confinement, GradingError, Limits, require_confinement


@dataclass(frozen=True)
class Result:
    """What a submission scored. ``device`` is the name it was asked for by, like ``vgpu:a10g``;
    ``confinement`` says what kept the learner's code in. ``seed`` made the hidden inputs: for the instructor only."""

    lesson: str
    device: str
    simulated: bool
    verdicts: list[Verdict]
    confinement: str
    seed: int
    notes: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        return math.fsum(verdict.earned for verdict in self.verdicts)

    @property
    def max_score(self) -> float:
        return math.fsum(verdict.points for verdict in self.verdicts)

    def to_json(self) -> dict:
        """Plain JSON types. Holds the seed, from which the hidden inputs can be made: not for learners."""
        return {"lesson": self.lesson, "device": self.device, "simulated": self.simulated, "score": self.score,
                "max_score": self.max_score, "checks": [verdict.to_json() for verdict in self.verdicts],
                "confinement": self.confinement, "seed": self.seed, "notes": self.notes,
                "versions": {"gapless": version("gapless"), "torch": torch.__version__}}

    def write(self, path: str | os.PathLike) -> None:
        """Write the JSON to ``path``, whole or not at all."""
        write_json(path, self.to_json())


@dataclass(frozen=True)
class Graded:
    """One exercise: the verdicts and the evidence they rest on."""

    verdicts: list[Verdict]
    evidence: Evidence


class Grader:
    """Grades one submission, exercise by exercise, on one device.

    ``submission``: a path, or one already read. ``lesson``: the lesson it must be for; by default
    the one the notebook is found to be for. ``device``: a name as for :func:`gapless.device`. ``seed``
    makes the hidden inputs; by default nobody can know it. ``lessons`` is the package that holds
    the lessons. Without ``confinement`` one is required: see :func:`.sandbox.confine.require_confinement`. Raises
    SubmissionError, UnknownDevice, GradingError, the last also where a package is missing that the lesson needs.
    """

    def __init__(self, submission: Submission | str | os.PathLike, device: str | None = None,
                 seed: int | None = None, *, lesson: str | None = None, lessons: str = "gapless.lessons",
                 limits: Limits = Limits(),
                 confinement: Confinement | None = None):
        self._package = lessons
        if not isinstance(submission, Submission):
            submission = read_submission(submission, known_exercises(lessons), lesson)
        self.submission = submission
        self.lesson: Lesson = importlib.import_module(lessons).find_lesson(submission.lesson_id).of(
            submission.cells.values())
        try:
            self.lesson.require_packages()
        except ModuleNotFoundError as error:
            raise GradingError(str(error)) from None
        self.device = self.lesson.device_text(device) or default_device()
        find_device(self.device)
        self.seed = secrets.randbits(64) if seed is None else seed
        self._limits = limits
        self.confinement = confinement or require_confinement()
        self._stop = threading.Event()
        self._asker: Asker | None = None
        self._running: dict[str, Future] = {}
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def close(self) -> None:
        """End what is still running."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._asker is not None:
            self._asker.close()

    def grade_exercise(self, name: str) -> Graded:
        """Run and judge one exercise. The others are started along with the first that is asked for.

        Raises GradingError where grading itself failed: then there is no score.
        """
        if name not in self.lesson.exercises:
            known = ", ".join(self.lesson.exercises)
            raise ValueError(f"lesson {self.lesson.id} has no exercise {name!r}; it has {known}")
        if self._pool is None:
            # On a real GPU one at a time, as another's work would show in the times; modelled clocks do not mind.
            at_once = 1 if self._on_cuda else min(len(self.lesson.exercises), os.cpu_count() or 1)
            make = OwnProcess if self._on_cuda else DeviceBehind
            self._asker = make(self.lesson, self._package, self.device, self._limits, self.confinement, self._stop.is_set)
            self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="grade")
            for each, exercise in self.lesson.exercises.items():
                self._running[each] = self._pool.submit(self._grade, exercise)
        return self._running[name].result()

    @property
    def _on_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def result(self, progress: Callable[[str], None] = lambda text: None) -> Result:
        """Grade what has not been graded yet; the whole result. ``progress`` is called with each exercise when done."""
        verdicts = []
        for i, name in enumerate(self.lesson.exercises, start=1):
            graded = self.grade_exercise(name).verdicts
            verdicts += graded
            progress(f"{i}/{len(self.lesson.exercises)} {name}: {math.fsum(v.earned for v in graded):g} of "
                     f"{math.fsum(v.points for v in graded):g} points")
        return Result(self.lesson.id, self.device, self.device.startswith("vgpu"), verdicts,
                      self.confinement.description, self.seed, self.submission.notes)

    def write(self, path: str | os.PathLike) -> Result:
        """Write the whole result to ``path``, and return it."""
        result = self.result()
        result.write(path)
        return result

    def _grade(self, exercise: Exercise) -> Graded:
        plan, order = self._inputs(exercise)
        truth, asked = Truth(exercise, self.device), threading.Event()
        if not self._on_cuda:  # there it would take time from what is measured
            threading.Thread(target=_find_out, args=(truth, plan, self._asker, asked), daemon=True).start()
        try:
            evidence = self._ask(exercise, plan, order)
        except AskAlone as first:
            plan, order = self._inputs(exercise, ", alone")
            evidence = self._ask(exercise, plan, order, alone=True, spent_s=min(first.seconds, 0.8 * self._limits.seconds))
        finally:
            asked.set()
        verdicts = judge(exercise, plan, evidence, truth, self.submission.cells.get(exercise.name))
        if not math.isclose(math.fsum(verdict.points for verdict in verdicts), exercise.max_points):
            raise GradingError(f"the checks of {exercise.name} do not add up to its {exercise.max_points:g} points")
        return Graded(verdicts, evidence)

    def _inputs(self, exercise: Exercise, which: str = "") -> tuple[Plan, int]:
        """The hidden inputs, and what decides on their order."""
        return (exercise.plan(seed_for(self.seed, exercise.name + which)),
                seed_for(self.seed, f"{exercise.name}{which}: order"))

    def _ask(self, exercise: Exercise, plan: Plan, order: int, **how) -> Evidence:
        blank = Evidence(exercise.name, self.device, simulated=self.device.startswith("vgpu"))
        source = self.submission.cells.get(exercise.name)
        if source is None:
            blank.error = (f"no code cell begins with the line '# exercise: {exercise.name}': put that line back at "
                           "the top of the exercise's cell, or copy the cell from the lesson's notebook")
            return blank
        try:
            return self._asker.ask(exercise, plan, source, order, **how)
        except Ended as end:
            blank.error = str(end)
            return blank
        except Broken as fault:
            last = str(fault).strip().splitlines()[-1]
            blank.error = f"with this cell nothing could be measured: {last}"
        try:
            # Our own code raised. Whose fault is it? Try without the learner's, where nothing of theirs is left.
            self._asker.ask(exercise, plan, handed_out(exercise), order, alone=True)
        except (Broken, Ended) as fault:
            raise GradingError(f"measuring {exercise.name} fails whatever the cell does: {fault}") from None
        return blank


def grade(submission: Submission | str | os.PathLike, device: str | None = None, seed: int | None = None,
          progress: Callable[[str], None] = lambda text: None, **options) -> Result:
    """Grade a whole submission; arguments as for :class:`Grader`.

    Raises SubmissionError, UnknownDevice, GradingError.
    """
    with Grader(submission, device, seed, **options) as grader:
        return grader.result(progress)


def default_device() -> str:
    """The name of the device to grade on where nothing says another."""
    return os.environ.get(VARIABLE) or ("cuda" if torch.cuda.is_available() else "vgpu")


def known_exercises(lessons: str = "gapless.lessons") -> dict[str, list[str]]:
    """Lesson id → the names of its exercises, of every lesson in the package ``lessons``."""
    known = importlib.import_module(lessons).LESSONS
    return {lesson.id: list(lesson.exercises) for lesson in known.values()}


def _find_out(truth: Truth, plan: Plan, asker: Asker, asked: threading.Event) -> None:
    """Find out what is right while the learner's function is asked; what is left by then is left to the judge, and so is
    what fails."""
    while not asker.is_ready and not asked.wait(0.05):
        pass  # the processes that are starting are waited for: they go first
    with contextlib.suppress(Exception):
        for case in (*plan.cases, *plan.trial):
            if asked.is_set():
                return
            truth.of(case)


def seed_for(seed: int, exercise: str) -> int:
    """The seed of one exercise's inputs, 32 bits: no exercise's inputs tell of another's."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{exercise}".encode()).digest()[:4], "big")
