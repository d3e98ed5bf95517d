"""What a lesson and an exercise are."""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import torch

from .. import vgpu
from ..marker import program_name
from ..measure.device import VARIABLE
from ..vgpu import Assumptions
from .check import Check
from .evidence import Case, Plan
from .mistakes import Changed, Mistake, right_function
from .quick import QuickQuestions
from .stage import Ask, Given

Kind = TypeVar("Kind", bound=Check)
_USUAL = Assumptions()

@contextmanager
def full_size(device: torch.device, assumptions: Assumptions = _USUAL) -> Iterator[None]:
    """Where a step of the article's size runs: on the virtual GPU tensors made inside have shapes and no values, on a
    real one nothing changes.

    An error inside lets go of the step's tensors: a notebook keeps the last traceback, and with it gigabytes.
    """
    with vgpu.shape_only(assumptions) if device.type == "vgpu" else nullcontext():
        try:
            yield
        except BaseException as error:
            _let_go(error)
            raise


def _let_go(error: BaseException | None) -> None:
    """Drop what the error and those before it keep alive: the frames' variables, and the tensor without an attribute."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        if isinstance(error, AttributeError):
            error.obj = None
        error = error.__cause__ or error.__context__


TRIAL_CALLS = 4  # of a function in one trial: the first, and three timed and recorded
WHOLE_CALLS = 1  # where a call is a whole run, timed and profiled at once


@dataclass(frozen=True)
class Trial:
    """An exercise at a middling size, where values are real: the very calls whose answers are compared are timed and watched
    for waits, so that no call can be right only where it is checked, or fast only where it is timed.

    ``cases(rng, count)``: so many inputs, all alike in shape, the shape drawn too. ``slowdown``: how much slower a card they
    run on than the one chosen, such that the work takes about as long as at the article's size; a number, or a function of
    the card.
    """

    cases: Callable[[np.random.Generator, int], list[Case]]
    slowdown: float | Callable[[vgpu.Card], float] = 1.0

    def card(self, card: vgpu.Card) -> vgpu.Card:
        """The slower card."""
        return card.slowed(self.slowdown(card) if callable(self.slowdown) else self.slowdown)


@dataclass(frozen=True)
class Asked:
    """How a function is called that is not one from tensors to one tensor, and what is made of its answer.

    ``ask(function, given, device)``: a generator in three parts (:data:`gapless.course.stage.Ask`) that returns what to
    compare: numbers, text, None, tensors (nobody has to read them), lists and dicts with text as keys. It
    runs beside the learner's code: a function of a module called ``stage``, which imports nothing a learner should not see.
    Without it value, gradients, dtype and device of the tensor are compared. ``on_device``: each number has to be a tensor
    on the device. ``see(case, answer, notes)`` may add to an answer what its notes tell (:class:`Notes`);
    ``verify(case, answer, notes, device)``, which comes after it and in no trial, what the device itself makes of the
    answer, with nothing of it left there.
    """

    ask: Ask | None = None
    see: Callable[..., object] | None = None
    verify: Callable[..., object] | None = None
    on_device: bool = False


@dataclass(frozen=True)
class Right:
    """What is right: what ``function`` answers on the CPU, or with ``on_device`` on the device (for what only a device's
    clock can tell). Without it the function as handed out is right. ``wanted(case)`` says it, as ``see`` would find it,
    where that is known without asking. Numbers with a fraction may differ by the tolerances, all else must be equal.
    ``facts(case, device)``: what a check in its own way has to find out on the device first; nothing is compared with it."""

    function: Callable | None = None
    wanted: Callable[[Case], object] | None = None
    facts: Callable[[Case, torch.device], object] | None = None
    on_device: bool = False
    relative_tolerance: float = 1e-4
    absolute_tolerance: float = 1e-5


@dataclass(frozen=True)
class Setting:
    """Where the cases run. ``ranks``: each on so many ranks as its option ``world`` says, a process and a GPU each, and the
    answer is what :mod:`.ranks` says. ``valueless``: where tensors have shapes and no values. ``behind``: on a card so slow
    that it is behind the host all the time, so that nobody gets away with reading early. ``precision``: a cell may choose
    TF32 on the virtual GPU; ``autotuned``: there convolutions are tuned, whatever a cell chooses."""

    ranks: bool = False
    valueless: bool = False
    behind: bool = False
    precision: bool = False
    autotuned: bool = False


@dataclass(frozen=True)
class Measurement:
    """How a function is timed and watched, beside the slow one.

    ``trial``: the inputs on which it is. ``full(device)`` returns a function that gives the inputs at the article's size,
    again for each call; on the virtual GPU they have no values, and ``assumptions`` say the sizes that depend on values.
    Without it the trial is at the article's size. ``busy_ms``: how long the device still has to work on something else when
    a measured call begins. ``whole_run``: a call is a whole run of a program, with a beginning of its own; there are few of
    them, none to warm up. ``best``: a model solution, measured beside the others. ``step_is``: what a call is called in
    messages.

    What every call has to do, whatever the function: ``own_waits``, how often the step itself waits; ``least_bytes_ratio``,
    the share of the bytes (of ``best``'s, else of the slow function's) that has to cross the bus; ``least_work_ratio``, the
    share of ``best``'s kernels and of its device's time. With less the step was not made. ``max_read_back_bytes``: what it
    may copy back to the host. ``right_waits``: how often a right function waits in a step, where no check is of waits and
    that is more often than the slow one. ``kernels_beside``: how many kernels a right function may launch beside the calls
    of a trial, besides what the slow one does there: to make a state, or to look at what it is given.
    """

    trial: Trial
    full: Callable[[torch.device], Callable[[], Given]] | None = None
    assumptions: Assumptions = _USUAL
    busy_ms: float = 0.0
    whole_run: bool = False
    best: Callable | None = None
    step_is: str = "a step"
    own_waits: float = 0
    least_bytes_ratio: float = 0.0
    least_work_ratio: float = 0.0
    max_read_back_bytes: int = 4096
    right_waits: float = 0
    kernels_beside: int = 0

    @property
    def calls(self) -> int:
        """Of the function in one trial on the virtual GPU."""
        return WHOLE_CALLS if self.whole_run else TRIAL_CALLS


@dataclass(frozen=True)
class Teaching:
    """What a learner reads. ``hints``: a question, a direction, nearly the answer. ``mistakes``: the known ways to get it
    wrong, the most likely first; a wrong answer that one of them gives is explained by it. ``explain(case, found, wanted)``
    may add why any other is wrong (answers as plain data, or as arrays where the exercise has no ``ask``): text or None.
    ``stub``: the cell as handed out, where it is more than the source of the slow function. ``solution()``: the annotated
    solution, Markdown, where it is made and not the file ``solution.md`` in the exercise's folder."""

    hints: tuple[str, str, str]
    mistakes: Sequence[Mistake | Changed] = ()
    explain: Callable | None = None
    stub: str | None = None
    solution: Callable[[], str] | None = None


