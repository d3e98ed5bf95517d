"""Generators on the virtual GPU: the CPU's, under another name, since the CPU makes the values."""

# mypy: disable-error-code="assignment, attr-defined, misc, override"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import weakref
from contextlib import contextmanager

import torch

from ..process.state import DEVICE, NAME

_CPU = torch._C.Generator
_of_the_device: set[int] = set()  # addresses of the C++ generators behind those here


class VirtualGenerator(_CPU):
    """What ``torch.Generator(device="vgpu")`` gives: with the same seed, the values of a CPU generator."""

    def __new__(cls):
        self = super().__new__(cls)
        # An operator gets another Python object for the same C++ one.
        _of_the_device.add(self._cdata)
        weakref.finalize(self, _of_the_device.discard, self._cdata)
        return self

    @property
    def device(self) -> torch.device:
        return DEVICE

    def clone_state(self) -> VirtualGenerator:
        """A generator in the same state."""
        return _rebuild(self.get_state())

    def get_offset(self) -> int:
        """Raises RuntimeError: a CPU generator's state is no seed with a count of numbers drawn, as CUDA's is."""
        raise RuntimeError(f"a generator on {DEVICE} has no offset: keep its state, with get_state() and set_state()")

    def set_offset(self, offset: int) -> None:
        """Raises RuntimeError, as :meth:`get_offset`."""
        self.get_offset()

    def __reduce__(self):
        return _rebuild, (self.get_state(),)


def _rebuild(state: torch.Tensor) -> VirtualGenerator:
    generator = VirtualGenerator()
    generator.set_state(state)
    return generator


class _Either(type):
    """``torch.Generator``: makes what the device needs; any generator is an instance of it."""

    def __call__(cls, device="cpu"):
        device = torch.device(device)
        if device.type != NAME:
            return _CPU(device)
        if device.index not in (None, DEVICE.index):
            raise RuntimeError(f"invalid device ordinal: {device}; there is one virtual GPU, {DEVICE}")
        return VirtualGenerator()

    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, _CPU)

    def __subclasscheck__(cls, other) -> bool:
        return issubclass(other, _CPU)


class Generator(metaclass=_Either):
    __doc__ = _CPU.__doc__


Generator.__module__ = "torch"
Generator.__qualname__ = "Generator"


def check(generator: torch.Generator | None) -> None:
    """Raise RuntimeError for the generator of another device, as CUDA does."""
    if generator is not None and generator._cdata not in _of_the_device:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{generator.device.type}': use "
                           f"torch.Generator(device={NAME!r})")


# On the CPU they draw as many numbers as their arguments' values want; on CUDA the state moves on by the shape.
DRAW_BY_VALUE = frozenset({"poisson", "binomial", "_standard_gamma", "_sample_dirichlet", "rrelu_with_noise",
                           "rrelu_with_noise_", "rrelu_with_noise_functional"})


def of(args: tuple, kwargs: dict) -> torch.Generator:
    """The generator that an operator with these arguments, inner ones, draws from."""
    return next((each for each in (*args, *kwargs.values()) if isinstance(each, _CPU)), torch.default_generator)


@contextmanager
def moved_on_by_form(which: torch.Generator, numel: int):
    """Inside numbers are drawn as ever; afterwards the state is one that tells their count ``numel`` and nothing else."""
    before = which.get_state()
    try:
        yield
    finally:
        which.set_state(before)
        torch.empty(numel).uniform_(generator=which)


def install() -> None:
    """Let ``torch.Generator`` make generators of the device. (PyTorch asks C++ hooks that Python cannot give.)"""
    torch.Generator = Generator
