"""What can be switched on without changing a script: each is tried by running it again, so what it saves is no guess."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader

from .steps import around_outermost

_WORKERS = 4


@dataclass(frozen=True)
class Switch:
    """``what`` to write into the script, and the number of the ``lesson``."""

    name: str
    what: str
    lesson: str


SWITCHES = {each.name: each for each in (
    Switch("tf32", "`torch.set_float32_matmul_precision(\"high\")`, `torch.backends.cudnn.allow_tf32 = True`: products of "
           "float32 by TF32", "05"),
    Switch("amp", "`torch.autocast(\"cuda\", dtype=torch.bfloat16)` around the forward pass and the loss", "05"),
    Switch("benchmark", "`torch.backends.cudnn.benchmark = True`: convolutions by the fastest algorithm", "05"),
    Switch("fused", "`fused=True` for the optimizer", "06"),
    Switch("compile", "`model.compile()`, or `torch.compile(model)`: kernels that are fused, less Python", "07"),
    Switch("workers", f"`num_workers={_WORKERS}` for loaders that have none", "04"),
    Switch("pinned", "`pin_memory=True` for loaders, `non_blocking=True` for copies of what is pinned", "04"),
)}


@contextmanager
def switched(name: str | None) -> Iterator[None]:
    """Inside, a program runs with that switch on (None: none): what it says itself goes before."""
    undo = _ON[name]() if name is not None else None
    try:
        yield
    finally:
        if undo is not None:
            undo()


def _settings(*settings):
    """Switch on attributes (owner, name, value)."""

    def on():
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in settings]
        for owner, name, value in settings:
            setattr(owner, name, value)

        def undo() -> None:
            for owner, name, value in before:
                setattr(owner, name, value)

        return undo

    return on


def _autocast():
    # The backward pass too: its operators take the dtypes of the forward pass's results.
    region = torch.autocast("cuda", dtype=torch.bfloat16)
    region.__enter__()
    return lambda: region.__exit__(None, None, None)


def _fused():
    kinds = [kind for kind in vars(torch.optim).values() if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
             and "fused" in inspect.signature(kind.__init__).parameters]
    before = [(kind, vars(kind)["__init__"]) for kind in kinds if "__init__" in vars(kind)]

    def fusing(init):
        @functools.wraps(init)
        def make(self, params, *args, **kwargs):
            if kwargs.get("fused") is not None or kwargs.get("foreach") is not None:
                init(self, params, *args, **kwargs)
                return
            params = list(params)
            try:
                init(self, params, *args, **{**kwargs, "fused": True})
            except (RuntimeError, TypeError):  # parameters of a kind that it does not take
                init(self, params, *args, **kwargs)

        return make

    for kind, init in before:
        kind.__init__ = fusing(init)

    def undo() -> None:
        for kind, init in before:
            kind.__init__ = init

    return undo


def _compile():
    compiled = weakref.WeakSet()

    def compile_first(call, module, *args, **kwargs):
        if module not in compiled:
            compiled.add(module)
            module.compile()
        return call(module, *args, **kwargs)

    return around_outermost(compile_first)


def _loaders(change):
    """Make loaders with other arguments: ``change`` gets those that were given by name or place."""
    init = DataLoader.__init__
    places = list(inspect.signature(init).parameters)

    @functools.wraps(init)
    def make(self, *args, **kwargs):
        given = dict(zip(places[1:], args)) | kwargs
        init(self, **{**given, **change(given)})

    DataLoader.__init__ = make

    def undo() -> None:
        DataLoader.__init__ = init

    return undo


def _workers():
    return _loaders(lambda given: {} if given.get("num_workers") else {"num_workers": _WORKERS})


def _pinned():
    undo_loaders, to = _loaders(lambda given: {"pin_memory": True}), torch.Tensor.to

    @functools.wraps(to)
    def move(self, *args, **kwargs):
        if self.device.type == "cpu" and self.is_pinned() and not any(each is True for each in args):
            kwargs = {**kwargs, "non_blocking": True}
        return to(self, *args, **kwargs)

    torch.Tensor.to = move

    def undo() -> None:
        undo_loaders()
        torch.Tensor.to = to

    return undo


_ON = {
    "tf32": _settings((torch.backends.cuda.matmul, "allow_tf32", True), (torch.backends.cudnn, "allow_tf32", True)),
    "amp": _autocast,
    "benchmark": _settings((torch.backends.cudnn, "benchmark", True)),
    "fused": _fused, "compile": _compile, "workers": _workers, "pinned": _pinned,
}