@dataclass(frozen=True)
class Exercise:
    """One function that the learner writes or makes fast.

    ``slow`` is the function as handed out: the time to beat, and what is right unless ``right`` says otherwise.
    ``cases(seed)`` makes the inputs on which answers are compared; ``asked`` and ``setting`` say how and where. ``checks``:
    what is asked of the answers, and of the ``measurement``, without which only values can be checked.

    Raises ValueError for checks that cannot be judged so.
    """

    name: str
    slow: Callable
    cases: Callable[[int], list[Case]]
    checks: tuple[Check, ...]
    teaching: Teaching
    asked: Asked = Asked()
    right: Right = Right()
    setting: Setting = Setting()
    measurement: Measurement | None = None

    def __post_init__(self):
        names = [check.name for check in self.checks]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: each check has a name of its own, not {', '.join(names)}")
        if self.setting.ranks and (self.measurement is not None or self.asked.ask is None):
            raise ValueError(f"{self.name}: on several ranks nothing is measured, and there has to be an ask")
        of_measurement = [check.name for check in self.checks if check.measured]
        if of_measurement and (self.measurement is None or names[0] != "values"):
            raise ValueError(f"{self.name}: {', '.join(of_measurement)} can be checked with a measurement only, and after "
                             "the values")

    @property
    def max_points(self) -> float:
        return sum(check.points for check in self.checks)

    @property
    def handed_out_is_right(self) -> bool:
        """Whether the slow function is what is right."""
        return self.right.function is None

    def annotated_solution(self) -> str:
        """Markdown: ``solution.md`` in its folder, or what its teaching makes. Raises FileNotFoundError without either."""
        if self.teaching.solution is not None:
            return self.teaching.solution()
        return (resources.files(self._package) / "solution.md").read_text(encoding="utf-8")

    def model_solution(self, names: dict) -> Callable | None:
        """The function that a measurement on a real GPU is compared with; ``names`` as for a learner's cell. None without a
        measurement, or where no ``solution.md`` gives it: a lesson may be a single module."""
        if self.measurement is None:
            return None
        with suppress(OSError, TypeError, ValueError):
            return self.measurement.best or right_function(self._package, names)
        return None

    @property
    def _package(self) -> str:
        return self.slow.__module__.rpartition(".")[0]

    @property
    def watches_memory(self) -> bool:
        """Whether a check has to know what holds the device's memory."""
        return any(check.watches_memory for check in self.checks)

    @property
    def is_whole_run(self) -> bool:
        """Whether a measured call is a whole run of a program."""
        return self.measurement is not None and self.measurement.whole_run

    @property
    def step_capitalised(self) -> str:
        """``step_is`` where a sentence begins."""
        return self.measurement.step_is[:1].upper() + self.measurement.step_is[1:]

    def check_of(self, kind: type[Kind]) -> Kind | None:
        """The first check of this class, if there is one."""
        return next((check for check in self.checks if isinstance(check, kind)), None)

    def plan(self, seed: int) -> Plan:
        """What a function is asked; another for each ``seed``. Where it is measured, inputs on the device come late,
        except for those that a case says more of: what is made ready cannot do the work of what is measured."""
        rng, measurement = np.random.default_rng([seed, 1]), self.measurement
        trial = [] if measurement is None else measurement.trial.cases(rng, measurement.calls)
        return Plan(self.cases(seed), [replace(case, late={
            **{name: 0 for name in case.inputs if name not in case.on_host}, **case.late}) for case in trial])


