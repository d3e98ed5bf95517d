"""What is wrong with one answer, in words, and what its form and its numbers tell of the cause."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from .causes import counts_of, of_numbers
from .evidence import Answer, Case
from .exercise import Exercise
from .plain import apart, difference
from .tolerance import NOISE, VALUE, close, gradient_of, plain_tolerances
from .truth import Truth

_EMPTY_LIST = "A list of tensors is empty: check first whether there is anything in it"

# What is in an error's text → what to try next.
ERROR_ADVICE = {
    "Unsupported: ": "Dynamo cannot take a line of the function into a graph, and `fullgraph=True` makes that an error: "
                     "`torch._dynamo.explain` names the line",
    "FailOnRecompileLimitHit: ": "A guard failed in call after call, until Dynamo gave up, which `fullgraph=True` makes an "
                                 "error: after `torch._logging.set_logs(recompiles=True)` each one is printed",
    "NVIDIA driver": "The GPU here is simulated, and `torch.cuda` does not know it. Use the `device` that you are given; in "
                     "this course `synchronize(device)` waits for it",
    "Tensor list must have at least one": _EMPTY_LIST,
    "non-empty TensorList": _EMPTY_LIST,
    "out of bounds": "An index is outside its tensor. Is it a label outside 0 … classes − 1, perhaps one to ignore? Leave "
                     "it out first, or name it (`ignore_index`)",
    "must match the size of tensor": "PyTorch matches shapes from the last dimension on, and stretches a dimension of "
                                     "1. Print both: are dimensions swapped (`transpose`), or does the shorter one need "
                                     "dimensions of 1 at its end (`view(-1, 1, 1)`)?",
    # torch.utils.checkpoint's
    "A different number of tensors was saved": "The code that runs in the backward pass must save as many tensors as "
                                               "the first pass: run it in the same mode, with the same buffers (a norm "
                                               "without its statistics saves two fewer). Give it copies of what it must "
                                               "not change",
    "have different metadata": "The code that runs in the backward pass saves other tensors than the first pass: run it "
                               "in the same mode, on tensors of the same shapes and dtypes",
    "cannot pin": "It is already on the device: only the host's memory can be pinned",
    "a leaf Variable that requires grad": "An operator with a `_` at its end writes into an input that needs a gradient: "
                                          "write into a new tensor",
    "is not defined": "The check runs each exercise cell alone: put the imports and helpers it needs inside the cell",
    # GradScaler's own, which say what it has seen and not what was forgotten.
    "_scale is None": "The scaler has scaled no loss: `scaler.scale(loss).backward()` comes before `unscale_`, `step` and "
                      "`update`",
    "unscale_() has already been called": "`unscale_` divides by the scale, so call it only once in a step, after the "
                                          "last backward pass. Or the step before ended without `scaler.update()`",
    "unscale_() is being called after step()": "First `unscale_`, then clip, then `scaler.step`",
    "step() has already been called": "One `scaler.step(optimizer)` in a step, and one `scaler.update()` after it",
    "No inf checks were recorded for this optimizer": "The optimizer has no gradients: were they set to zero between the "
                                                      "backward pass and the step?",
    "No inf checks were recorded prior to update": "`scaler.update()` comes once in a step, after `scaler.step(optimizer)`: "
                                                   "it is called twice, or the scaler has not seen the step",
    "Attempting to unscale FP16 gradients": "The network's weights are float16. They stay float32: autocast casts copies of "
                                            "them, so leave out `.half()`",
}
ERROR_ADVICE |= {
    "does not require grad and does not have a grad_fn": "The loss does not depend on any parameter: was one frozen, or a "
                                                         "tensor detached, or the forward pass run under `no_grad`?",
    "generator raised StopIteration": "`next(iterator)` found nothing more. In a generator give it a default, "
                                      "`next(iterator, None)`, or write a `for`",
    "generator ignored GeneratorExit": "When the loop stops early, the generator gets a `GeneratorExit`, which "
    "`except:` and `except BaseException:` catch too. Catch `Exception`, which leaves it alone",
    "No backend type associated with device type cpu": "NCCL, and `vccl` here, sends only tensors on GPUs: move the "
                                                       "model, or the tensor, to the device first",
    "to mark a variable ready only once": "DistributedDataParallel wants a backward pass after each forward pass: run "
                                          "the backward pass of each loss separately, not once for their sum",
    "in forked subprocess. To use CUDA": "The GPU here is simulated: its name is `\"vgpu\"`",
    "is not JSON serializable": "A tensor is not a number: use `.item()`, once, or `.tolist()`",
}
ERROR_ADVICE["when stream is capturing"] = ERROR_ADVICE["a previous error during capture"] = (
    "While work is captured nothing runs, so nothing can be waited for: no line inside the capture asks for a number "
    "(`item`, `float`, `print`, `if`), copies to the host or synchronises")
ERROR_ADVICE["capturable is False"] = (
    "The optimizer counts its steps on the host, where a graph cannot see them: `group[\"capturable\"] = True` for each of "
    "`optimizer.param_groups`, before its first step")
ERROR_ADVICE["captured on a non-default stream"] = (
    "`with backend.graph(graph):` has its own stream for the capture")
ERROR_ADVICE["not compiled with CUDA"] = ERROR_ADVICE["NVIDIA driver"]


@dataclass(frozen=True)
class Fault:
    """What is wrong with an answer, and why if that is known. ``of_value``: it is wrong in what it says, not in its form."""

    text: str
    why: str | None = None
    of_value: bool = False

    def __str__(self) -> str:
        return self.text + (f" {self.why}" if self.why else "")


def fault_of(exercise: Exercise, case: Case, found: Answer, truth: Truth, device: str, simulated: bool) -> Fault | None:
    """What is wrong with an answer to ``case``, or None. ``truth``: is asked what is right, where it comes to that;
    ``device``: the type of device that the answer was given on; ``simulated``: whether that is the virtual GPU."""
    if found.error is not None:
        return Fault(f"it raised {found.error.rstrip('.')}.{error_advice(found.error)}")
    if found.unusable is not None:
        return Fault(found.unusable)
    expected = truth.of(case)

    def compared(slack: Mapping[str, float]) -> Fault | None:
        if exercise.asked.ask is not None:
            return _plain_fault(exercise, case, found.plain, expected.plain, simulated, slack)
        return _tensor_fault(exercise, case, found, expected, device, slack)

    fault = compared({})
    if fault is not None and fault.of_value:  # else nobody needs to know how far rounding goes
        fault = compared(truth.slack(case))
    if found.swallowed:
        return Fault(f"an operator raised an error that the function caught ({found.swallowed[0]}). On a GPU the error of "
                      "an operator that looks at values comes later, and nothing works after it: do not run anything "
                      "that can fail.")
    if found.races:
        return Fault(f"{fault or 'the answer is right here, but may be wrong on a GPU.'} A race: {found.races[0]}")
    also = [name for name in found.overwritten if name not in expected.overwritten]
    if fault is not None and fault.of_value and also and exercise.asked.ask is None:
        return replace(fault, text=f"{fault.text} It has also overwritten its input `{also[0]}`.")
    return fault or _overwritten(exercise, found, expected)


def _overwritten(exercise: Exercise, found: Answer, expected: Answer) -> Fault | None:
    """An input that holds something else now, unless the slow function leaves it so too."""
    for name, now in found.overwritten.items():
        left = expected.overwritten.get(name)
        if left is None or left.shape != now.shape or not close(exercise, now, left).all():
            return Fault(f"the answer is right, but the function has overwritten its input `{name}`: code that uses it "
                          "afterwards gets something else. Write into a new tensor, or into a copy (`clone()`).")
    return None


def error_advice(error: str) -> str:
    advice = next((advice for part, advice in ERROR_ADVICE.items() if part in error), None)
    return "" if advice is None else f" {advice}" if advice.endswith("?") else f" {advice}."


def _plain_fault(exercise: Exercise, case: Case, found, wanted, simulated: bool, slack: Mapping[str, float]
                 ) -> Fault | None:
    relative, absolute = plain_tolerances(exercise, case)
    if exercise.right.on_device and not simulated:  # clocks never agree, and libraries take memory too
        relative += NOISE
    fault = difference(found, wanted, relative, absolute, slack=slack)
    if fault is None:
        return None
    fault = f"I{fault[1:]}" if fault.startswith("it ") else fault  # else it begins with a place, spelt as it is
    why = _explanation(exercise, case, found, wanted)
    if why is None:
        numbers = _numbers_at(found, wanted, relative, absolute, slack)
        why = numbers and of_numbers(*numbers, counts_of(case))
    return Fault(f"the answer is wrong. {fault}", why, of_value=True)


def _numbers_at(found, wanted, relative: float, absolute: float, slack: Mapping[str, float]
                ) -> tuple[np.ndarray, np.ndarray] | None:
    """The numbers with a fraction of the first entry that differs, found and wanted, where there are as many of both."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in wanted:
            if key in found and difference(found[key], wanted[key], relative, absolute, key, slack) is not None:
                return _numbers_at(found[key], wanted[key], relative, absolute, slack)
        return None
    with suppress(ValueError, TypeError):
        own, right = np.array(found), np.array(wanted)
        return (own, right) if own.shape == right.shape and own.dtype.kind in "fi" and right.dtype.kind == "f" else None
    return None


