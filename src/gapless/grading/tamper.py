"""Whether a learner's code changed the tools that measure it.

Two nets. A fingerprint remembers what the namespaces that measuring relies on hold, and says afterwards what
is no longer there. And the modules themselves report an assignment as it is made, so that a change which is
taken back before anyone looks is seen too.

What this cannot stop: code in the same interpreter can write into a module's ``__dict__`` and put it back, change
objects that no namespace names, or forge what is measured in ways not thought of here. Evidence is
also judged by a baseline run again afterwards, and the graders read the cell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType

import torch

_PACKAGE = __name__.split(".")[0]
_TORCH_FOLDER = os.path.join(os.path.dirname(os.path.realpath(torch.__file__)), "")
_TOOLS = ("torch", "torch._tensor", "torch.nn", "torch.nn.functional", "torch.autograd", "torch.autograd.profiler",
          "torch.profiler", "torch.cuda", "torch.linalg", "torch.random", "numpy", "time", "json", "os", "builtins",
          "math", "statistics", "copy", "operator", "functools", "threading", "gc")
_DESCRIPTORS = (property, classmethod, staticmethod)
_WATCHED = ("torch", "torch.nn.functional", "torch.cuda", "torch.autograd", "time", "numpy", "json", "builtins")


class Fingerprint:
    """What the measuring tools are now. ``packages``: further packages to remember in full."""

    def __init__(self, packages: Iterable[str] = ()):
        own = (_PACKAGE, *packages)
        # Libraries add to these themselves, when they import lazily.
        self._trusted = {*own, "torch", "numpy"}
        self._modules = {name: module for name, module in list(sys.modules.items())
                         if isinstance(module, ModuleType) and (name in _TOOLS or name.split(".")[0] in own)}
        # Namespace → (its name, what it held, whether a new name in it is a change too).
        self._spaces: list[tuple[object, str, dict, bool]] = []
        self._functions: dict[int, tuple[FunctionType, str, tuple]] = {}
        for name, module in self._modules.items():
            ours = name.split(".")[0] in own
            self._remember(module, name, sealed=ours or name == "builtins")
            if ours:
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__.split(".")[0] in own:
                        self._remember(value, f"{value.__module__}.{value.__qualname__}", sealed=True)
        self._remember(torch.Tensor, "torch.Tensor", sealed=True)
        self._remember(torch.nn.Module, "torch.nn.Module", sealed=True)
        self._settings = _settings()

    def _remember(self, space, name: str, sealed: bool) -> None:
        if any(space is known for known, *_ in self._spaces if isinstance(space, type)):
            return
        # State changes as libraries work; what they can do does not. So of others only callables count.
        held = {key: value for key, value in list(vars(space).items())
                if not key.startswith("__") and (callable(value) or isinstance(value, _DESCRIPTORS))}
        self._spaces.append((space, name, held, sealed))
        for key, value in held.items():
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                self._functions[id(function)] = (function, f"{name}.{key}", _inner(function))

    def changes(self) -> list[str]:
        """What differs now from when this was made, in words; empty where nothing does."""
        found = []
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                found.append(f"the module {name} was replaced")
        for space, name, held, sealed in self._spaces:
            now = vars(space)
            for key, value in held.items():
                if key not in now:
                    found.append(f"{name}.{key} was removed")
                elif now[key] is not value and not _same_behind(now[key], value):
                    found.append(f"{name}.{key} was replaced")
            if sealed:
                found += [f"{name}.{key} was added" for key, value in list(now.items())
                          if key not in held and not key.startswith("__") and callable(value)
                          and not isinstance(value, ModuleType) and _origin(value) not in self._trusted]
        for function, name, inner in self._functions.values():
            if any(a is not b for a, b in zip(_inner(function), inner)):
                found.append(f"{name} was changed inside")
        found += [f"{name} was changed and left so" for name, value in _settings().items()
                  if value != self._settings[name]]
        return found


def watch_assignments(by_learner: Callable, seen: list[str], packages: Iterable[str] = ()) -> None:
    """Make the measuring modules report each assignment made in a frame for which ``by_learner(frame)`` holds.

    Reports go into ``seen``, in words. What the import system and the libraries themselves assign is not reported.
    """

    class WatchedModule(ModuleType):
        def __setattr__(self, name, value):
            _report(self, name, value)
            super().__setattr__(name, value)

        def __delattr__(self, name):
            _report(self, name, None)
            super().__delattr__(name)

    def _report(module, name, value):
        if isinstance(value, ModuleType) or len(seen) > 100:
            return
        if by_learner(sys._getframe(2)):
            seen.append(f"{module.__name__}.{name} was replaced")

    own = (_PACKAGE, *packages)
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType and (name in _WATCHED or name.split(".")[0] in own):
            module.__class__ = WatchedModule


def _settings() -> dict:
    """What a cell can switch for all code that runs after it, by its name in words."""
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "the recording of gradients": torch.is_grad_enabled(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "the use of deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the stack of torch function modes": torch._C._len_torch_function_stack(),
        "the stack of torch dispatch modes": torch._C._len_torch_dispatch_stack(),
        "Python's trace function": sys.gettrace() is None,
        "Python's profile function": sys.getprofile() is None,
    }


def _inner(function: FunctionType) -> tuple:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _same_behind(now, before) -> bool:
    # Importing torch._dynamo wraps a few functions of torch in one of its own.
    return (isinstance(now, FunctionType) and getattr(now, "__wrapped__", None) is before
            and os.path.realpath(now.__code__.co_filename).startswith(_TORCH_FOLDER))


def _origin(value) -> str:
    return str(getattr(value, "__module__", None)).split(".")[0]