@dataclass(frozen=True)
class Note:
    """A line that a function wrote down while it was asked. ``used``: the list of inputs of which a part was used last in an
    operator → how many of its tensors had been used by then, on the virtual GPU. ``held_bytes``, ``peak_bytes``: what the
    device's memory held at that moment, and at most since the call began. ``compilations``: how many graphs were compiled by
    then (forward), None on the CPU; ``uncompiled``: how many kernels operators of no compiled graph have launched by then,
    and how many of them are matrix products, from unknown numbers on, None but on the virtual GPU."""

    text: str
    used: dict[str, int]
    held_bytes: int = 0
    peak_bytes: int = 0
    compilations: int | None = None
    uncompiled: tuple[int, int] | None = None


class Notes(list[Note]):
    """What a function wrote down, and beside it what it has no say in: ``begun`` and ``ended``, what the device showed
    before the function was asked and after, and ``least_bytes``, the least that its memory held in between."""

    begun = ended = Note("", {})
    least_bytes = 0


@dataclass(frozen=True)
class Program:
    """One program of a lesson's headline table. ``make_step(device)`` returns its step; ``assumptions`` hold inside it.
    ``article``: what the article reports of it, in words. ``samples``: how many samples a step works on, where programs
    differ in that; the table's speed-up is then for each sample. ``largest_batch(device)``: the most samples that fit into
    the device's memory, for a table that tells of memory. ``steps``: of one timed run; a step of many kernels takes real
    time to simulate. ``whole_run``: a step is a whole run of a program, made once to be timed and once to be profiled."""

    name: str
    make_step: Callable[[torch.device], Callable[[], object]]
    article: str
    assumptions: Assumptions = _USUAL
    samples: int = 1
    largest_batch: Callable[[torch.device], int] | None = None
    steps: int = 20
    whole_run: bool = False


