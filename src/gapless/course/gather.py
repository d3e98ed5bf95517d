"""Run a learner's function and write down what was seen. Judges nothing."""

from __future__ import annotations

import numpy as np
import torch

from .. import vgpu
from ..measure.device import device as choose_device
from ..measure.device import device_name, synchronize
from ..measure.profile import profile, time_step
from .cells import describe_error
from .evidence import Answer, Case, Evidence, Run
from .exercise import Exercise, full_size
from .plain import Unusable, as_plain

# Steps of one measurement: enough for the launch queue to show, few enough to answer at once.
SIMULATED = {"warmup": 1, "steps": 4, "blocks": 1}
MEASURED = {"warmup": 5, "steps": 10, "blocks": 7}


def gather(exercise: Exercise, function, cases: list[Case], device: str, *, before: Run | None = None,
           again: bool = True) -> Evidence:
    """What ``function`` answers to ``cases``, and its time at full size between two runs of the slow function.

    ``device``: a name as for :func:`gapless.device`. ``before``: the slow function's first run, where it was measured
    already (:func:`measure_slow`). Without ``again`` the slow function is measured only before.
    Whatever ``function`` does wrong is written into the evidence; nothing of it is raised.
    """
    target = choose_device(device)
    evidence = Evidence(exercise.name, device, device_name=device_name(target), simulated=target.type == "vgpu")
    try:
        for case in cases:
            evidence.answers.append(_answer(exercise, function, case, target))
        if exercise.step is None:
            return evidence
        evidence.before = before if before is not None else measure_slow(exercise, device)
        try:
            evidence.learner = measure(exercise, function, target)
        except Exception as error:
            evidence.measure_error = describe_error(error, exercise.name)
        if again:
            evidence.after = measure(exercise, exercise.slow, target)
    finally:
        if target.type == "vgpu":
            vgpu.timeline().reset()
    return evidence


def measure_slow(exercise: Exercise, device: str) -> Run | None:
    """Time and trace the function to beat; None where the exercise has no step. Grading does this before it loads the
    learner's cell: what the cell does to the slow function then shows in its second run."""
    return None if exercise.step is None else measure(exercise, exercise.slow, choose_device(device))


# -- what the function answers ---------------------------------------------------------------------


def answer(exercise: Exercise, function, case: Case, device: torch.device) -> Answer:
    """What ``function`` makes of one case. Raises what it raises."""
    found = Answer(case.name)
    if exercise.ask is None:
        _ask_tensors(function, case, device, found)
        return found
    counted = _Counted(function, device)
    result = exercise.ask(counted, case, device)
    found.returned = f"a {type(result).__name__}"
    found.plain = as_plain(result)
    found.kernels = counted.fewest
    return found


def _answer(exercise: Exercise, function, case: Case, device: torch.device) -> Answer:
    try:
        return answer(exercise, function, case, device)
    except Unusable as error:
        return Answer(case.name, unusable=str(error))
    except Exception as error:
        return Answer(case.name, error=describe_error(error, exercise.name))


class _Counted:
    """The function, with the fewest kernels that one of its calls launched on the virtual GPU (else None).

    Where the function returns what does the work (a class, an object), ``run(work)`` does it; then that is counted.
    """

    def __init__(self, function, device: torch.device):
        self.function, self.device = function, device
        self._calls: list[int] = []
        self._runs: list[int] = []

    def __call__(self, *args, **kwargs):
        return self._count(self._calls, lambda: self.function(*args, **kwargs))

    def run(self, work):
        """What ``work()`` returns."""
        return self._count(self._runs, work)

    @property
    def fewest(self) -> int | None:
        return min(self._runs or self._calls, default=None)

    def _count(self, launches: list[int], work):
        if self.device.type != "vgpu":
            return work()
        before = vgpu.timeline().kernel_count
        result = work()
        launches.append(vgpu.timeline().kernel_count - before)
        return result


def _ask_tensors(function, case: Case, device: torch.device, found: Answer) -> None:
    values = {name: torch.from_numpy(np.array(array)) for name, array in case.inputs.items()}
    leaves = [_flipped(value).to(device).requires_grad_(name in case.needs_grad) for name, value in values.items()]
    # First with other contents in the same tensors, so that an answer remembered by identity is a wrong one.
    function(*leaves, **case.options)
    with torch.no_grad():
        for leaf, value in zip(leaves, values.values()):
            leaf.copy_(value)
    before = vgpu.timeline().kernel_count
    result = function(*leaves, **case.options)
    found.returned = _describe(result)
    if not isinstance(result, torch.Tensor):
        return
    found.device, found.dtype, found.shape = result.device.type, str(result.dtype), tuple(result.shape)
    if case.needs_grad:
        if result.requires_grad and result.numel() == 1:
            result.sum().backward()
        for name, leaf in zip(values, leaves):
            if name in case.needs_grad:
                found.grads[name] = _array(leaf.grad if leaf.grad is not None else torch.zeros_like(leaf))
    found.kernels = vgpu.timeline().kernel_count - before if device.type == "vgpu" else None
    found.value = _array(result)


def _flipped(value: torch.Tensor) -> torch.Tensor:
    return value.flatten().flip(0).reshape(value.shape) if value.numel() > 1 else value + 1


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.array(tensor.detach().cpu().numpy())


def _describe(result) -> str:
    if isinstance(result, torch.Tensor):
        return f"a tensor of shape {tuple(result.shape)}, {result.dtype} on {result.device}"
    return f"a {type(result).__name__}"


# -- time and waits -------------------------------------------------------------------------------


def measure(exercise: Exercise, function, device: torch.device) -> Run:
    """Time and trace one step of ``exercise`` at full size with ``function``."""
    simulated = device.type == "vgpu"
    if simulated:
        vgpu.timeline().reset()
    with full_size(device, exercise.assumptions):
        step = exercise.step(function, device)
        synchronize(device)
        time = time_step(step, device=device, **(SIMULATED if simulated else MEASURED))
        trace = profile(step, steps=2, warmup=1, device=device)
    return Run(time.host_ms, time.true_ms, list(time.samples_ms), trace)
