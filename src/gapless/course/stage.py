"""How a learner's function is called: the part of an exercise that runs beside the learner's code.

In a notebook that is the one process there is. In grading it is a process of its own, which has only this, the
lesson's ``stage`` and what it imports: neither what is right nor how it is judged.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..garbage import no_collection
from ..switches import before_a_call, restore
from ..vgpu import host_clock


@dataclass
class Given:
    """What a function is called with. ``inputs``: argument name → tensor on the device, or a list of them. ``options``:
    further arguments, plain JSON values. ``needs_grad``: the inputs whose gradient is wanted. ``note(text)`` writes down a
    line, and when on the device's clock it came."""

    inputs: Mapping[str, Any]
    options: dict = field(default_factory=dict)
    needs_grad: tuple[str, ...] = ()
    note: Callable[[str], None] = lambda text: None


# In three parts, divided by two ``yield``: what is made ready, what is measured, and what is looked at afterwards; the
# answer is returned. (function, given, device) → such a generator.
Ask = Callable[[Callable, Given, torch.device], Generator[None, None, object]]

# The gradient that a backward pass begins with: not 1, as a loss may be a term of another. Halves round to halves.
_FROM_BEHIND = 0.5
RESULT, RETURNED, GRADIENTS = "result", "returned", "gradients"


def ask_for_tensor(function: Callable, given: Given, device: torch.device) -> Generator[None, None, dict]:
    """Call a function from tensors to one tensor, and go backward from it: ``{"result": …, "gradients": {name: …}}``; where
    it returns anything else ``{"returned": in words}``."""
    leaves = {name: tensor.detach().requires_grad_() if name in given.needs_grad else tensor
              for name, tensor in given.inputs.items()}
    yield
    result = function(*leaves.values(), **given.options)
    if given.needs_grad and isinstance(result, torch.Tensor) and result.requires_grad and result.numel() == 1:
        total = result.sum()
        total.backward(torch.full_like(total, _FROM_BEHIND))
    yield
    if not isinstance(result, torch.Tensor):
        return {RESULT: None, RETURNED: f"a {type(result).__name__}"}
    if result.is_inference():
        return {RESULT: None, RETURNED: "a tensor of inference mode, which no backward pass may use"}
    return {RESULT: result, GRADIENTS: {name: leaves[name].grad for name in given.needs_grad}}


class LeftBehind(RuntimeError):
    """A call has changed a switch of the whole process and not set it back."""


class Call:
    """One call of a learner's function, in the three parts of :data:`Ask`. Each raises what the function raises.

    What the function leaves behind in cycles goes when it has run, and no sooner: when Python looks for garbage hangs on
    what was there before, and the memory that a call takes must not.
    """

    def __init__(self, ask: Callable[..., Generator[None, None, object]], function: Callable, given: Given,
                 device: torch.device):
        self._parts = ask(function, given, device)
        self._inputs = {name: list(value) if isinstance(value, list) else value for name, value in given.inputs.items()}
        next(self._parts)
        self._switches = before_a_call()

    def run(self) -> None:
        """What is measured. Raises :class:`LeftBehind` too."""
        try:
            self._next()
        finally:
            changed = restore(self._switches)
        if changed:
            raise LeftBehind("The call changes a switch of the whole process and does not set it back: "
                             f"{', '.join(changed)}. Use it as a context, `with …:`, or set it back: the next call runs "
                             "with it too.")

    def finish(self):
        """The answer: plain data, and tensors that nobody has read yet."""
        try:
            self._next()
        except StopIteration as end:
            return end.value
        raise RuntimeError("an exercise's ask has two yields")

    @torch.no_grad()
    def overwritten(self, given: Given) -> Given:
        """``given`` in the tensors that this call had, as far as they are of the same form."""
        def over(old, new):
            if isinstance(new, list):
                return [*map(over, old, new), *new[len(old):]]
            return old.copy_(new) if (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device) else new

        return replace(given, inputs={name: over(self._inputs[name], value) for name, value in given.inputs.items()})

    def _next(self) -> None:
        try:
            with no_collection(), many_compilations():
                next(self._parts)
        finally:
            gc.collect(1)  # what is older than the call is none of its own


class many_compilations:
    """Inside, a function may be compiled again for each of an exercise's inputs, which are more than a program has. What a
    cell has changed of Dynamo's limit is left out. On no clock; a class, as ``no_collection`` is."""

    MOST = 200  # of one function

    def __enter__(self) -> None:
        self._dynamo = sys.modules.get("torch._dynamo")
        if self._dynamo is not None:
            with host_clock.uncounted():  # the setting is made in PyTorch's Python
                config = self._dynamo.config
                self._was, config.recompile_limit = config.recompile_limit, self.MOST

    def __exit__(self, *raised) -> None:
        if self._dynamo is not None:
            with host_clock.uncounted():
                self._dynamo.config.recompile_limit = self._was


class LocalStage:
    """The learner's ``function`` in this process. ``ask`` is the exercise's (:class:`gapless.course.exercise.Exercise`)."""

    def __init__(self, function: Callable, device: torch.device, ask: Ask | None = None):
        self.function, self._device, self._ask = function, device, ask or ask_for_tensor

    @contextmanager
    def ranks(self, world: int) -> Iterator[Callable[[int], LocalStage]]:
        """For processes that are forked inside, one for each of ``world`` ranks: rank → the stage there."""
        yield lambda rank: self

    def settle(self) -> bool:
        """Let go of the calls so far. Whether all that the memory holds then is the learner's: here nobody knows."""
        return False

    def begin(self, given: Given, over: Call | None = None) -> Call:
        """A call of the function, made ready. ``over``: an earlier call, whose tensors it gets, with the values of ``given``
        in them."""
        given = given if over is None else over.overwritten(given)
        return Call(self._ask, self.function, given, self._device)