@dataclass(frozen=True)
class Lesson:
    """``id`` is the folder's and the notebook's name (``02_masked_loss``); ``names()`` is what an
    exercise cell finds defined besides builtins, ``packages`` what those names and the exercises import besides torch,
    numpy and gapless (top-level names, imported when they are needed: the core does without). ``imported_late``: modules
    that PyTorch imports when an exercise first uses them, which takes as long as importing PyTorch. A notebook imports them
    at its beginning, and grading once for all exercises. An optimizer's first step imports ``torch._dynamo``, and so do
    operators on the meta device.

    ``programs(fixed)``: the headline's programs, from the slow one to the fixed one, where ``fixed`` holds the
    exercises' functions by name; ``size(device)`` says in words at what size they run there. ``quick``: questions of a line
    each, to warm up. ``card``: the one that a notebook simulates where nobody chooses another; "" for the usual one.
    ``program``: the name of the program that its exercises are about, where there are several; ``variants``: of those, the
    name of each other → the lesson about it, with the same exercises and points.
    """

    id: str
    title: str
    exercises: dict[str, Exercise]
    names: Callable[[], dict]
    programs: Callable[[dict[str, Callable]], list[Program]] | None = None
    size: Callable[[torch.device], str] = lambda device: ""
    article: str = ""
    assumptions: Assumptions = _USUAL
    packages: tuple[str, ...] = ()
    imported_late: tuple[str, ...] = ("torch._dynamo",)
    quick: QuickQuestions | None = None
    card: str = ""
    program: str = ""
    variants: dict[str, Lesson] = field(default_factory=dict)

    def of(self, sources: Iterable[str]) -> Lesson:
        """The variant whose program the texts of its cells name; else the lesson itself."""
        names = (program_name(source) for source in sources)
        return next((self.variants[name] for name in names if name in self.variants), self)

    @property
    def named(self) -> dict[str, Lesson]:
        """The lesson and its variants, by the names that their figures have in a record."""
        return {self.id: self, **{f"{self.id}/{name}": variant for name, variant in self.variants.items()}}

    @property
    def handed_out(self) -> SimpleNamespace:
        """The slow functions, by the names of their exercises."""
        return SimpleNamespace(**{name: exercise.slow for name, exercise in self.exercises.items()})

    @property
    def several_gpus(self) -> bool:
        """Whether it has exercises for several GPUs at once."""
        return any(exercise.setting.ranks for exercise in self.exercises.values())

    def device_text(self, asked: str | None) -> str | None:
        """The device to run on where ``asked`` for, or the variable's (names as for :func:`gapless.device`); None: the best
        there is. A lesson about several GPUs is simulated: its ranks are forked, which CUDA does not allow."""
        asked = asked or os.environ.get(VARIABLE)
        return f"vgpu:{self.card}" if self.several_gpus and not (asked or "").startswith("vgpu") else asked

    @property
    def max_points(self) -> float:
        return sum(exercise.max_points for exercise in self.exercises.values())

    def require_packages(self) -> None:
        """Raise ModuleNotFoundError, with what to do, where a package is missing that this lesson needs."""
        missing = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if missing:
            install = " ".join({"PIL": "pillow"}.get(name, name) for name in missing)
            raise ModuleNotFoundError(f"lesson {self.id} needs {', '.join(missing)}, missing here: pip install {install}, "
                                      "then start Python, or the notebook's kernel, again", name=missing[0])
