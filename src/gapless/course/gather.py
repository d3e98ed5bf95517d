"""Ask a learner's function, measure it, and write down what was seen. Judges nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import torch

from .. import vgpu
from ..garbage import set_aside
from ..measure.compilations import compilations, uncompiled
from ..measure.device import device_name, stay_busy, synchronize
from ..measure.one_thread import one_thread
from ..measure.peak import PeakMeter, held, held_and_peak, least_held
from ..measure.profile import profile, time_step, timed_profile
from ..vgpu.process.state import state
from .evidence import Answer, Aside, Case, Evidence, Measured, Plan, Run
from .exercise import Exercise, Note, Notes, full_size
from .layout import laid_out
from .notebooks.cells import describe_error
from .plain import Unusable, as_plain
from .ranks import answer_on_ranks
from .stage import GRADIENTS, RESULT, RETURNED, Given, LocalStage

# Steps of one measurement: enough for the launch queue to show, few enough to answer at once.
SIMULATED = {"warmup": 1, "steps": 4}
MEASURED = {"warmup": 5, "steps": 10, "blocks": 7}
PROFILED = {"steps": 2, "warmup": 1}
# Of a whole run.
SIMULATED_WHOLE = {"steps": 1}
MEASURED_WHOLE = {"warmup": 1, "steps": 1, "blocks": 5, "at_once": True}
PROFILED_WHOLE = {"steps": 1, "warmup": 0}

# How much slower than the chosen one a card is on which the device is always behind the host.
_BEHIND, _BEHIND_FLOOR = 100.0, 25.0


def gather(exercise: Exercise, stage, plan: Plan, device: torch.device, *, name: str = "", again: bool = False,
           order: np.random.Generator | None = None, runs: dict | None = None) -> Evidence:
    """What the function on ``stage`` answers, and its times beside the slow function's.

    ``stage``: a :class:`LocalStage`, or one in another process. ``name``: what ``device`` was asked for by.
    ``again``: the slow function is measured after the learner's too. ``order`` decides in which order all this happens;
    without it the cases come first. ``runs``: a dict, empty at first, for what the slow function and the model solution took
    with this exercise and plan on the virtual GPU: it is the same every time, and is measured once. Whatever the function
    does wrong is written into the evidence; nothing of it is raised.
    """
    if device.type != "vgpu" or again:
        runs = None
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
            evidence.full = _compared(exercise, stage, device, again, _kept(runs, "full", stage, _remembered(
                exercise, stage, device, lambda where: _at_full_size(exercise, where, given, device))))

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
            run, launched_nothing = _kept(runs, "trial", stage, measure)(where)
            quiet.append(launched_nothing)
            return run

        with vgpu.on_card(exercise.measurement.trial.card(vgpu.card())) if device.type == "vgpu" else nullcontext():
            kept_bytes = held(device) if exercise.watches_memory and stage.settle() else 0
            evidence.trial = _compared(exercise, stage, device, again, run_of)
            if evidence.trial.learner is not None:
                evidence.trial.learner.beside_bytes += kept_bytes
                evidence.again = _again(exercise, stage, plan, device) if len(plan.trial) > 1 else None

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


def _kept(runs: dict | None, kind: str, stage, measure: Callable) -> Callable:
    """``measure``; with ``runs``, what it finds of a function that is not the learner's is kept there, for each card."""
    def found(where):
        if runs is None or where is stage:
            return measure(where)
        key = kind, where.function, repr(vgpu.card())
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


def _compared(exercise: Exercise, stage, device: torch.device, again: bool, measure: Callable[[object], Run]
              ) -> Measured:
    """``measure(stage)`` of the slow function and of the learner's."""
    slow = LocalStage(exercise.slow, device, exercise.asked.ask)
    if exercise.watches_memory:
        gc.collect()  # what lies about in cycles would go some time
    # whatever the learner's function has switched before
    with vgpu.default_precision(exercise.setting.autotuned), without_limit(device):
        found = Measured(measure(slow))
        if exercise.measurement.best is not None:
            found.best = measure(LocalStage(exercise.measurement.best, device, exercise.asked.ask))
    try:
        found.learner = measure(stage)
    except Exception as error:
        found.error = describe_error(error, exercise.name)
    if again:
        with without_limit(device):
            found.after = measure(slow)
    return found