def _explanation(exercise: Exercise, case: Case, found, wanted) -> str | None:
    if exercise.teaching.explain is None:
        return None
    with suppress(Exception):  # it looks into an answer that may hold anything; no verdict hangs on its words
        return exercise.teaching.explain(case, found, wanted)
    return None


def _tensor_fault(exercise: Exercise, case: Case, found: Answer, expected: Answer, device: str, slack: Mapping[str, float]
                  ) -> Fault | None:
    value, room = expected.value, slack.get(VALUE, 0.0)
    if found.device is None:
        nothing = found.returned == "a NoneType"
        return Fault("it returned nothing: is there a `return`?" if nothing
                      else f"it returned {found.returned or 'nothing'}; return a tensor.")
    if found.device != device:
        return Fault(f"it returned {found.returned}: the result must stay on the device it came from ({device}), "
                      "or the next operation has to copy it back.")
    if found.dtype != f"torch.{value.dtype}":
        why = ("A comparison gives bools: choose with it (`torch.where`), and return the chosen values."
               if found.dtype == "torch.bool"
               else "Something casts: another tensor's dtype, `.float()`, a division, an operator in place (it keeps "
               "the dtype of what it writes into).")
        return Fault(f"it returned {found.returned}; the dtype torch.{value.dtype} is wanted. {why}")
    if found.shape != value.shape:
        return Fault(f"it returned {found.returned}; the shape {tuple(value.shape)} is wanted.")
    if found.value is None or found.value.shape != value.shape:
        return Fault("its value could not be read.")
    if not close(exercise, found.value, value, room).all():
        return Fault(f"the value is wrong: {_difference(exercise, found.value, value, room)}",
                      _why_value(exercise, case, found, value), of_value=True)
    for name, grad in expected.grads.items():
        own = found.grads.get(name)
        if own is None or own.shape != grad.shape:
            return Fault(f"the gradient of `{name}` is missing.")
        room = slack.get(gradient_of(name), 0.0)
        if not close(exercise, own, grad, room).all():
            numbers = _difference(exercise, own, grad, room)
            return Fault(f"the value is right, but the gradient of `{name}` is wrong: {numbers}",
                         _why_gradient(case, own, grad), of_value=True)
    return None


