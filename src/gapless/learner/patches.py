"""Whether something in this process has replaced a part of PyTorch, of the clock or of this course: then no check here means
anything any more."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..switches import switches
from ..vgpu.face import backend
from ..vgpu.process.location import is_notebook_cell

_PACKAGES = ("torch", "torch.nn", "torch.nn.functional", "torch.autograd", "torch.optim", "torch.utils.data", "torch.cuda",
             "torch.accelerator", "torch.profiler", "torchmetrics", "gapless", "time", "builtins")
_DEEP = ("torch.nn.modules", "torchmetrics", "gapless", "torch.optim", "torch.autograd")  # with the modules inside
_DYNAMO = os.path.join(os.path.dirname(torch.__file__), "_dynamo", "")
_WRITTEN_HERE = ("__main__", "__exercise__", None)


def _holders() -> dict[str, object]:
    """Modules and classes whose attributes are watched, by name."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, types.ModuleType) or (name not in _PACKAGES and not name.startswith(
                tuple(f"{each}." for each in _DEEP))):
            continue
        found[name] = module
        for value in list(vars(module).values()):
            if isinstance(value, type) and str(value.__module__).partition(".")[0] in ("torch", "torchmetrics", "gapless"):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def _callables(holder) -> dict[str, object]:
    return {key: value for key, value in list(vars(holder).items())
            if callable(value) or isinstance(value, (staticmethod, classmethod, property))}


class Baseline:
    """How things were when it was made."""

    def __init__(self):
        self._attributes = {name: (holder, _callables(holder)) for name, holder in _holders().items()}
        self._switches = switches()

    def changes(self) -> list[str]:
        """What has been replaced, unless a library did it, and which switches are set otherwise: in words."""
        found = [name for name, value in switches().items() if value != self._switches[name]]
        for holder_name, (holder, before) in self._attributes.items():
            now, bases = vars(holder), getattr(holder, "__mro__", ())[1:]
            for key, value in before.items():
                if now.get(key) is not value and (
                        key not in now or _is_from_a_cell(now[key]) or _is_another(value, now[key])):
                    found.append(f"{holder_name}.{key}")
            # What stands before an inherited attribute: `torch.Tensor.item` is its base class's.
            found += [f"{holder_name}.{key}" for key, value in list(now.items()) if key not in before and callable(value)
                      and any(key in vars(base) for base in bases) and _is_from_a_cell(value)]
        return found


def _is_from_a_cell(value) -> bool:
    """Written by a learner, in contrast to what libraries exchange in themselves when they are used first."""
    value = getattr(value, "__func__", value)
    if isinstance(value, property):
        value = value.fget
    code = getattr(value, "__code__", None)
    if code is not None:
        return is_notebook_cell(code.co_filename) or getattr(value, "__module__", None) in _WRITTEN_HERE
    return getattr(type(value) if not isinstance(value, type) else value, "__module__", None) in _WRITTEN_HERE


def _is_another(before, now) -> bool:
    """Whether one function of a library stands in the place of another. Those that libraries put there keep the name,
    except for what ``torch.compile`` puts around ``nn.Module.__init__`` (torch/_dynamo/mutation_guard.py)."""
    own, other = getattr(before, "__name__", None), getattr(now, "__name__", None)
    if own is None or own == other:
        return False
    code = getattr(now, "__code__", None)
    return code is None or not code.co_filename.startswith(_DYNAMO)


_baseline: Baseline | None = None


def remember() -> None:
    """Take the baseline of this process, where there is none yet."""
    global _baseline
    if _baseline is None:
        _baseline = Baseline()


@contextmanager
def _by_right() -> Iterator[None]:
    """What is replaced inside is this course's doing: on a real GPU the virtual one may be enabled late, for what a lesson
    simulates all the same. What somebody else had replaced before still makes checks void."""
    global _baseline
    untouched = _baseline is not None and not _baseline.changes()
    yield
    if untouched:
        _baseline = Baseline()


backend.around_enabling.append(_by_right)


def void() -> str | None:
    """What to say instead of a verdict, where something has been replaced since :func:`remember`; else None."""
    changed = _baseline.changes() if _baseline is not None else []
    if not changed:
        return None
    names = ", ".join(f"`{name}`" for name in changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    return (f"void: a cell has replaced or switched {names}, for everything that runs in this notebook, including the "
            "check itself. Remove that from the cell, restart the kernel (menu Kernel → Restart), and run from the top")
