"""Which device the course runs on."""

from __future__ import annotations

import os
import time

import torch

from .. import vgpu
from ..words import origin

VARIABLE = "GAPLESS_DEVICE"


class UnknownDevice(ValueError):
    """The name is no device that the course can run on; the message lists those it can."""


def device(name: str | None = None, card: str = "") -> torch.device:
    """The device called ``name``; without a name the one in ``GAPLESS_DEVICE``; else ``cuda`` where there
    is one, else ``vgpu:0``, with that ``card`` if one is named.

    Names: ``cuda``, ``cuda:1``, ``vgpu`` (the virtual A10G), ``vgpu:a100`` and so on for the other cards,
    ``vgpu:PATH.json`` for a card file.
    Raises UnknownDevice.
    """
    name = name or os.environ.get(VARIABLE) or ("cuda" if torch.cuda.is_available() else f"vgpu:{card}")
    kind, _, which = name.strip().partition(":")
    kind = kind.lower()
    if kind == "vgpu":
        try:
            # An index means the card in use; plain "vgpu" too.
            return vgpu.enable(None if which in ("", "0") else which)
        except vgpu.UnknownCard:
            raise UnknownDevice(_unknown(name)) from None
        except vgpu.CardError as error:
            raise UnknownDevice(str(error)) from None
    if kind == "cuda" and (which == "" or which.isdigit()):
        if not torch.cuda.is_available():
            raise UnknownDevice(f"{name!r} asks for a CUDA GPU and PyTorch sees none here: use vgpu, the virtual GPU")
        if int(which or 0) >= torch.cuda.device_count():
            raise UnknownDevice(f"{name!r}: PyTorch sees {torch.cuda.device_count()} CUDA GPU(s), counted from 0")
        return torch.device("cuda", int(which or 0))
    raise UnknownDevice(_unknown(name))


def _unknown(name: str) -> str:
    known = ", ".join(["cuda", "vgpu", *(f"vgpu:{card}" for card in vgpu.CARDS)])
    return f"no device is called {name!r}; known are {known} (argument --device, or the variable {VARIABLE})"


def device_name(device: torch.device) -> str:
    """The GPU's name: the modelled card's on the virtual GPU."""
    if device.type == "cpu":
        return "CPU"
    return vgpu.card().name if device.type == "vgpu" else torch.cuda.get_device_name(device)


def origin_of(device: torch.device) -> str:
    """Where figures of this device come from: "simulated NVIDIA A10G" or "measured on NVIDIA H100"."""
    return origin(device.type == "vgpu", device_name(device))


def clock_ms(device: torch.device) -> float:
    """The host's clock in milliseconds: a real one, or the modelled host's on the virtual GPU. Reading it waits for
    nothing."""
    if device.type == "vgpu":
        vgpu.timeline().catch_up()
        return vgpu.timeline().host_ns / 1e6
    return time.perf_counter_ns() / 1e6


def host_work(ms: float, device: torch.device | None = None) -> None:
    """The host works for ``ms``: stands for work of its own (decoding, augmentation, logging) in a program that is measured.

    On the virtual GPU (``vgpu``; None: the course's device) exactly that passes on the modelled host's clock and no time
    here; in a worker process of a ``DataLoader`` it passes on that worker's clock (:mod:`gapless.vgpu.host.data_loader`).
    Elsewhere this computes until so much real time has passed. Raises ValueError unless 0 ≤ ``ms`` < 10⁷.
    """
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 <= ms < 1e7:
        raise ValueError(f"host_work takes milliseconds, at least 0 and less than 10,000,000, not {ms!r}")
    virtual = vgpu.state.is_worker or vgpu.state.link is not None  # and which card it is, is known
    if (device is None and virtual) or (device or globals()["device"]()).type == "vgpu":
        vgpu.timeline().catch_up()
        vgpu.timeline().host_work(round(ms * 1e6))
        return
    until = time.perf_counter_ns() + round(ms * 1e6)
    while time.perf_counter_ns() < until:
        pass


def stay_busy(device: torch.device, ms: float) -> None:
    """Queue about ``ms`` of work, so that the device is behind the host as in a real training. Nothing on the CPU."""
    if not ms:
        return
    if device.type == "vgpu":
        vgpu.timeline().launch("earlier_work", round(ms * 1e6))
    elif device.type == "cuda":
        torch.cuda._sleep(round(ms * torch.cuda.get_device_properties(device).clock_rate))  # in cycles of its clock; kHz


def synchronize(device: torch.device) -> None:
    """Wait for all work of ``device``."""
    if device.type == "vgpu":
        vgpu.timeline().synchronize_device()
    elif device.type == "cuda":
        torch.cuda.synchronize(device)
