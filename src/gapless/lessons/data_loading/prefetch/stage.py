"""Lesson 04: how ``prefetch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch

from ....course.plain import Unusable, same_objects
from ..to_device.stage import parts_of

CLASSES = 1000
MOST_AHEAD = 3  # batches on their way at once: more is memory for nothing
_ENDLESS = 40


class DamagedFile(OSError):
    """What a dataset raises of its own."""


class _Loader:
    """As much of a DataLoader as a loop needs: its batches in order, then the error ``text`` where there is one. Counts
    those that were ``taken``."""

    def __init__(self, batches: list, text: str | None, endless: bool):
        self._batches, self._text, self._endless = batches, text, endless
        self.taken = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator:
        while True:
            for batch in self._batches:
                self.taken += 1
                if self.taken > _ENDLESS:
                    raise Unusable(f"it took {self.taken} batches from the loader and the loop has not asked for them: a "
                                   "loader may be long, or endless. Hold one batch ready, not all.")
                yield batch
            if self._text is not None:
                self.error = DamagedFile(self._text)
                raise self.error
            if not self._endless:
                return


def _packed(kind: str, images: torch.Tensor, labels: torch.Tensor, number: int):
    """A batch in one of the forms that a collate function may give."""
    return {
        "a tensor": lambda: images,
        "a tuple": lambda: (images, labels),
        "a dict": lambda: {"images": images, "labels": labels, "files": [f"{number}-{i}.jpg" for i in range(len(labels))]},
        "nested": lambda: {"views": [images, (images + 1, number)], "target": {"labels": labels}, "weight": None},
    }[kind]()


def _batches(given) -> list:
    """The case's batches, in the host's memory, those named in ``pinned`` pinned."""
    options, pinned = given.options, given.options["pinned"]
    if "shape" in options:  # at full size: of the values nobody wants to know
        images = torch.empty(options["shape"], dtype=torch.uint8, pin_memory=True)
        return [(images, torch.zeros(options["shape"][0], CLASSES))] * options["batches"]

    def on_host(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu().pin_memory() if name in pinned else tensor.cpu()

    columns = [[on_host(name, tensor) for tensor in given.inputs[name]] for name in ("images", "labels")]
    return [_packed(options["kind"], images, labels, number) for number, (images, labels) in enumerate(zip(*columns))]


def _told(batch, device: torch.device):
    """What a batch holds, in plain data and copies of its tensors: the batch itself may go."""
    if isinstance(batch, torch.Tensor):
        return {"shape": list(batch.shape), "dtype": str(batch.dtype), "on the device": batch.device.type == device.type,
                "values": batch.clone()}
    if isinstance(batch, dict):
        return {key: _told(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return {f"a {type(batch).__name__}": [_told(value, device) for value in batch]}
    return str(batch)


def _training(given, device: torch.device) -> Callable:
    """The step of a loop that is measured: it needs the batch, and reads one number, as `GradScaler.step` does."""
    weight = (torch.empty(given.options["weight"], device=device) if "shape" in given.options else given.inputs["weight"])

    def step(batch) -> float:
        images, labels = list(batch.values())[:2] if isinstance(batch, dict) else batch
        return ((images.view(-1, len(weight)).float() @ weight).mean() + labels.float().mean()).item()

    return step


def ask_prefetch(function, given, device):
    """What a loop gets of ``function``: its batches, how many were taken from the loader beforehand, on which stream the
    loop ran, and what was raised."""
    options = given.options
    on_host = _batches(given)
    held = parts_of(on_host)
    loader = _Loader(on_host, options.get("raises"), options.get("endless", False))
    keep = _training(given, device) if "weight" in (*options, *given.inputs) else lambda batch: _told(batch, device)
    own = torch.Stream(device) if options.get("own_stream") and device.type != "cpu" else nullcontext()
    stop, found, raised = options.get("stop"), [], None
    yield
    with own:
        before = torch.accelerator.current_stream()
        same, ahead = True, 0
        try:
            batches = iter(function(loader, device))
            for batch in batches:
                ahead = max(ahead, loader.taken - len(found))
                same = same and torch.accelerator.current_stream() == before
                found.append(keep(batch))
                del batch
                if len(found) == stop:
                    break
            if hasattr(batches, "close"):
                batches.close()
        except DamagedFile as error:
            raised = str(error) if error is loader.error else f"another error with the text {str(error)!r}"
        afterwards = torch.accelerator.current_stream() == before
        torch.accelerator.set_stream(before)
    yield
    same_objects("loader", parts_of(on_host), held)
    return {"batches": found, "raised": raised, "stream of the loop": "its own" if same else "another",
            "stream after the loop": "as before" if afterwards else "another",
            "taken ahead": "few" if ahead <= MOST_AHEAD else f"{ahead} batches"}
