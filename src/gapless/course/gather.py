"""Ask a learner's function, measure it, and write down what was seen. Judges nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace

import numpy as np
import torch

from .. import vgpu
from ..garbage import set_aside
from ..measure.device import device_name, stay_busy, synchronize
from ..measure.one_thread import one_thread
from ..measure.peak import PeakMeter, held
from ..measure.profile import profile, time_step, timed_profile
from ..measure.real_gpu import like_the_cpu, take_workspaces
from ..vgpu.process.state import state
from .answers import (
    answer,
    arrive,
    begin,
    hooked,
    is_overwritten,
    lists_of,
    precision_of,
    put,
    races_in,
    raised,
    read,
    without_limit,
    writer,
)
from .evidence import Answer, Aside, Case, Evidence, Measured, Plan, Run
from .exercise import TRIAL_CALLS, Exercise, Notes, full_size
from .notebooks.cells import describe_error
from .plain import OVERWRITTEN, Unusable
from .stage import Given, LocalStage

# Calls of one measurement on a real device: some thirty, since each has inputs of its own, and a step may take 0.3 s.
# Answers are read in the warm-up.
MEASURED: dict = {"warmup": TRIAL_CALLS, "steps": 5, "blocks": 4}
PROFILED = {"steps": 2, "warmup": 1}
# Of a whole run.
MEASURED_WHOLE: dict = {"warmup": 1, "steps": 1, "blocks": 3, "at_once": True}
PROFILED_WHOLE = {"steps": 1, "warmup": 0}


def gather(exercise: Exercise, stage, plan: Plan, device: torch.device, *, name: str = "", again: bool = False,
           order: np.random.Generator | None = None, runs: dict | None = None, model: Callable | None = None) -> Evidence:
    """What the function on ``stage`` answers, and its times beside the slow function's.

    ``stage``: a :class:`LocalStage`, or one in another process. ``name``: what ``device`` was asked for by.
    ``again``: the slow function is measured after the learner's too. ``order`` decides in which order all this happens;
    without it the cases come first. ``runs``: a dict, empty at first, for what the slow function and the model solution took
    with this exercise and plan on the virtual GPU: it is the same every time, and is measured once. ``model``: the model
    solution, measured too on a real GPU. Whatever the function does wrong is written into the evidence; nothing of it is
    raised.
    """
    if device.type != "vgpu" or again:
        runs = None
    if device.type == "vgpu":
        model = None
    take_workspaces(device)
    evidence = Evidence(exercise.name, name or str(device), device_name=device_name(device), simulated=device.type == "vgpu")
    answers: dict[int, Answer] = {}

    def ask(place: int) -> Callable[[], None]:
        def do():
            answers[place] = answer(exercise, stage, plan.cases[place], device)

        return do

    def full() -> None:
        with full_size(device, exercise.measurement.assumptions):
            with without_limit(device):
                given = exercise.measurement.full(device)
            measure = _remembered(exercise, stage, device, lambda where: _at_full_size(exercise, where, given, device))
            evidence.full = _compared(exercise, stage, device, again, model, _kept(runs, "full", exercise, stage, measure))

    def trial() -> None:
        quiet: list[bool] = []  # of each function measured: the slow one is the first

        def measure(where) -> tuple[Run, bool]:
            answers = evidence.trial_answers if where is stage else []
            at_once = exercise.measurement.whole_run or (bool(quiet) and quiet[0])
            run, launched_nothing = _try(exercise, where, plan, device, answers, at_once=at_once)
            if launched_nothing and not quiet and not at_once and exercise.watches_memory:
                # As the learner's will be: what answers hold on to until they are read is nobody's step.
                run, _ = _try(exercise, where, plan, device, [], at_once=True)
            return run, launched_nothing

        def run_of(where) -> Run:
            run, launched_nothing = _kept(runs, "trial", exercise, stage, measure)(where)
            quiet.append(launched_nothing)
            return run

        with vgpu.on_card(exercise.measurement.trial.card(vgpu.card())) if device.type == "vgpu" else nullcontext():
            kept_bytes = held(device) if exercise.watches_memory and stage.settle() else 0
            evidence.trial = _compared(exercise, stage, device, again, model, run_of)
            if evidence.trial.learner is not None:
                evidence.trial.learner.beside_bytes += kept_bytes
                with races_in(device) as races:  # the inputs are written on the program's stream here
                    evidence.again = _again(exercise, stage, plan, device) if len(plan.trial) > 1 else None
                if evidence.trial_answers:
                    evidence.trial_answers[-1].races += map(str, races)

    parts = [ask(place) for place in range(len(plan.cases))]
    parts += [full] if exercise.measurement is not None and exercise.measurement.full is not None else []
    parts += [trial] if plan.trial else []
    if exercise.asked.verify is not None or exercise.watches_memory:
        set_aside()
    try:
        with precision_of(exercise), one_thread():
            for place in range(len(parts)) if order is None else order.permutation(len(parts)):
                parts[place]()
    finally:
        if device.type == "vgpu":
            vgpu.timeline().reset()
    evidence.answers = [answers[place] for place in range(len(plan.cases))]
    return evidence


def _kept(runs: dict | None, kind: str, exercise: Exercise, stage, measure: Callable) -> Callable:
    """``measure``; with ``runs``, what it finds of a function that is not the learner's is kept there, for each card."""
    def found(where):
        if runs is None or where is stage:
            return measure(where)
        key = kind, "slow" if where.function is exercise.slow else "best", repr(vgpu.card())
        if key not in runs:
            runs[key] = measure(where)
        return runs[key]

    return found


