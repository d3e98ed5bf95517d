"""What a function answers: its inputs put where it gets them, one call of it, and what came back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from .. import vgpu
from ..evidence.traces.waits import PUBLIC, source_line
from ..measure.compilations import compilations, uncompiled
from ..measure.device import synchronize
from ..measure.one_thread import one_thread
from ..measure.peak import PeakMeter, held_and_peak, least_held
from ..measure.real_gpu import like_the_cpu
from ..vgpu.core.shrunk import is_freed
from ..vgpu.process.state import state
from .evidence import Answer, Case
from .exercise import Exercise, Note, Notes, full_size
from .layout import laid_out
from .notebooks.cells import describe_error
from .plain import Unusable, as_plain, difference
from .ranks import answer_on_ranks
from .stage import GRADIENTS, RESULT, RETURNED, Given

# How much slower than the chosen one a card is on which the device is always behind the host.
_BEHIND, _BEHIND_FLOOR = 100.0, 25.0


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


def answer(exercise: Exercise, stage, case: Case, device: torch.device) -> Answer:
    """What the function on ``stage`` makes of one case. Raises nothing of the function's."""
    if exercise.setting.ranks:
        return _of_all_ranks(exercise, stage, case, device)
    with _where_asked(exercise, device), precision_of(exercise), like_the_cpu(device), one_thread():
        given, notes = put(case, device)
        before = vgpu.timeline().kernel_count if device.type == "vgpu" else 0
        waits: list[list[str]] = []
        try:
            state.errors.clear()
            with races_in(device) as races, PeakMeter(device).call(), least_held(device) as least_bytes:
                notes.begun = _note("", {}, device)
                call = begin(stage, case, given)
                with hooked(device, lambda wait: waits.append(_told(wait))):
                    call.run()
                result = call.finish()
                notes.ended, notes.least_bytes = _note("", {}, device), least_bytes()
                synchronize(device)  # what is still under way is seen to its end
            kernels = vgpu.timeline().kernel_count - before if device.type == "vgpu" else None
            found = read(exercise, case, given, result, notes, kernels, device)
            if exercise.asked.verify is not None:
                del result
                found.plain = exercise.asked.verify(case, found.plain, notes, device)
            found.races, found.swallowed, found.waits = [str(race) for race in races], list(state.errors), waits
            return found
        except Exception as error:
            return raised(exercise, case, error)
        finally:
            if device.type == "vgpu":
                state.unused.clear()


@contextmanager
def hooked(device: torch.device, hook: Callable):
    """``hook`` is called with each wait inside, on the virtual GPU."""
    if device.type != "vgpu":
        yield
        return
    hooks = vgpu.timeline().wait_hooks
    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


def _told(wait: vgpu.Wait) -> list[str]:
    operator = wait.op or wait.name
    return [PUBLIC.get(operator, operator).removeprefix("aten::"), source_line(wait.location or "") or ""]


def _of_all_ranks(exercise: Exercise, stage, case: Case, device: torch.device) -> Answer:
    with precision_of(exercise):
        found = answer_on_ranks(exercise, stage, case, device, put, _with_values)
    if found.plain is not None and exercise.asked.see is not None:
        found.plain = exercise.asked.see(case, found.plain, Notes())
    return found


def races_in(device: torch.device):
    """The races found inside, in a list."""
    return vgpu.races([], lines=False) if device.type == "vgpu" else nullcontext([])


def raised(exercise: Exercise, case: Case, error: Exception) -> Answer:
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
    lists = lists_of(case, inputs, device)
    state.unused.update(*lists.values())
    return Given(inputs, case.copy_of_options(), tuple(case.needs_grad), writer(notes, lists, device)), notes


def lists_of(case: Case, inputs: Mapping, device: torch.device) -> dict[str, list[int]]:
    """Name of a list of inputs on the virtual GPU → by what ``state.unused`` knows its tensors."""
    return {name: [id(tensor.allocation) for tensor in value] for name, value in inputs.items()  # type: ignore[attr-defined]
            if isinstance(value, list) and device.type == "vgpu" and name not in case.on_host}


def writer(notes: Notes, lists: dict[str, list[int]], device: torch.device) -> Callable[[str], None]:
    """What writes a line into ``notes``, and how many tensors of ``lists`` have been used by then."""
    def note(text) -> None:
        used = {name: sum(each not in state.unused for each in allocations) for name, allocations in lists.items()}
        notes.append(_note(text, used, device))

    return note


def begin(stage, case: Case, given: Given):
    """A call on ``given``, made ready; then those values of the case arrive that come late, which takes no time on the
    virtual GPU's clock."""
    call = stage.begin(given)
    arrive(case, given.inputs)
    return call


def arrive(case: Case, inputs: Mapping) -> None:
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
    """A CPU tensor with the values; on the virtual GPU nobody's clock notices. Raises Unusable where they are not there."""
    if isinstance(tensor, vgpu.VirtualTensor):
        if is_freed(tensor):
            raise Unusable("the memory of a tensor has been freed (`untyped_storage().resize_`), and its values with it. "
                           "Let go of the tensor instead: PyTorch frees the memory.")
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.within.is_meta else tensor.within.detach().clone()
    return tensor.detach().cpu()


def read(exercise: Exercise, case: Case, given: Given, result, notes: Notes, kernels: int | None, device: torch.device
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


def is_overwritten(before: Answer, read_again: Callable[[], Answer]) -> bool:
    """Whether an answer, read again from the same tensors, holds something else, or can no longer be read."""
    try:
        after = read_again()
    except Unusable:
        return True
    if before.plain is not None:
        return difference(after.plain, before.plain, 0.0, 0.0) is not None
    if before.value is None:
        return False
    return not np.array_equal(before.value, after.value, equal_nan=before.value.dtype.kind == "f")


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
