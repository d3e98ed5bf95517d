"""Lesson 04: what a loader's epochs are: which samples are augmented alike, in letters, and what each takes the host."""

from __future__ import annotations

import itertools
import string

import torch

from ...measure.device import clock_ms
from .measuring_workers import forking

_NAMES = ["".join(letters) for length in (1, 2) for letters in itertools.product(string.ascii_uppercase, repeat=length)]


def augmentations(loader, epochs: int = 2) -> str:
    """A line for each epoch and process: the noise of its images in the order in which they come, a letter for each that
    is not the same. ``loader`` gives (images, labels, processes), as one of
    :class:`gapless.lessons.data_loading.augmenting.Augmented`."""
    known: dict[bytes, str] = {}
    lines = []
    with forking():
        for epoch in range(1, epochs + 1):
            of_process: dict[int, list[str]] = {}
            for images, _, processes in loader:
                for image, process in zip(images, processes.tolist()):
                    name = known.setdefault(image.numpy().tobytes(), _NAMES[len(known) % len(_NAMES)])
                    of_process.setdefault(process, []).append(name)
            lines += [f"epoch {epoch}, process {number}: {' '.join(names)}"
                      for number, names in enumerate(of_process.values(), start=1)]
    return "\n".join(lines)


def epochs_ms(loader, device: torch.device, epochs: int = 3) -> list[float]:
    """What each epoch of ``loader`` takes the host, with the start of its workers."""
    found = []
    with forking():
        for _ in range(epochs):
            start_ms = clock_ms(device)
            for _ in loader:
                pass
            found.append(clock_ms(device) - start_ms)
    return found