class without_limit:
    """Inside, the virtual GPU's memory is not limited by what a program has set: for what is not the learner's."""

    def __init__(self, device: torch.device):
        self._memory = vgpu.memory() if device.type == "vgpu" else None

    def __enter__(self) -> None:
        if self._memory is not None:
            self._limit, self._memory.allowed_bytes = self._memory.allowed_bytes, None

    def __exit__(self, *error) -> None:
        if self._memory is not None:
            self._memory.allowed_bytes = self._limit


# -- what the function answers ---------------------------------------------------------------------


def answer(exercise: Exercise, stage, case: Case, device: torch.device) -> Answer:
    """What the function on ``stage`` makes of one case. Raises nothing of the function's."""
    if exercise.setting.ranks:
        return _of_all_ranks(exercise, stage, case, device)
    with _where_asked(exercise, device), precision_of(exercise), one_thread():
        given, notes = put(case, device)
        before = vgpu.timeline().kernel_count if device.type == "vgpu" else 0
        try:
            state.errors.clear()
            with _races(device) as races, PeakMeter(device).call(), least_held(device) as least_bytes:
                notes.begun = _note("", {}, device)
                call = begin(stage, case, given)
                call.run()
                result = call.finish()
                notes.ended, notes.least_bytes = _note("", {}, device), least_bytes()
                synchronize(device)  # what is still under way is seen to its end
            kernels = vgpu.timeline().kernel_count - before if device.type == "vgpu" else None
            found = _read(exercise, case, given, result, notes, kernels, device)
            if exercise.asked.verify is not None:
                del result
                found.plain = exercise.asked.verify(case, found.plain, notes, device)
            found.races, found.swallowed = [str(race) for race in races], list(state.errors)
            return found
        except Exception as error:
            return _raised(exercise, case, error)
        finally:
            if device.type == "vgpu":
                state.unused.clear()


def _of_all_ranks(exercise: Exercise, stage, case: Case, device: torch.device) -> Answer:
    with precision_of(exercise):
        found = answer_on_ranks(exercise, stage, case, device, put, _with_values)
    if found.plain is not None and exercise.asked.see is not None:
        found.plain = exercise.asked.see(case, found.plain, Notes())
    return found


def _races(device: torch.device):
    """The races found inside, in a list."""
    return vgpu.races([], lines=False) if device.type == "vgpu" else nullcontext([])


def _raised(exercise: Exercise, case: Case, error: Exception) -> Answer:
    if isinstance(error, Unusable):
        return Answer(case.name, unusable=str(error))
    return Answer(case.name, error=describe_error(error, exercise.name))


def precision_of(exercise: Exercise):
    """The precision that ``exercise`` is asked and judged in: a context, whatever the program has switched before."""
    return nullcontext() if exercise.setting.precision else vgpu.default_precision(exercise.setting.autotuned)


def _where_asked(exercise: Exercise, device: torch.device):
    if exercise.setting.valueless:
        return full_size(device)
    if exercise.setting.behind and device.type == "vgpu":
        return vgpu.on_card(vgpu.card().slowed(_BEHIND, _BEHIND_FLOOR))
    return nullcontext()


def put(case: Case, device: torch.device) -> tuple[Given, Notes]:
    """The case's inputs where the function gets them, which takes no time on the virtual GPU's clock; and the notes that
    will be made."""
    notes = Notes()
    inputs = {}
    with without_limit(device):
        for name, value in case.inputs.items():
            where = case.layouts.get(name), case.on_host.get(name)
            arrays = value if isinstance(value, list) else [value]
            late = case.late.get(name, len(arrays))
            tensors = [_put(array if place < late else np.zeros_like(array), device, *where)
                       for place, array in enumerate(arrays)]
            inputs[name] = tensors if isinstance(value, list) else tensors[0]
    lists = _lists(case, inputs, device)
    state.unused.update(*lists.values())
    return Given(inputs, case.copy_of_options(), tuple(case.needs_grad), _writes(notes, lists, device)), notes


def _lists(case: Case, inputs: Mapping, device: torch.device) -> dict[str, list[int]]:
    """Name of a list of inputs on the virtual GPU → by what ``state.unused`` knows its tensors."""
    return {name: [id(tensor.allocation) for tensor in value] for name, value in inputs.items()  # type: ignore[attr-defined]
            if isinstance(value, list) and device.type == "vgpu" and name not in case.on_host}


def _writes(notes: Notes, lists: dict[str, list[int]], device: torch.device) -> Callable[[str], None]:
    """What writes a line into ``notes``, and how many tensors of ``lists`` have been used by then."""
    def note(text) -> None:
        used = {name: sum(each not in state.unused for each in allocations) for name, allocations in lists.items()}
        notes.append(_note(text, used, device))

    return note


