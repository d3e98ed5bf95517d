"""Lesson 04: what the notebook shows for ``make_loader``."""

from __future__ import annotations

import itertools
import string

from ..stage import forking

_NAMES = ["".join(letters) for length in (1, 2) for letters in itertools.product(string.ascii_uppercase, repeat=length)]


def augmentations(loader, epochs: int = 2) -> str:
    """A line for each epoch and process: the noise of its images in the order in which they come, a letter for each that
    is not the same. ``loader`` gives (images, labels, processes), as one of
    :class:`.stage.Augmented`."""
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
