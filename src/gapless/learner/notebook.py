"""What a lesson's notebook calls: checks, hints, handing in. Needs neither papermill nor nbgrader."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TypeVar

import torch

from .. import vgpu
from ..course.answers import put
from ..course.evidence import Evidence
from ..course.exercise import Exercise, Lesson, full_size
from ..course.gather import gather
from ..course.headline import MarkdownText, measure_programs, table
from ..course.judge import judge
from ..course.notebooks.cells import CellError, load_function
from ..course.notebooks.stub import handed_out
from ..course.notebooks.submission import SubmissionError
from ..course.quick import answered, listed
from ..course.stage import LocalStage
from ..course.verdicts import PASS, SIGNS, Verdict, as_html
from ..evidence.quote import line_at
from ..evidence.report import StepReport
from ..garbage import set_aside
from ..measure.device import device as choose_device
from ..measure.device import device_name, origin_of
from ..measure.profile import profile, time_step
from ..measure.several_gpus import RankResult, hide_real_gpus, import_for_all, on_gpus
from ..vgpu import Assumptions
from . import explain_names
from .ahead import Ahead
from .known import SEED, Known
from .marked_cell import CannotCheck, ipython_shell, name_of, newest_cell, same_text, source_of
from .own_notebook import NotFound, OwnNotebook, find_own_notebook, in_colab
from .patches import remember, void
from .progress import Progress, progress
from .progress_file import read_progress, record_check, record_hint
from .submit import CannotSubmit, Submitted, make, offer_download

_MOST_WAITS = 12  # that are shown one by one
_LOOK_WIDTH = 44  # of a source line behind a wait: the whole line of output fits into a notebook's cell

_ENDS_PYTHON = "the cell ends Python (`exit`, `sys.exit`): remove that"

# Set where nbgrader validates a notebook: it takes a cell for passed unless the cell raises, whatever it shows.
_VALIDATING = "NBGRADER_VALIDATING"


Kind = TypeVar("Kind")


class NotPassed(AssertionError):
    """A check that did not pass, for nbgrader's *Validate*; the message is the check's."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@dataclass(frozen=True)
class CheckResult:
    """The verdicts of one exercise; shows itself in a notebook and in a terminal."""

    exercise: str
    verdicts: tuple[Verdict, ...]
    evidence: Evidence
    printed: str = ""
    remark: str = ""  # of what has nothing to do with the verdicts: progress that could not be saved

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
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _notes(self) -> list[str]:
        return [*([self._print_note()] if self.printed else []), *filter(None, [self._input_note(), self.remark])]

    def _input_note(self) -> str:
        failed = next((re.match(r'On the input "(.*?)" ', v.message) for v in self.verdicts if v.outcome != PASS), None)
        return f'To look at that input: lesson.inputs("{self.exercise}")["{failed[1]}"]' if failed else ""

    def _print_note(self) -> str:
        lines = self.printed.rstrip().splitlines()
        more = f" … and {len(lines) - 2} lines more" if len(lines) > 2 else ""
        return f"Your cell printed: {' / '.join(line[:80] for line in lines[:2])}{more}"

    def _repr_html_(self) -> str:
        return as_html([verdict.to_json() for verdict in self.verdicts], self._notes())

    def timeline(self):
        """A picture of one step of your function at full size. Needs matplotlib."""
        if self.evidence.learner is None:
            raise ValueError("nothing was measured: run the cell first")
        return self.evidence.learner.report.show()