_whole_runs: dict[tuple, Run] = {}  # of the slow programs and the model solutions, at full size on a virtual GPU


def _remembered(exercise: Exercise, stage, device: torch.device, measure: Callable[[object], Run]
                ) -> Callable[[object], Run]:
    """``measure``; a whole run that is not the learner's is made once for each card: it is the same every time, and long."""
    def measured(where) -> Run:
        learners = where is stage and getattr(stage, "function", None) is not exercise.slow
        if learners or not exercise.measurement.whole_run or device.type != "vgpu":
            return measure(where)
        key = (where.function, repr(vgpu.card()))
        if key not in _whole_runs:
            _whole_runs[key] = measure(where)
        return _whole_runs[key]

    return measured


def _compared(exercise: Exercise, stage, device: torch.device, again: bool, model: Callable | None,
              measure: Callable[[object], Run]) -> Measured:
    """``measure(stage)`` of the slow function and of the learner's, and of the model solutions that there are."""
    slow = LocalStage(exercise.slow, device, exercise.asked.ask)
    if exercise.watches_memory:
        gc.collect()  # what lies about in cycles would go some time
    # whatever the learner's function has switched before
    with vgpu.default_precision(exercise.setting.autotuned), without_limit(device):
        found = Measured(measure(slow))
        if exercise.measurement.best is not None:
            found.best = measure(LocalStage(exercise.measurement.best, device, exercise.asked.ask))
        if model is not None:
            with suppress(Exception):  # such as one that needs a compiler: the learner's function is judged all the same
                found.model = found.best or measure(LocalStage(model, device, exercise.asked.ask))
    try:
        found.learner = measure(stage)
    except Exception as error:
        found.error = describe_error(error, exercise.name)
    if again:
        with without_limit(device):
            found.after = measure(slow)
    return found



# -- time and waits -------------------------------------------------------------------------------


def _timed(exercise: Exercise, step: Callable[[], object], device: torch.device, meter: PeakMeter,
           prepare: Callable[[int], object] = lambda count: None) -> Run:
    """Time and trace a step, which lets ``meter`` watch what it takes of the memory. ``prepare(count)`` makes the next calls
    ready."""
    whole, simulated = exercise.measurement.whole_run, device.type == "vgpu"
    if simulated:
        vgpu.timeline().reset()
        vgpu.forget_plans()  # what another function has tuned, or has run untuned
    synchronize(device)
    waits, kernels = [0], []

    def counted():
        before, polls = vgpu.timeline().kernel_count, vgpu.timeline().polls
        waits.append(0)
        step()
        waits[-1] += vgpu.timeline().polls - polls
        waits.append(0)  # what the stopwatch waits for is nobody's
        kernels.append(vgpu.timeline().kernel_count - before)

    # Each call counts, whether it is profiled or not: which they are is no secret to who counts his calls.
    with hooked(device, lambda wait: waits.append(waits.pop() + 1)):
        if simulated:
            warmup = 0 if whole else 1
            time, trace = timed_profile(counted, warmup=warmup, steps=exercise.measurement.calls - warmup, device=device,
                                        prepare=prepare)
        else:
            time = time_step(counted, device=device, prepare=prepare, **(MEASURED_WHOLE if whole else MEASURED))
            trace = profile(counted, device=device, prepare=prepare, **(PROFILED_WHOLE if whole else PROFILED))
    return Run(time.host_ms, time.true_ms, list(time.samples_ms), trace, max(waits[1::2]), min(kernels), meter.peak_bytes,
               meter.aside_bytes)


@contextmanager
def _noted(device: torch.device, aside: Aside):
    """What is done inside is added to ``aside``: a function's work must not hide beside what is measured."""
    if device.type != "vgpu":
        yield
        return
    timeline = vgpu.timeline()
    timeline.recording, captured = vgpu.Recording(lines=False), timeline.captured_count
    recording = timeline.recording
    try:
        yield
    finally:
        timeline.recording = None
        aside.waits += len(recording.waits)
        # A copy of what is there computes nothing: a model may be copied before it is changed.
        aside.kernels += sum(record.category == "kernel" and "(clone)" not in record.name for record in recording.records)
        aside.kernels += timeline.captured_count - captured
        copies = [record for record in recording.records if record.category == "gpu_memcpy"]
        aside.read_back_bytes += sum(record.args["bytes"] for record in copies if "DtoH" in record.name)
        aside.sent_bytes += sum(record.args["bytes"] for record in copies if "HtoD" in record.name)


