"""What measured figures depend on, for the record."""

from __future__ import annotations

import platform

import torch


def versions() -> dict[str, str]:
    """Name → version: of Python, PyTorch and the platform's name, and of CUDA and cuDNN where they are used."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "platform": platform.system()}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if torch.cuda.is_available() and torch.backends.cudnn.is_available():
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found
