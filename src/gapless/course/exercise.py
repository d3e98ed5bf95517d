"""What a lesson and an exercise are."""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch

from .. import vgpu
from ..marker import program_name
from ..vgpu import Assumptions
from .evidence import Case, Evidence, Plan
from .mistakes import Changed, Mistake
from .quick import QuickQuestions
from .stage import Ask, Given


@contextmanager
def full_size(device: torch.device, assumptions: Assumptions = Assumptions()) -> Iterator[None]:
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


TRIAL_CALLS = 9  # of a function in one trial: enough for a long run and a profile
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
class Exercise:
    """One function that the learner writes or makes fast.

    ``slow`` is the function as handed out: the time to beat, and what is right unless ``right`` is given (for a stub
    that measures or computes wrongly). ``cases(seed)`` makes the inputs on which answers are compared.

    A function from tensors to one tensor needs no ``ask``: value, gradients, dtype and device are compared. Any other is
    called by ``ask(function, given, device)``, a generator in three parts (:data:`gapless.course.stage.Ask`) that returns
    what is to be compared: numbers, text, None, tensors (nobody has to read them), lists and dicts with text as keys. With
    ``on_device`` each number has to be a tensor on the device. ``see(case, answer, notes)`` may add to an answer what its
    notes tell (:class:`Notes`); ``verify(case, answer, notes, device)``, which comes after it and in no trial, what the
    device itself makes of the answer, with nothing of it left there. Numbers with a fraction may differ by the tolerances,
    all else must be equal. What is right is found on the CPU; with ``truth_on_device`` (for what only a device's clock can
    tell) on the device; ``wanted(case)`` says it, as ``see`` would find it, where that is known without asking ``right``.
    ``ranks``: each case runs on so many ranks as its option ``world`` says, a process and a GPU each,
    and the answer is what :mod:`.ranks` says. ``valueless``: it is asked where tensors have shapes and no values.
    ``behind``: the cases run on a card so slow that it is behind the host all the time, so that nobody gets away with
    reading early. ``precision``: whether a cell may choose TF32 on the virtual GPU; ``autotuned``: there convolutions are
    tuned, whatever a cell chooses. ``mistakes``: the known ways to get it wrong, the likeliest first; a wrong answer that
    one of them gives is explained by it. ``explain(case, found, wanted)`` may add why any other is wrong (answers as plain
    data, or as arrays where the exercise has no ``ask``): text or None.

    ``trial``: the inputs on which the function is timed. Without it only ``values`` can be checked. ``full(device)`` returns
    a function that gives the inputs at the article's size, anew for each call; on the virtual GPU they have no values.
    Without it the trial is at the article's size. ``busy_ms``: how long the device still has to work on something else when
    a measured call begins.

    ``whole_run``: a call is a whole run of a program, with a beginning of its own; there are few of them, none to warm up.
    ``best``: a model solution, measured beside the others, where a time is judged by a share of the speed-up that it
    reaches. ``judged(exercise, plan, evidence)``: check → (outcome, message), for an exercise that is judged in its own way.

    ``ask`` runs beside the learner's code: it is a function of a module (the lesson's ``stage``) that imports nothing a
    learner should not see.

    ``points``: check name (``values``, ``syncs``, ``bus_bytes``, ``peak_bytes``, ``host_time``, ``step_time``, ``kernels``)
    → points; only those named are checked. ``max_time_ratio``: check name → the largest time allowed, as a share of
    ``slow``'s; ``speed_up_shares``: check name (``speed_up_…``) → the least share of ``best``'s speed-up, where no change is
    a share of 0; ``max_bytes_ratio``: as much of what goes over the bus; ``max_peak_ratio``: of the memory that a call takes
    at most. ``max_syncs`` and ``max_read_back_bytes``: how often a step may wait, and what it may copy back to the host.
    ``least_syncs``: how often the step itself waits, whatever the function does; ``least_bytes_ratio``: as
    ``max_bytes_ratio``, what has to cross the bus in any case, of ``best``'s bytes where there is one; ``least_work_ratio``:
    of ``best``'s kernels, and of the time for which the device works there. With less the step was not made.
    ``fewer_kernels``: by how many a step has to launch fewer than the slow one. ``unwanted_kernels``: a regular expression
    for the names of those that no step may launch.
    ``advice``: operator (``item``) → why it waits here and what to try, in place of what the judge says of it elsewhere;
    ``kernels`` → what to try where too many are launched; ``peak_bytes`` → where too much
    memory is taken; ``step_time`` → where no wait is to blame.
    ``step_is``: what such a step is called in messages. ``assumptions``: the data-dependent sizes of the full-size inputs,
    for the virtual GPU. ``stub``: the cell as handed out, where it is more than the source of ``slow``. ``solution()``: the
    annotated solution, Markdown, where it is made and not a file.
    """

    name: str
    slow: Callable
    cases: Callable[[int], list[Case]]
    points: dict[str, float]
    hints: tuple[str, str, str]
    full: Callable[[torch.device], Callable[[], Given]] | None = None
    trial: Trial | None = None
    busy_ms: float = 0.0
    ask: Ask | None = None
    see: Callable[[Case, object, Notes], object] | None = None
    verify: Callable[[Case, object, Notes, torch.device], object] | None = None
    right: Callable | None = None
    wanted: Callable[[Case], object] | None = None
    on_device: bool = False
    truth_on_device: bool = False
    valueless: bool = False
    ranks: bool = False
    behind: bool = False
    whole_run: bool = False
    best: Callable | None = None
    speed_up_shares: dict[str, float] = field(default_factory=dict)
    judged: Callable[[Exercise, Plan, Evidence], dict[str, tuple[str, str]]] | None = None
    mistakes: Sequence[Mistake | Changed] = ()
    explain: Callable | None = None
    precision: bool = False
    autotuned: bool = False
    relative_tolerance: float = 1e-4
    absolute_tolerance: float = 1e-5
    max_syncs: float = 0
    least_syncs: float = 0
    max_time_ratio: dict[str, float] = field(default_factory=dict)
    max_bytes_ratio: float = 1.0
    max_peak_ratio: float = 1.0
    least_bytes_ratio: float = 0.0
    least_work_ratio: float = 0.0
    max_read_back_bytes: int = 4096
    fewer_kernels: int = 0
    unwanted_kernels: str = ""
    advice: dict[str, str] = field(default_factory=dict)
    step_is: str = "a step"
    assumptions: Assumptions = Assumptions()
    stub: str | None = None
    solution: Callable[[], str] | None = None

    def __post_init__(self):
        if self.ranks and (self.trial is not None or self.ask is None):
            raise ValueError(f"{self.name}: on several ranks there is no trial, and there has to be an ask")
        if self.trial is None and self.judged is None and set(self.points) != {"values"}:
            raise ValueError(f"{self.name}: without a trial only values can be checked, not {', '.join(self.points)}")

    @property
    def max_points(self) -> float:
        return sum(self.points.values())

    @property
    def step_capitalised(self) -> str:
        """``step_is`` where a sentence begins."""
        return self.step_is[:1].upper() + self.step_is[1:]

    @property
    def calls(self) -> int:
        """Of the function in one trial on the virtual GPU."""
        return WHOLE_CALLS if self.whole_run else TRIAL_CALLS

    def plan(self, seed: int) -> Plan:
        """What a function is asked; another for each ``seed``."""
        rng = np.random.default_rng([seed, 1])
        return Plan(self.cases(seed), self.trial.cases(rng, self.calls) if self.trial is not None else [])


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
    ``article``: what the article reports of it, in words. ``samples``: how many a step works on, where programs differ in
    that; the table's speed-up is then for each sample. ``largest_batch(device)``: the most samples that fit into the
    device's memory, for a table that tells of memory. ``steps``: of one timed run; a step of many kernels takes real time to
    simulate. ``whole_run``: a step is a whole run of a program, made once to be timed and once to be profiled."""

    name: str
    make_step: Callable[[torch.device], Callable[[], object]]
    article: str
    assumptions: Assumptions = Assumptions()
    samples: int = 1
    largest_batch: Callable[[torch.device], int] | None = None
    steps: int = 20
    whole_run: bool = False


@dataclass(frozen=True)
class Lesson:
    """``id`` is the folder's and the notebook's name (``02_masked_loss``); ``names()`` is what an
    exercise cell finds defined besides builtins, ``packages`` what those names and the exercises import besides torch,
    numpy and gapless (top-level names, imported when they are needed: the core does without).

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
    assumptions: Assumptions = Assumptions()
    packages: tuple[str, ...] = ()
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
    def max_points(self) -> float:
        return sum(exercise.max_points for exercise in self.exercises.values())

    def require_packages(self) -> None:
        """Raise ModuleNotFoundError, with what to do, where a package is missing that this lesson needs."""
        missing = [name for name in self.packages if importlib.util.find_spec(name) is None]
        if missing:
            install = " ".join({"PIL": "pillow"}.get(name, name) for name in missing)
            raise ModuleNotFoundError(f"lesson {self.id} needs {', '.join(missing)}, missing here: pip install {install}, "
                                      "then start Python, or the notebook's kernel, again", name=missing[0])
