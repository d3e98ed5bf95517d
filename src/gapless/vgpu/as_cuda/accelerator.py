"""``torch.accelerator`` as a program for several cards asks it: the number of its card, and how many there are.

To who knows the virtual GPU it is PyTorch's own, with one device (:mod:`..face.accelerator`).
"""

from __future__ import annotations

import functools

import torch

from ..process.state import DEVICE
from . import asking
from .asking import by_the_program, check, meant

# What takes a device, or nothing, in the first place.
_OF_A_DEVICE = """
    set_device_index set_device_idx synchronize current_stream get_device_capability get_memory_info memory_stats
    memory_allocated memory_reserved max_memory_allocated max_memory_reserved reset_peak_memory_stats
    reset_accumulated_memory_stats
""".split()


def _own(device):
    """A number or a device of the program's, as PyTorch has it here. Raises RuntimeError for another card's."""
    if isinstance(device, int) and device >= 0:
        check(device)
        return DEVICE.index
    return meant(device)


def _of_a_device(plain):
    @functools.wraps(plain)
    def call(*args):
        if args and by_the_program():
            args = _own(args[0]), *args[1:]
        return plain(*args)

    return call


def _chosen(plain):
    @functools.wraps(plain)
    def init(self, device, /):
        plain(self, _own(device) if by_the_program() else device)

    return init


def _answered(plain, answer):
    @functools.wraps(plain)
    def ask():
        return answer() if by_the_program() else plain()

    return ask


def install(replaced) -> None:
    """Answer the program so from now on."""
    accelerator = torch.accelerator
    current = accelerator.current_accelerator

    def current_accelerator(check_available: bool = False):
        """``cuda``, for the program."""
        return torch.device("cuda") if by_the_program() else current(check_available)

    replaced.put(accelerator, "current_accelerator", current_accelerator)
    replaced.put(accelerator, "device_count", _answered(accelerator.device_count, lambda: asking.numbering.count))
    for name in ("current_device_index", "current_device_idx"):
        replaced.put(accelerator, name, _answered(getattr(accelerator, name), lambda: asking.numbering.index))
    for name in _OF_A_DEVICE:
        if hasattr(accelerator, name):
            replaced.put(accelerator, name, _of_a_device(getattr(accelerator, name)))
    replaced.put(accelerator.device_index, "__init__", _chosen(accelerator.device_index.__init__))