class Notebook:
    """One lesson in a notebook: ``Notebook("02_masked_loss")``, then ``check`` and ``hint``.

    ``device``: a name as for :func:`gapless.device`. A lesson about several GPUs is simulated on any machine. Raises
    UnknownLesson, UnknownDevice, and ModuleNotFoundError where a package is missing that the lesson needs.
    """

    def __init__(self, lesson_id: str, device: str | None = None):
        from ..lessons import find_lesson  # here, not above: a program that only measures does not have to load them

        self._lesson = find_lesson(lesson_id)
        self.lesson.require_packages()
        if self._lesson.several_gpus:
            hide_real_gpus()
        self._device_text = device = self._lesson.device_text(device)
        self.device = choose_device(device, self.lesson.card)
        self.results: dict[str, CheckResult] = {}  # of the last check of each exercise
        self._best: dict[str, float] = {}
        self._hints_given: dict[str, int] = {}
        self._remarks: set[str] = set()
        self._known: dict[str, Known] = {}
        self._checked: dict[tuple[str, str], CheckResult] = {}  # by exercise and text, as far as it is a cell's
        for module in self.lesson.imported_late:  # here, where everybody waits for imports
            importlib.import_module(module)
        if self._lesson.several_gpus:
            import_for_all()
        set_aside()
        remember()
        explain_names.install(self.lesson.exercises)
        self.ahead = Ahead(lesson_id, device)
        if self.device.type == "vgpu":  # a real one's clock counts what another process does
            self.ahead.start_when_idle()

    @property
    def lesson(self) -> Lesson:
        """The lesson; of one with several programs that whose cells were run last."""
        if not self._lesson.variants:
            return self._lesson
        return self._lesson.of(filter(None, map(newest_cell, self._lesson.exercises)))

    @lesson.setter
    def lesson(self, lesson: Lesson) -> None:
        self._lesson = lesson

    @property
    def handed_out(self) -> SimpleNamespace:
        """The exercises' functions as they are handed out, by name: ``lesson.handed_out.train``."""
        return self.lesson.handed_out

    def __repr__(self) -> str:
        simulated = self.device.type == "vgpu"
        kind = "simulated" if simulated else "real"
        return f"Lesson {self.lesson.id} on {self.device} ({kind} {device_name(self.device)})"

    def _ran_on(self, exercise: Exercise) -> str:
        """The GPU that the exercise is checked on, in words."""
        if self.device.type == "vgpu":
            return f"{vgpu.card().name} (simulated)"
        return device_name(self.device)

    def check(self, function) -> CheckResult:
        """Check an exercise's function, or the exercise of that name if given as text.

        The newest cell marked with the exercise's name is run again by itself, as grading does: what it needs must be in
        it. What it prints is shown in short. Raises CannotCheck, a ValueError, where what is given is no exercise's
        function.
        """
        name = name_of(function, self.lesson.exercises)
        result = self._check(self._exercise(name), lambda: source_of(function, name))
        if os.environ.get(_VALIDATING) and not result.passed:
            raise NotPassed(str(result))
        return result

    def check_source(self, name: str, source: str) -> CheckResult:
        """Check the exercise ``name`` with the text of its cell, as :meth:`check` does with the cell that was run."""
        return self._check(self._exercise(name), lambda: source)

    def _check(self, exercise: Exercise, find: Callable[[], str | Callable]) -> CheckResult:
        known, printed, source = self._known_of(exercise), io.StringIO(), None
        plan, truth = known.plan, known.truth
        problem = void()
        if problem is None:
            truth.answers(plan)  # before anything of the learner's runs
            with contextlib.redirect_stdout(printed):
                evidence, source = self._gather(exercise, find, known)
            problem = void()
        if problem is not None:
            evidence = self._nothing_seen(exercise, problem)
        verdicts = tuple(judge(exercise, plan, evidence, truth, source))
        result = CheckResult(exercise.name, verdicts, evidence, printed.getvalue())
        remark = record_check(self.lesson.id, exercise.name, result.earned, result.points, self._ran_on(exercise))
        result = replace(result, remark=self._once(remark))
        self.results[exercise.name] = result
        if source is not None:
            self._checked[exercise.name, same_text(source)] = result
        self._best[exercise.name] = max(result.earned, self._best.get(exercise.name, 0))
        return result

    def _known_of(self, exercise: Exercise) -> Known:
        """What its checks have in common; made again where a real clock had a part in it, which drifts."""
        if exercise.right.on_device and self.device.type != "vgpu":
            self._known.pop(exercise.name, None)
        known = self._known.get(exercise.name)
        if known is None or known.exercise is not exercise:  # another program's
            found = self.ahead.found(self.lesson, exercise)
            known = Known.of(exercise, self.device_name) if found is None else Known.by(found, exercise, self.device_name)
            self._known[exercise.name] = known
        return known

    def _once(self, remark: str) -> str:
        """The remark, unless it has been made already."""
        new = "" if remark in self._remarks else remark
        self._remarks.add(remark)
        return new

    def look(self, make_step, assumptions: Assumptions | None = None, steps: int = 3) -> StepReport:
        """Time the step that ``make_step()`` returns, profile ``steps`` of them, and print what a step takes and the last
        one's waits; returns the profile's report.

        The step is made and run at full size: on the virtual GPU without values, where sizes that depend on
        values follow ``assumptions`` (by default the lesson's).
        """
        with full_size(self.device, assumptions or self.lesson.assumptions):
            step = make_step()
            true_ms = time_step(step, device=self.device).true_ms
            report = StepReport.from_trace(profile(step, steps=steps, device=self.device))
        waits = "1 wait" if report.syncs_per_step == 1 else f"{report.syncs_per_step:g} waits"
        print(f"a step takes {true_ms:.2f} ms in a long run ({origin_of(self.device)})")
        slowed = " (the profiler slows the host)" if not report.simulated and report.host_step_ms > true_ms else ""
        print(f"in the profile, the host's step: {report.host_step_ms:.2f} ms{slowed}, {waits}")
        cells = {name: newest_cell(name) or "" for name in self.lesson.exercises}
        last = [sync for sync in report.syncs_in_steps if sync.step == report.steps - 1]
        for often, sync, wait_ms in _alike(last) if len(last) > _MOST_WAITS else [("", sync, sync.wait_ms) for sync in last]:
            line = line_at(sync.location, cells) or ""
            line = line if len(line) <= _LOOK_WIDTH else f"{line[:_LOOK_WIDTH - 1]}…"
            name = f"{often}{sync.op or sync.name}"
            print(f"  {wait_ms:8.2f} ms  {name:{22 if often else 16}} {sync.location or '':27} {line}".rstrip())
        return report

    def on_gpus(self, count: int, function: Callable, *args, **options) -> list[RankResult]:
        """:func:`gapless.on_gpus` with this lesson's card, or with the one that ``device=`` names: ``function(rank, count,
        *args)`` in ``count`` processes. The GPUs are virtual whatever the lesson's device is."""
        return on_gpus(count, function, *args, **{"device": vgpu.card(), **options})

    def inputs(self, name: str) -> dict[str, object]:
        """What the check gives to the exercise's function: the input's name → its argument, or a tuple of its arguments.
        The same as in :meth:`check`; grading draws others."""
        exercise, found = self._exercise(name), {}
        for case in exercise.cases(SEED):
            taken = []

            def take(*args, **options):
                taken.append([*args, *options.values()])  # noqa: B023  called in this round

            given, _ = put(case, torch.device("cpu") if exercise.asked.ask is None else self.device)
            with contextlib.suppress(Exception):  # it asks for an answer
                call = LocalStage(take, self.device, exercise.asked.ask).begin(given)
                call.run()
            found[case.name] = taken[0][0] if len(taken[0]) == 1 else tuple(taken[0])
        return found

    def headline(self, functions: dict[str, Callable] | None = None) -> MarkdownText:
        """The lesson's programs from the slow one to the fixed one, measured with your ``functions`` (exercise name →
        function), beside the article's figures: a Markdown table. It takes some ten seconds; a bar shows how far it is."""
        programs, measured = self.lesson.programs, measure_programs(self.lesson, self.device, functions or {})
        count = 0 if programs is None else len(programs(functions or {}))
        return table(self.lesson, [figures for figures, _ in _with_bar(measured, count, "programs measured")])

    def hint(self, name: str) -> Hint:
        """The next hint for the exercise: three stages, from a question to nearly the answer."""
        exercise = self._exercise(name)
        stage = min(self._hints_given.get(name, 0) + 1, len(exercise.teaching.hints))
        self._hints_given[name] = stage
        record_hint(self.lesson.id, name, stage)
        return Hint(name, stage, len(exercise.teaching.hints), exercise.teaching.hints[stage - 1])

    def quick(self, answers: str | None = None) -> MarkdownText:
        """The lesson's quick questions; with ``answers``, a y or an n for each, what the device says to them. Raises
        CannotCheck, a ValueError, where the answers cannot be read or the lesson has no questions."""
        questions = self.lesson.quick
        if questions is None:
            raise CannotCheck(f"lesson {self.lesson.id} has no quick questions.")
        if answers is None:
            return MarkdownText(listed(questions))
        try:
            return MarkdownText(answered(questions, answers, self.device))
        except ValueError as error:
            raise CannotCheck(str(error)) from None

    def solution(self, name: str, give_up: bool = False) -> MarkdownText:
        """The exercise's solution with remarks, once it is passed, in this session or before; with ``give_up`` at once."""
        exercise = self._exercise(name)
        recorded = read_progress()[0].get(self.lesson.id, {}).get(name)
        best = max(self._best.get(name, 0.0), 0.0 if recorded is None else recorded.best)
        if best < exercise.max_points and not give_up:
            hint, give_up = (f"lesson.{what}" for what in (f'hint("{name}")', f'solution("{name}", give_up=True)'))
            return MarkdownText(f"You have {best:g} of {exercise.max_points:g} points for `{name}`. The solution is "
                                f"shown once you have all of them. For a hint, run `{hint}`. To give up and read it "
                                f"now: `{give_up}`.")
        return MarkdownText(exercise.annotated_solution())

    def progress(self) -> Progress:
        """The best points of this lesson's exercises so far, from all sessions on this computer: a panel."""
        return progress(self.lesson.id)

    def reset(self, name: str) -> HandedOut:
        """The exercise's cell as it was handed out. Jupyter puts it into a new cell below this one.

        Your own cell stays: a program cannot safely change a notebook that is open. In a terminal, with the notebook
        closed, ``gapless reset NOTEBOOK EXERCISE`` does. Raises ValueError where there is no such exercise.
        """
        text = handed_out(self._exercise(name))
        shell = ipython_shell()
        if shell is not None:
            shell.set_next_input(text, replace=False)
        return HandedOut(name, text, shell is not None)

    def submit(self, notebook: str | os.PathLike | None = None, *, name: str | None = None,
               folder: str | os.PathLike | None = None, replace: bool = False) -> Submitted:
        """Make the file to hand in, without outputs and with your ``name`` on it if you give one, and say how each exercise
        stands; exercises that do not pass may be handed in.

        ``notebook``: the saved file, where the editor does not say which it is. ``folder``: where the file goes; by default
        ``hand_in`` beside the notebook. A file there that is for another lesson or name stays, but with ``replace``. Raises
        CannotSubmit, a ValueError, where a given ``notebook`` is not this lesson's or cannot be read or written; where none
        is given, what is returned says so, so that a notebook that runs from top to bottom goes on.
        """
        try:
            own = find_own_notebook(self._lesson.id) if notebook is None else OwnNotebook.at(notebook)
            made = make(self._lesson, own, self._standing, name, folder, replace)
        except (SubmissionError, NotFound, CannotSubmit) as error:
            if notebook is not None:
                raise CannotSubmit(str(error)) from None
            return Submitted(self._lesson.id, why=str(error))
        return offer_download(made) if in_colab() else made

    def _standing(self, exercise: Exercise, source: str, lesson: Lesson) -> str:
        """How the exercise stands with the text ``source``, in words."""
        checked = self._checked.get((exercise.name, same_text(source)))
        if checked is None:
            refused = _refusal(source, exercise.name, lesson)
            return f"would get no points: {refused}" if refused else "not checked with this text since the kernel started"
        if checked.passed:
            return f"all {checked.points:g} points at its check"
        why = f": {checked.evidence.error}" if checked.evidence.error else ""
        return f"{checked.earned:g} of {checked.points:g} points at its last check{why}"

    def score(self) -> str:
        """Points so far: the most that a check of each exercise has brought in this session. A later try that brings less
        takes nothing away."""
        lines = []
        for name, exercise in self.lesson.exercises.items():
            best, most = self._best.get(name), exercise.max_points
            lines.append(f"{name:24} " + (f"not checked yet (of {most:g})" if best is None else f"{best:g} of {most:g}"))
        return "\n".join([*lines, f"{'in all':24} {sum(self._best.values()):g} of {self.lesson.max_points:g}"])

    def _exercise(self, name: str) -> Exercise:
        try:
            return self.lesson.exercises[name]
        except KeyError:
            known = ", ".join(self.lesson.exercises)
            raise ValueError(f"{name!r} is not an exercise of this lesson; its exercises are {known}") from None

    @property
    def device_name(self) -> str:
        """A name of the course's, so that "vgpu:a100" stays what the learner chose."""
        return self._device_text or str(self.device)

    def _gather(self, exercise: Exercise, find: Callable[[], str | Callable], known: Known) -> tuple[Evidence, str | None]:
        """What was seen, and the text of the cell."""
        source = None
        try:
            function = find()
            if isinstance(function, str):
                source, function = function, load_function(function, exercise.name, self.lesson.names())
            stage = LocalStage(function, self.device, exercise.asked.ask)
            model = None if self.device.type == "vgpu" else exercise.model_solution(self.lesson.names())
            return gather(exercise, stage, known.plan, choose_device(self.device_name), name=self.device_name,
                          runs=known.runs, model=model), source
        except CellError as error:
            return self._nothing_seen(exercise, str(error)), source
        except SystemExit:
            return self._nothing_seen(exercise, _ENDS_PYTHON), source
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(
                f"{error} Something in this notebook still uses the memory, perhaps an earlier error: restart the "
                "kernel and run from the top."
            ) from None

    def _nothing_seen(self, exercise: Exercise, why: str) -> Evidence:
        return Evidence(exercise.name, self.device_name, device_name(self.device), error=why)


