"""Where a step of somebody's training ends, found while the program runs.

The end of a step is the return of ``optimizer.step()``, whatever calls it: a loop, a ``GradScaler``, a trainer. A program
that has no optimizer (it changes its parameters by hand) ends a step with each backward pass, and one whose step is in a
CUDA graph with each replay. Of a program that only evaluates, each forward pass of its model is one, where that is asked
for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.profiler import record_function

from ..evidence.what_if import OPTIMIZER_MARK
from ..vgpu.compiling import graphs

OPTIMIZER, BACKWARD, REPLAY, FORWARD = "optimizer.step()", "backward()", "CUDAGraph.replay()", "forward()"
_ENOUGH = 6  # events of another kind, one after the other, until it is taken to be what ends a step
_VERY_MANY = 500  # backward passes of a program that has an optimizer and never calls it: accumulation ends sooner


class StepEnds:
    """Calls ``ended()`` at the end of each step while :meth:`watching`.

    ``trains()`` is called once, when the first optimizer has been made or the first backward pass begins.
    ``kind``: what ends a step, one of :data:`OPTIMIZER`, :data:`BACKWARD` and :data:`REPLAY`, None until the first;
    ``began_anew()`` is called where another kind takes over, as steps are other ones then. Of several optimizers the first
    to step ends a step: a step is what lies between two calls of the same one.

    ``forward``: nothing is trained, and the end of a step is the return of a module that has parameters and is called by
    none (:data:`FORWARD`); of several the first one's.
    """

    def __init__(self, ended: Callable[[], None], began_anew: Callable[[], None],
                 trains: Callable[[], None] = lambda: None, forward: bool = False):
        self.kind: str | None = None
        self.counts = dict.fromkeys((OPTIMIZER, BACKWARD, REPLAY, FORWARD), 0)
        self.optimizers = 0  # made
        self._ended, self._began_anew, self._trains = ended, began_anew, trains
        self._forward = forward
        self._leader: int | None = None
        self._since: dict[object, int] = {}  # of others, since the last end of a step

    @contextmanager
    def watching(self):
        """Watch inside."""
        hooks = [register_optimizer_step_pre_hook(self._steps), register_optimizer_step_post_hook(self._stepped)]
        engine, init = torch.autograd.graph._engine_run_backward, torch.optim.Optimizer.__init__
        this = self

        @functools.wraps(engine)
        def run_backward(*args, **kwargs):
            this._train()
            out = engine(*args, **kwargs)
            # torch.autograd.grad asks for some gradients in the middle of a step.
            if kwargs.get("accumulate_grad"):
                this._event(BACKWARD)
            return out

        @functools.wraps(init)
        def make(optimizer, *args, **kwargs):
            this.optimizers += 1
            init(optimizer, *args, **kwargs)
            this._train()

        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward
        torch.optim.Optimizer.__init__ = make  # type: ignore[assignment]
        unwatch = around_outermost(self._call) if self._forward else None
        kinds: set[Any] = {torch.cuda.CUDAGraph, graphs.CUDAGraph}
        replays = {kind: kind.replay for kind in kinds}
        for kind, replay in replays.items():
            kind.replay = _then(replay, functools.partial(self._event, REPLAY))
        try:
            yield self
        finally:
            for hook in hooks:
                hook.remove()
            for kind, replay in replays.items():
                kind.replay = replay
            torch.optim.Optimizer.__init__ = init
            if unwatch is not None:
                unwatch()
            torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = engine

    def _train(self) -> None:
        trains, self._trains = self._trains, lambda: None
        trains()

    def _call(self, call, module, *args, **kwargs):
        self._train()
        out = call(module, *args, **kwargs)
        self._event(FORWARD, id(module))
        return out

    def _steps(self, optimizer, args, kwargs):
        # PyTorch's own block is still open where a step ends, so the last one is in no trace; and a closure is in it.
        self._open()
        args = tuple(self._outside(each) if place and callable(each) else each for place, each in enumerate(args))
        if callable(kwargs.get("closure")):
            kwargs = {**kwargs, "closure": self._outside(kwargs["closure"])}
        return args, kwargs

    def _open(self) -> None:
        self._block = record_function(OPTIMIZER_MARK)
        self._block.__enter__()

    def _outside(self, closure):
        """A closure, which computes the loss and its gradients: that is not the optimizer's work."""

        @functools.wraps(closure)
        def call(*args, **kwargs):
            self._block.__exit__(None, None, None)
            try:
                return closure(*args, **kwargs)
            finally:
                self._open()

        return call

    def _stepped(self, optimizer, args, kwargs) -> None:
        self._block.__exit__(None, None, None)
        self._event(OPTIMIZER, id(optimizer))

    # Dynamo leaves functions with this mark alone.
    _steps._torchdynamo_disable = _stepped._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _event(self, kind: str, which: int | None = None) -> None:
        if kind is not REPLAY and _is_capturing():
            return  # nothing has run yet
        self.counts[kind] += 1
        if self.kind is None and kind in (OPTIMIZER, FORWARD):
            self.kind, self._leader = kind, which
        if kind is self.kind and which == self._leader:
            self._since.clear()
            self._ended()
            return
        others = self._since[kind, which] = self._since.get((kind, which), 0) + 1
        if others < (_VERY_MANY if kind is BACKWARD and self.optimizers else _ENOUGH):
            return
        if kind is BACKWARD and self.kind is not None:
            return  # accumulation
        self.kind, self._leader = kind, which
        self._since.clear()
        self._began_anew()
        self._ended()


def around_outermost(around: Callable[..., Any]) -> Callable[[], None]:
    """From now on a module that has parameters and is called by none runs by ``around(call, module, *args, **kwargs)``,
    where ``call(module, …)`` is as ever. Returns what ends that."""
    call = torch.nn.Module.__call__

    @functools.wraps(call)
    def outermost(module, *args, **kwargs):
        if torch.compiler.is_compiling() or next(module.parameters(), None) is None:
            return call(module, *args, **kwargs)
        torch.nn.Module.__call__ = call  # Dynamo goes through no other, and splits its graph
        try:
            return around(call, module, *args, **kwargs)
        finally:
            torch.nn.Module.__call__ = outermost

    def undo() -> None:
        torch.nn.Module.__call__ = call

    torch.nn.Module.__call__ = outermost
    return undo


def _then(function, after: Callable[[], None]):
    """``function``, and then ``after()``."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        out = function(*args, **kwargs)
        after()
        return out

    return call


def _is_capturing() -> bool:
    return graphs.is_current_stream_capturing() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
