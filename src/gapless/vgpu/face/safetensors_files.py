"""``safetensors`` knows devices by a list of names. For the virtual GPU it reads on the host, and each tensor is copied
over, as it is to CUDA: from pageable memory, with a wait."""

# mypy: disable-error-code="attr-defined"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
import importlib.util
import sys

import torch

from ..process.state import DEVICE


class _Slice:
    """Part of a tensor in a file, read for the device."""

    def __init__(self, read):
        self._read = read

    def __getitem__(self, index):
        return self._read[index].to(DEVICE)

    def __getattr__(self, name):
        return getattr(self._read, name)


class _File:
    """An open file that gives tensors of the device; the rest is ``safetensors.safe_open``'s."""

    def __init__(self, file):
        self._file = file

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *args):
        return self._file.__exit__(*args)

    def get_tensor(self, name: str) -> torch.Tensor:
        """The tensor ``name``."""
        return self._file.get_tensor(name).to(DEVICE)

    def get_tensors(self, *args) -> dict[str, torch.Tensor]:
        """All of them by name."""
        return {name: tensor.to(DEVICE) for name, tensor in self._file.get_tensors(*args).items()}

    def get_slice(self, name: str) -> _Slice:
        """What gives parts of the tensor ``name``."""
        return _Slice(self._file.get_slice(name))

    def __getattr__(self, name):
        return getattr(self._file, name)


def _is_ours(device) -> bool:
    if isinstance(device, int):  # of the accelerator that there is
        device = torch.device("cuda") if torch.cuda.is_available() else DEVICE
    return torch.device(device).type == DEVICE.type


def _opening(original):
    @functools.wraps(original)
    def safe_open(filename, framework, device="cpu", **options):
        if framework in ("pt", "torch", "pytorch") and _is_ours(device):
            return _File(original(filename, framework, device="cpu", **options))
        return original(filename, framework, device=device, **options)

    return safe_open


def install() -> None:
    """Let every module that has imported ``safetensors.safe_open``, or will, open files for the device."""
    if importlib.util.find_spec("safetensors") is None:
        return
    import safetensors

    original = safetensors.safe_open
    opening = _opening(original)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("safe_open") is original:
            module.safe_open = opening
