"""``torch.cuda``: the names that ``torch.vgpu`` has too are those of ``torch.vgpu``."""

# mypy: disable-error-code="attr-defined, exit-return"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import sys
from contextlib import contextmanager

import torch

from ..process.state import NAME
from . import asking
from .asking import by_the_program, check, meant

# PyTorch's own machinery, and submodules: those have their names replaced one by one.
_KEPT = frozenset("""
    is_available device_count current_device set_device device device_of is_initialized amp memory random streams graphs nvtx
    default_generators get_device_properties get_device_name get_device_capability can_device_access_peer is_bf16_supported
    manual_seed_all
""".split())
_SUBMODULES = ("memory", "random", "streams", "graphs", "nvtx")


def _number(device) -> int:
    """The number of the card meant by a device, a name, a number or None."""
    if device is None:
        return asking.numbering.index
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type not in ("cuda", NAME):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return asking.numbering.index if device.index is None or device.type == NAME else device.index


class _Device:
    """``torch.cuda.device``: this process's card is the only one that can be chosen."""

    def __init__(self, device):
        check(_number(device))

    def __enter__(self):
        return None

    def __exit__(self, *error) -> bool:
        return False


@contextmanager
def _device_of(obj):
    yield


def _asked(plain, answer):
    """``answer`` to the program; to who knows the virtual GPU what PyTorch says, which finds no CUDA."""

    def ask(*args, **kwargs):
        return answer(*args, **kwargs) if by_the_program() else plain(*args, **kwargs)

    return ask


def _about(name: str):
    """A question about a card, of which there may be several alike."""
    of_the_card = getattr(torch.vgpu, name)

    def ask(device=None):
        number = _number(device)
        if not 0 <= number < asking.numbering.count:
            raise AssertionError(f"Invalid device id: {number}")
        return of_the_card()

    return ask


def install(replaced) -> None:
    """Fill ``torch.cuda``."""
    cuda, virtual = torch.cuda, torch.vgpu
    for name in dir(cuda):
        if not name.startswith("_") and name not in _KEPT and hasattr(virtual, name):
            replaced.put(cuda, name, getattr(virtual, name))
    for name in _SUBMODULES:
        own, theirs = getattr(cuda, name), getattr(virtual, name)
        for each in dir(theirs):
            if not each.startswith("__") and hasattr(own, each):
                replaced.put(own, each, getattr(theirs, each))
    for name in ("get_device_name", "get_device_capability", "get_device_properties"):
        replaced.put(cuda, name, _about(name))
    answers = {"is_available": lambda: True, "device_count": lambda: asking.numbering.count, "is_initialized": lambda: True,
               "current_device": lambda: asking.numbering.index, "is_bf16_supported": virtual.is_bf16_supported}
    for name, answer in answers.items():
        replaced.put(cuda, name, _asked(getattr(cuda, name), answer))
    # torch.manual_seed has seeded the one generator that there is before it calls this; a program has not.
    for owner in (cuda, cuda.random):
        replaced.put(owner, "manual_seed_all", _asked(virtual.manual_seed_all, virtual.manual_seed))
    replaced.put(cuda, "set_device", lambda device: check(_number(device)))
    replaced.put(cuda, "device", _Device)
    replaced.put(cuda, "device_of", _device_of)
    replaced.put(cuda, "can_device_access_peer", lambda device, peer_device: _number(device) != _number(peer_device))
    replaced.put(cuda, "default_generators", virtual.default_generators)
    replaced.put(cuda, "_is_in_bad_fork", virtual._is_in_bad_fork)
    replaced.put(cuda, "_lazy_init", lambda: None)
    for kind in ("Half", "BFloat16", "Float", "Double", "Byte", "Char", "Short", "Int", "Long", "Bool"):
        replaced.put(cuda, f"{kind}Tensor", _typed(f"{kind}Tensor"))
    if "torch.backends.cudnn" in sys.modules:
        replaced.put(torch.backends.cudnn, "is_available", _asked(torch.backends.cudnn.is_available, lambda: True))


class _Typed(type):
    """``torch.cuda.FloatTensor`` and its kind, as programs of before PyTorch had devices say it."""

    def __call__(cls, *args, device="cuda"):
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            return torch.tensor(args[0], dtype=cls.dtype, device=meant(device))
        return torch.empty(*args, dtype=cls.dtype, device=meant(device))

    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == NAME and value.dtype == cls.dtype


def _typed(kind: str) -> type:
    return _Typed(kind, (), {"__module__": "torch.cuda", "dtype": getattr(torch, kind).dtype})