def begin(stage, case: Case, given: Given):
    """A call on ``given``, made ready; then those values of the case arrive that come late, which takes no time on the
    virtual GPU's clock."""
    call = stage.begin(given)
    _arrive(case, given.inputs)
    return call


def _arrive(case: Case, inputs: Mapping) -> None:
    """The values of the case that come late are in ``inputs``, where tensors are of the same shape."""
    for name, first in case.late.items():
        value, tensors = case.inputs[name], inputs[name]
        pairs = zip(value[first:], tensors[first:]) if isinstance(value, list) else [(value, tensors)]
        for array, tensor in pairs:
            held = tensor.within if isinstance(tensor, vgpu.VirtualTensor) else tensor.detach()
            if held.shape == array.shape:
                held.copy_(torch.from_numpy(array))


def _note(text: str, used: dict[str, int], device: torch.device) -> Note:
    return Note(text, used, *held_and_peak(device), compilations(device), uncompiled(device))


def _put(array: np.ndarray, device: torch.device, layout: str | None, on_host: str | None) -> torch.Tensor:
    values = torch.from_numpy(np.array(array))
    if on_host is not None:
        laid = laid_out(values, layout)
        return laid.pin_memory() if on_host == "pinned" and device.type != "cpu" else laid
    if device.type == "vgpu":
        return vgpu.tensor_of(laid_out(values, layout))
    return laid_out(values.to(device), layout)  # a copy would not keep the gaps


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor with the values; on the virtual GPU nobody's clock notices."""
    if isinstance(tensor, vgpu.VirtualTensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.within.is_meta else tensor.within.detach().clone()
    return tensor.detach().cpu()


def _read(exercise: Exercise, case: Case, given: Given, result, notes: Notes, kernels: int | None, device: torch.device
          ) -> Answer:
    """Raises Unusable."""
    found = Answer(case.name, kernels=kernels, overwritten=_overwritten(case, given))
    if exercise.asked.ask is None:
        _read_tensor(found, case, result)
    else:
        if exercise.asked.on_device:
            _check_where(result, device)
        plain = as_plain(_with_values(result))
        found.plain = plain if exercise.asked.see is None else exercise.asked.see(case, plain, notes)
        found.returned = f"a {type(result).__name__}"
    return found


def _read_tensor(found: Answer, case: Case, result: dict) -> None:
    tensor = result.get(RESULT) if isinstance(result, dict) else None
    if not isinstance(tensor, torch.Tensor):
        found.returned = str(result.get(RETURNED)) if isinstance(result, dict) else "no answer"
        return
    found.returned = f"a tensor of shape {tuple(tensor.shape)}, {tensor.dtype} on {tensor.device}"
    found.device, found.dtype, found.shape = tensor.device.type, str(tensor.dtype), tuple(tensor.shape)
    found.value = _array(tensor)
    grads = result.get(GRADIENTS, {})
    # Where nothing came back the gradient is zero.
    found.grads = {name: _array(grads[name]) if isinstance(grads.get(name), torch.Tensor)
                   else np.zeros_like(case.inputs[name]) for name in case.needs_grad}


def _array(tensor: torch.Tensor) -> np.ndarray:
    values = values_of(tensor).resolve_conj().resolve_neg()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def _with_values(tree):
    if isinstance(tree, torch.Tensor):
        return values_of(tree)
    if isinstance(tree, (list, tuple)):
        return [_with_values(item) for item in tree]
    if isinstance(tree, dict):
        return {key: _with_values(item) for key, item in tree.items()}
    return tree


def _check_where(result, device: torch.device) -> None:
    """Raises Unusable where the answer is a dict and one of its values, or of those in a list there, is not on the device:
    what the host counts is on no device's clock. Text may be anywhere."""
    pairs = result.items() if isinstance(result, dict) else ()
    for name, value in [(name, one) for name, each in pairs for one in (each if isinstance(each, list) else [each])]:
        if isinstance(value, str):
            continue
        if not isinstance(value, torch.Tensor):
            raise Unusable(f"{name!r} is a {type(value).__name__}; return a scalar tensor on the device: the caller "
                           "can read the number later.")
        if value.device.type != device.type:
            raise Unusable(f"{name!r} is a tensor on the device {value.device}; return it on the batches' device: "
                           "count there.")


def _overwritten(case: Case, given: Given) -> dict[str, np.ndarray]:
    """What the inputs hold now, of those that hold something else than before."""
    found = {}
    for name, value in case.inputs.items():
        arrays, tensors = (value, given.inputs[name]) if isinstance(value, list) else ([value], [given.inputs[name]])
        for array, tensor in zip(arrays, tensors):
            now = _array(tensor)
            if now.shape != array.shape or not np.array_equal(now, array, equal_nan=now.dtype.kind in "fc"):
                found[name] = now
    return found


# -- time and waits -------------------------------------------------------------------------------


def _timed(exercise: Exercise, step: Callable[[], object], device: torch.device, meter: PeakMeter,
           prepare: Callable[[int], object] = lambda count: None) -> Run:
    """Time and trace a step, which lets ``meter`` watch what it takes of the memory. ``prepare(count)`` makes the next calls
    ready."""
    simulated = device.type == "vgpu"
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
    with _hooked(device, lambda wait: waits.append(waits.pop() + 1)):
        if simulated:
            time, trace = timed_profile(counted, device=device, prepare=prepare, **_how_often(exercise, simulated))
        else:
            time = time_step(counted, device=device, prepare=prepare, **_how_often(exercise, simulated))
            trace = profile(counted, device=device, prepare=prepare,
                            **(PROFILED_WHOLE if exercise.measurement.whole_run else PROFILED))
    return Run(time.host_ms, time.true_ms, list(time.samples_ms), trace, max(waits[1::2]), min(kernels), meter.peak_bytes,
               meter.aside_bytes)


def _how_often(exercise: Exercise, simulated: bool) -> dict:
    if simulated:
        return SIMULATED_WHOLE if exercise.measurement.whole_run else SIMULATED
    return MEASURED_WHOLE if exercise.measurement.whole_run else MEASURED


@contextmanager
def _hooked(device: torch.device, hook: Callable):
    """``hook`` is called with each wait, on the virtual GPU."""
    if device.type != "vgpu":
        yield
        return
    hooks = vgpu.timeline().wait_hooks
    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


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
    often = _how_often(exercise, simulated=False)
    return (often["warmup"] + often["blocks"] * (often["steps"] + (not exercise.measurement.whole_run))
            + sum((PROFILED_WHOLE if exercise.measurement.whole_run else PROFILED).values()))


def _try(exercise: Exercise, stage, plan: Plan, device: torch.device, answers: list[Answer], *, at_once: bool
         ) -> tuple[Run, bool]:
    """Time and trace calls of the function on the trial's inputs; what they answer goes into ``answers``. Also whether
    nothing was launched where an answer is looked at.

    ``at_once``: that part belongs to what is timed, and the answer is read before the next call: work cannot be put off.
    """
    cases = [plan.trial[place % len(plan.trial)] for place in range(_calls(exercise, device))]
    asked = [(case, *put(case, device)) for case in cases]
    aside, afterwards, meter = Aside(), Aside(), PeakMeter(device)
    begun: list[tuple] = []
    ended = 0
    state.errors.clear()
    try:
        with _races(device) as races:
            def prepare(count: int) -> None:
                """No call sees the inputs of those that are measured after it, and can do their work."""
                with _noted(device, aside), meter.aside():
                    begun.extend((*each, begin(stage, *each[:2])) for each in asked[len(begun):len(begun) + count])

            def finish(case: Case, given: Given, notes: Notes, call) -> None:
                try:
                    result = call.finish()
                    with vgpu.host_clock.uncounted():
                        answers.append(_read(exercise, case, given, result, notes, None, device))
                except Unusable as error:
                    answers.append(_raised(exercise, case, error))

            def step():
                nonlocal ended
                stay_busy(device, exercise.measurement.busy_ms)
                call, ended = begun[ended], ended + 1
                with meter.call():
                    call[-1].run()
                    if at_once:
                        finish(*call)

            run = _timed(exercise, step, device, meter, prepare)
        with _noted(device, afterwards):
            for call in [] if at_once else begun[:len(plan.trial)]:
                finish(*call)
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
        given, _ = put(first, device)
        before = begin(stage, first, given)
        before.run()
        synchronize(device)  # what is still being copied must not be overwritten
        then, notes = put(second, device)
        lists = _lists(second, given.inputs, device)
        call = stage.begin(replace(then, note=_writes(notes, lists, device)), before)
        for inputs in (given.inputs, then.inputs):  # those that it has, and those of another form that it got
            _arrive(second, inputs)
        state.unused.update(*lists.values())  # an operator wrote the values before these
        call.run()
        return _read(exercise, second, then, call.finish(), notes, None, device)
    except Exception as error:
        return _raised(exercise, second, error)
    finally:
        if device.type == "vgpu":
            state.unused.clear()