def _with_bar(things: Iterable[Kind], count: int, done: str) -> Iterator[Kind]:
    """``things``, of which there are about ``count``; a line of the output shows how many there have been."""
    def show(number: int) -> None:
        print(f"\r{'█' * number}{'░' * (count - number)} {number} of {count} {done}", end="", flush=True)

    show(0)
    for number, thing in enumerate(things, start=1):
        show(number)
        yield thing
    print()


def _refusal(source: str, name: str, lesson: Lesson) -> str:
    """Why a check and grading would not take the exercise's cell, in their words, or ''. Runs it, as they do."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            load_function(source, name, lesson.names())
    except CellError as error:
        return str(error)
    except SystemExit:
        return _ENDS_PYTHON
    return ""


def _alike(syncs) -> list[tuple]:
    """How often in words, the first, and the milliseconds in all, of the waits of one operator on one line."""
    found: dict[tuple, list] = {}
    for sync in syncs:
        found.setdefault((sync.op or sync.name, sync.location), []).append(sync)
    return [(f"{len(same)} × " if len(same) > 1 else "", same[0], sum(sync.wait_ms for sync in same))
            for same in found.values()]


@dataclass(frozen=True)
class HandedOut:
    """An exercise's cell as it was handed out: ``text``."""

    exercise: str
    text: str
    in_new_cell: bool

    def __str__(self) -> str:
        if not self.in_new_cell:
            return self.text
        return (f"Where your notebook can, the cell of {self.exercise} as handed out is now in a new cell below. Run that "
                "one and delete your old cell: of two with the same first line the lower one counts. The text:\n\n"
                + self.text)

    __repr__ = __str__


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
