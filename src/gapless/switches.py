"""The switches of PyTorch that a statement changes for the rest of the process: what runs after it runs otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn.modules import module


def _pop_function_modes(was: int) -> None:
    torch.set_default_device(None)  # it is one of them, and PyTorch keeps it a second time
    while torch._C._len_torch_function_stack() > was:
        torch._C._pop_torch_function_stack()


def _kinds() -> tuple[str, ...]:
    """Of devices. The virtual GPU's name changes when it is enabled."""
    return "cpu", torch._C._get_privateuse1_backend_name(), "cuda"


def _autocast() -> tuple[int, tuple[bool, ...]]:
    """How many contexts are open, and on which devices autocast is on."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting(), tuple(map(torch.is_autocast_enabled, _kinds()))


def _set_autocast(was: tuple[int, tuple[bool, ...]]) -> None:
    nesting, enabled = was
    for kind, on in zip(_kinds(), enabled, strict=True):
        torch.set_autocast_enabled(kind, on)
    for _ in range(_autocast()[0] - nesting):
        torch.autocast_decrement_nesting()
    if not nesting:
        torch.clear_autocast_cache()


def _hooks() -> dict[str, dict]:
    return {name: dict(hooks) for name, hooks in vars(module).items()
            if name.startswith("_global_") and isinstance(hooks, dict)}


def _set_hooks(was: dict[str, dict]) -> None:
    for name, hooks in was.items():
        getattr(module, name).clear()
        getattr(module, name).update(hooks)


@dataclass(frozen=True)
class _Seeded:
    """Two are equal if nobody has seeded in between: numbers may be drawn."""

    seed: int
    state: torch.Tensor = field(compare=False)


def _random() -> _Seeded:
    return _Seeded(torch.default_generator.initial_seed(), torch.default_generator.get_state())


def _set_random(was: _Seeded) -> None:
    torch.default_generator.set_state(was.state)


def _kernels() -> tuple:
    """Whether convolutions are tuned, and which kernels attention may take."""
    return (torch._C._get_cudnn_benchmark(), torch._C._get_flash_sdp_enabled(), torch._C._get_mem_efficient_sdp_enabled(),
            torch._C._get_math_sdp_enabled(), torch._C._get_cudnn_sdp_enabled())


def _set_kernels(was: tuple) -> None:
    setters = (torch._C._set_cudnn_benchmark, torch._C._set_sdp_use_flash, torch._C._set_sdp_use_mem_efficient,
               torch._C._set_sdp_use_math, torch._C._set_sdp_use_cudnn)
    for put, value in zip(setters, was, strict=True):
        put(value)


# What changes it → how it is read, and how it is set. Each reader is PyTorch's C++ or this file: what runs in PyTorch's
# Python would be on the virtual GPU's clock.
_SWITCHES: dict[str, tuple[Callable, Callable | None]] = {
    "torch.set_default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.set_grad_enabled": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch.use_deterministic_algorithms": (torch._C._get_deterministic_algorithms, torch.use_deterministic_algorithms),
    "torch.autograd.set_detect_anomaly": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "torch.autocast": (_autocast, _set_autocast),
    "a hook on every module": (_hooks, _set_hooks),
    "a TorchFunctionMode (torch.set_default_device is one)": (torch._C._len_torch_function_stack, _pop_function_modes),
    # The virtual GPU's own come and go while something is measured.
    "a TorchDispatchMode": (torch._C._len_torch_dispatch_stack, None),
}


# A program may seed, and a function that it calls may not.
_OF_A_CALL: dict[str, tuple[Callable, Callable | None]] = {"torch.manual_seed": (_random, _set_random)}
# Lesson 10's `train` is a program, and may set these: they are set back without a word.
_QUIET: dict[str, tuple[Callable, Callable | None]] = {"the choice of kernels": (_kernels, _set_kernels)}
_ALL = _SWITCHES | _OF_A_CALL | _QUIET


def switches() -> dict[str, object]:
    """How those of the process are now, by what changes them."""
    return {name: read() for name, (read, _) in _SWITCHES.items()}


def before_a_call() -> dict[str, object]:
    """How all are that a call has to leave as they are, for :func:`restore`."""
    return {name: read() for name, (read, _) in _ALL.items()}


def restore(before: dict[str, object]) -> list[str]:
    """Set back what is not as before, and tell what that is, except for what a program may set."""
    changed = []
    for name, (read, put) in _ALL.items():
        if put is not None and read() != before[name]:
            put(before[name])
            changed.append(name)
    return [name for name in changed if name not in _QUIET]
