"""A trace that shows what each block of the GPU's memory is for: :func:`memory_profile`.

A profiler's memory events have addresses and sizes. What is a parameter, a gradient or an optimizer's state is known while
the program runs, so marks are put into the trace at moments where that can be read: a ``record_function`` block
``gapless: memory 3`` each, and under ``gapless`` → ``memory`` of the file the addresses known by then. The same on CUDA and
on the virtual GPU. :func:`gapless.views.memory_by_category` reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.profiler import record_function

from .. import vgpu
from ..evidence.traces.memory import BACKWARD, MARK
from ..evidence.traces.trace import Trace
from . import profiler
from .device import device as choose_device
from .device import synchronize


def memory_profile(step: Callable[[], object], *, steps: int = 1, warmup: int = 2,
                   device: torch.device | str | None = None) -> Trace:
    """A trace of ``steps`` calls of ``step`` after ``warmup`` calls that are not recorded.

    Parameters are the leaves that a backward pass comes to, and the parameters and buffers of every ``nn.Module`` that is
    called; gradients are what their ``.grad`` holds; an optimizer's state is what ``optimizer.state`` holds. Others than
    PyTorch's own optimizers are not seen. Watching takes the host a few per cent more time. ``device`` as for
    :func:`gapless.profile`. Raises ValueError if ``steps`` or ``warmup`` < 1, RuntimeError where another profile is being
    recorded.
    """
    if steps < 1 or warmup < 1:
        raise ValueError("steps and warmup must be at least 1: parameters and optimizers are found during the warm-up")
    device = device if isinstance(device, torch.device) else choose_device(device)
    with _Watch(device) as watch:
        for _ in range(warmup):
            step()
        synchronize(device)
        with profiler.profile(device=device, profile_memory=True, acc_events=True) as recorded:
            watch.begin(recorded)
            for number in range(steps):
                with record_function(f"ProfilerStep#{number}"):
                    step()
            watch.mark()
            synchronize(device)
    return _marked(recorded.trace, watch)


def _marked(trace: Trace, watch: _Watch) -> Trace:
    """``trace`` with the marks of ``watch`` in it."""
    about = trace.metadata.get("gapless")
    known = {"memory": watch.marks}
    return Trace(trace.events, {**trace.metadata, "gapless": {**about, **known} if isinstance(about, dict) else known})


class MemoryRecording:
    """:func:`memory_profile` of a program whose steps are not called but end: :meth:`step_ended` at each end, from the one
    after which to begin. The first step from there is the warm-up, the second is recorded.

    Modules are not watched, as that would keep ``torch.compile`` from what it does without: parameters are what an optimizer
    or a backward pass comes to, and a model's buffers count as "from before".
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._watch = _Watch(device, modules=False)
        self._watch.__enter__()
        self._recorded: profiler.profile | None = None
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The trace; RuntimeError before the second step has ended."""
        if self._trace is None:
            raise RuntimeError("no step has been recorded yet")
        return self._trace

    def step_ended(self) -> bool:
        """Whether all is recorded."""
        if self._recorded is None:
            synchronize(self._device)
            self._recorded = profiler.profile(device=self._device, profile_memory=True, acc_events=True)
            self._recorded.start()
            self._watch.begin(self._recorded)
            self._block = record_function("ProfilerStep#0")
            self._block.__enter__()
            return False
        recorded = self._recorded
        self._block.__exit__(None, None, None)
        self._watch.mark()
        synchronize(self._device)
        recorded.stop()
        self._watch.end()
        self._trace = _marked(recorded.trace, self._watch)
        return True

    def abandon(self) -> None:
        """Watch and record no more, if it does; not at the end of a step, where PyTorch goes through its hooks."""
        if self._watch.entered:
            self._watch.__exit__()
            if self._recorded is not None and self._trace is None:
                self._recorded.stop()


class _Watch:
    """While entered, finds parameters and optimizers; from :meth:`begin` on it marks what is what."""

    def __init__(self, device: torch.device, modules: bool = True):
        self.device, self._modules, self.entered = device, modules, False
        self.marks: list[dict[str, list[list[int]]]] = []
        self._recorded: profiler.profile | None = None
        self._parameters: dict[int, torch.Tensor] = {}
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._handles: list = []

    def __enter__(self) -> _Watch:
        self.entered = True
        self._handles = [register_optimizer_step_pre_hook(self._steps), register_optimizer_step_post_hook(self._stepped)]
        if self._modules:
            self._handles.append(nn.modules.module.register_module_forward_pre_hook(self._called))
        self._run_backward = run = torch.autograd.graph._engine_run_backward
        watch = self

        @functools.wraps(run)
        def run_backward(outputs, *args, **kwargs):
            with watch._aside():
                watch._know(_leaves(outputs))
            with record_function(BACKWARD) if watch._recorded is not None else nullcontext():
                return run(outputs, *args, **kwargs)

        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward  # type: ignore[assignment]
        return self

    def __exit__(self, *error) -> None:
        self.entered = False
        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = self._run_backward
        for handle in self._handles:
            handle.remove()
        self._parameters.clear()
        self._optimizers.clear()

    def begin(self, recorded: profiler.profile) -> None:
        """Mark from now on, in the profile that is being ``recorded``."""
        self._recorded = recorded
        self.mark()

    def end(self) -> None:
        """Mark no more."""
        self._recorded = None

    def mark(self) -> None:
        """What is known now, as a block of the trace."""
        if self._recorded is None:
            return
        with self._aside():
            parameters = [each for each in self._parameters.values() if _is_on(each, self.device)]
            states = (value for optimizer in self._optimizers.values() for state in list(optimizer.state.values())
                      if isinstance(state, dict) for value in list(state.values()) if _is_on(value, self.device))
            self._put({"parameters": self._blocks(parameters), "optimizer state": self._blocks(states),
                       "gradients": self._blocks(each.grad for each in parameters if each.grad is not None)})

    def _put(self, known: dict[str, list[list[int]]]) -> None:
        with record_function(f"{MARK}{len(self.marks)}"):
            self.marks.append(known)

    def _blocks(self, tensors: Iterable[torch.Tensor]) -> list[list[int]]:
        """[address in the trace, bytes] of each tensor's memory."""
        found = {}
        for tensor in tensors:
            if tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
        return [[self._recorded.address_in_trace(address), nbytes] for address, nbytes in found.items() if nbytes]

    def _aside(self):
        """Inside, what is done is on no clock."""
        return vgpu.host_clock.uncounted() if self.device.type == "vgpu" else nullcontext()

    # -- what the program does ----------------------------------------------------------------------

    def _know(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            if id(parameter) not in self._parameters and _is_on(parameter, self.device):
                self._parameters[id(parameter)] = parameter
                if parameter.requires_grad and parameter.is_leaf:
                    self._handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated))

    def _called(self, module: nn.Module, args) -> None:
        with self._aside():
            self._know(each for each in (*module._parameters.values(), *module._buffers.values()) if each is not None)

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if self._recorded is not None and parameter.grad is not None:
            with self._aside():
                self._put({"gradients": self._blocks([parameter.grad])})

    def _steps(self, optimizer, args, kwargs) -> None:
        with self._aside():
            self._optimizers[id(optimizer)] = optimizer
            self._know(each for group in optimizer.param_groups for each in group["params"])
            self.mark()

    def _stepped(self, optimizer, args, kwargs) -> None:
        self.mark()


def _is_on(value, device: torch.device) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == device.type


def _leaves(outputs) -> list[torch.Tensor]:
    """The tensors that a backward pass from ``outputs`` (tensors or GradientEdges) may give a gradient."""
    waiting = [getattr(output, "grad_fn", None) or getattr(output, "node", None) for output in outputs]
    seen, found = set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        waiting += [following for following, _ in node.next_functions]
    return found