def _at_full_size(exercise: Exercise, stage, make_given: Callable[[], Given], device: torch.device) -> Run:
    meter = PeakMeter(device)

    def step():
        with without_limit(device):
            given = make_given()
        call = stage.begin(given)
        del given
        stay_busy(device, exercise.measurement.busy_ms)
        with meter.call():
            call.run()

    return _timed(exercise, step, device, meter)


def _calls(exercise: Exercise, device: torch.device) -> int:
    """Of the step, in one measurement."""
    if device.type == "vgpu":
        return exercise.measurement.calls
    whole = exercise.measurement.whole_run
    timed = MEASURED_WHOLE if whole else MEASURED
    return (timed["warmup"] + timed["blocks"] * (timed["steps"] + (not whole))
            + sum((PROFILED_WHOLE if whole else PROFILED).values()))


def _try(exercise: Exercise, stage, plan: Plan, device: torch.device, answers: list[Answer], *, at_once: bool
         ) -> tuple[Run, bool]:
    """Time and trace calls of the function on the trial's inputs; what they answer goes into ``answers``. Also whether
    nothing was launched where an answer is looked at.

    ``at_once``: that part belongs to what is timed, and the answer is read before the next call: work cannot be put off. On
    a real GPU, where reading takes time, answers are read at once where nothing is timed. Later ones are let go: what they
    hold would be memory that the next calls take.
    """
    simulated = device.type == "vgpu"
    cases = [plan.trial[place % len(plan.trial)] for place in range(_calls(exercise, device))]
    asked = [(case, *put(case, device)) for case in cases]
    aside, afterwards, meter = Aside(), Aside(), PeakMeter(device)
    begun: list[tuple] = []
    first: list[tuple] = []  # what the first answer was read from
    made_bytes: list[int] = []  # to make each call ready, on a real GPU
    ended = 0
    state.errors.clear()
    try:
        with races_in(device) as races:
            def exact(place: int) -> AbstractContextManager:
                """Around all of a call whose answer is read on a real GPU, its preparation too."""
                is_read = not simulated and (at_once or place < len(plan.trial))
                return like_the_cpu(device) if is_read else nullcontext()

            def prepare(count: int) -> None:
                """No call sees the inputs of those that are measured after it, and can do their work."""
                with _noted(device, aside), meter.aside():
                    for each in asked[len(begun):len(begun) + count]:
                        before = 0 if simulated else held(device)
                        with exact(len(begun)):
                            begun.append((*each, begin(stage, *each[:2])))
                        made_bytes.append(0 if simulated else held(device) - before)

            def finish(case: Case, given: Given, notes: Notes, call) -> None:
                try:
                    result = call.finish()
                    with vgpu.host_clock.uncounted():
                        answers.append(read(exercise, case, given, result, notes, None, device))
                        if at_once and not first and not exercise.watches_memory:
                            first.append((exercise, case, given, result, notes, None, device))
                except Unusable as error:
                    answers.append(raised(exercise, case, error))

            def step():
                nonlocal ended
                stay_busy(device, exercise.measurement.busy_ms)
                call, ended = begun[ended], ended + 1
                with meter.call():
                    call[-1].run()
                    if at_once:
                        finish(*call)

            def real_step():
                place = ended
                with exact(place):
                    step()
                    if not at_once and place < len(plan.trial):
                        finish(*begun[place])
                begun[place] = ()
                meter.gone_bytes += made_bytes[place]

            run = _timed(exercise, step if simulated else real_step, device, meter, prepare)
        with _noted(device, afterwards):
            for call in [] if at_once or not simulated else begun[:len(plan.trial)]:
                finish(*call)
        if first and ended > 1 and is_overwritten(answers[0], lambda: read(*first[0])):
            answers[0] = raised(exercise, cases[0], Unusable(OVERWRITTEN))
        run.aside, run.afterwards = aside, afterwards
        del answers[len(plan.trial):]
        if answers:
            answers[-1].races, answers[-1].swallowed = [str(race) for race in races], list(state.errors)
    finally:
        if device.type == "vgpu":
            state.unused.clear()
    return run, device.type == "vgpu" and afterwards == Aside()


def _again(exercise: Exercise, stage, plan: Plan, device: torch.device) -> Answer:
    """What the function answers to the trial's second case, in the tensors of the first, for which it was called before: as
    in a program that fills the same memory with each batch. Raises nothing of the function's."""
    first, second = plan.trial[:2]
    try:
        with like_the_cpu(device):
            given, _ = put(first, device)
            before = begin(stage, first, given)
            before.run()
            synchronize(device)  # what is still being copied must not be overwritten
            then, notes = put(second, device)
            lists = lists_of(second, given.inputs, device)
            call = stage.begin(replace(then, note=writer(notes, lists, device)), before)
            for inputs in (given.inputs, then.inputs):  # those that it has, and those of another form that it got
                arrive(second, inputs)
            state.unused.update(*lists.values())  # an operator wrote the values before these
            call.run()
            return read(exercise, second, then, call.finish(), notes, None, device)
    except Exception as error:
        return raised(exercise, second, error)
    finally:
        if device.type == "vgpu":
            state.unused.clear()