def _why_value(exercise: Exercise, case: Case, found: Answer, value: np.ndarray) -> str | None:
    if np.isnan(value).any() and not np.isnan(found.value).any():
        return "The slow function gives nan here, the mean of no elements or of a nan: keep that."
    for name, given in case.inputs.items():
        if (isinstance(given, np.ndarray) and given.shape == value.shape
                and np.array_equal(found.value, given, equal_nan=True)):
            return (f"It is the input `{name}`, unchanged. Did you throw a result away? Most functions return a new "
                    "tensor. Only those with a `_` at their end write into the old one. A condition may also be the "
                    "wrong way round.")
    return _explanation(exercise, case, found.value, value) or of_numbers(found.value, value, counts_of(case))


def _why_gradient(case: Case, own: np.ndarray, grad: np.ndarray) -> str:
    if np.isnan(own).any() and not np.isnan(grad).any():
        return "Somewhere 0 is multiplied by inf or nan, or divided by 0."
    if not own.any():
        return "No gradient arrives: was the result detached, copied into a new tensor, or turned into a Python number?"
    return of_numbers(own, grad, counts_of(case)) or (
        "The same value can be computed with another gradient: does every intermediate step depend on the input as it "
        "should?")


def _difference(exercise: Exercise, found: np.ndarray, wanted: np.ndarray, slack: float) -> str:
    equal = close(exercise, found, wanted, slack)
    first = tuple(int(i) for i in np.argwhere(~equal)[0])
    numbers = apart(found[first], wanted[first])
    return f"{int((~equal).sum())} of {equal.size} elements differ; at {list(first)} {numbers}" if first else numbers
