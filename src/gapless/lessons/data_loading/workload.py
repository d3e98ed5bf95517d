"""Lesson 04: the slow program, a training on many small images that are decoded and augmented in Python.

The kind of program that NVIDIA's "PyTorch Performance Tuning Guide" (Szymon Migacz, ECCV 2020) begins with; ours, in sizes
and code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ... import vgpu
from ...course.exercise import full_size
from ...measure.device import clock_ms, host_work, synchronize
from .stage import start_method

BATCH, CHANNELS, SIDE, CLASSES = 256, 3, 64, 10
IMAGES = 16_384  # in an epoch
DECODE_MS = 0.1  # of the host, an image: what a JPEG of this size takes, about
PADDING = 4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_KINDS = 512  # images that differ


class Photos(Dataset):
    """``IMAGES`` images of 3×64×64 with labels. Each image is "decoded", which takes the host ``DECODE_MS``, then
    cropped and flipped at random. It is float32, normalised on the host, or uint8 with ``as_bytes``."""

    def __init__(self, device: torch.device, as_bytes: bool = False, images: int = IMAGES):
        rng = np.random.default_rng(0)
        side = SIDE + 2 * PADDING
        self.device, self.as_bytes, self.images = device, as_bytes, images
        self.stored = rng.integers(0, 256, size=(_KINDS, CHANNELS, side, side), dtype=np.uint8)
        self.mean, self.std = (torch.tensor(each).view(-1, 1, 1) for each in (MEAN, STD))

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.from_numpy(self.augment(self.decode(index)))
        if not self.as_bytes:
            image = (image.float() / 255 - self.mean) / self.std
        return image, index % CLASSES

    def decode(self, index: int) -> np.ndarray:
        host_work(DECODE_MS, self.device)
        return self.stored[index % _KINDS]

    def augment(self, image: np.ndarray) -> np.ndarray:
        top, left, flip = torch.randint(0, 2 * PADDING + 1, (3,)).tolist()
        cropped = image[:, top:top + SIDE, left:left + SIDE]
        return np.ascontiguousarray(cropped[:, :, ::-1] if flip % 2 else cropped)


def make_network() -> nn.Sequential:
    """Four convolutions that halve the image, with norms and ReLU; then the classes."""
    layers: list[nn.Module] = []
    for before, after in ((CHANNELS, 96), (96, 192), (192, 384), (384, 512)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


def make_train(device: torch.device) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """``train(images, labels)``: one step of SGD on a batch that is on the device."""
    torch.manual_seed(0)
    network = make_network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def train(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return train


class LoadingFailed(RuntimeError):
    """A loader that gave no batch, in one line."""


def one_by_one(batches: Iterable) -> Iterator:
    """The batches, once. Raises LoadingFailed where the loader raises, or yields nothing."""
    found = False
    try:
        for batch in batches:
            found = True
            yield batch
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        died = lines and "exited unexpectedly" in lines[0]
        advice = "a worker process has ended by itself: was there memory enough? Try num_workers=0" if died else (
            "try the item by itself: dataset[index], in this process")
        why = lines[0].removeprefix("Caught ").rstrip(".") if lines else "no message"
        last = f": {lines[-1]}" if len(lines) > 1 and not died else ""
        raise LoadingFailed(f"the loader raised {type(error).__name__} ({why}{last}): {advice}") from None
    if not found:
        raise LoadingFailed("the loader yields nothing: is the dataset empty, or smaller than a batch with drop_last=True?")


def endless(batches: Iterable) -> Iterator:
    """The batches, again and again. Raises as :func:`one_by_one` does."""
    while True:
        yield from one_by_one(batches)


def unoptimised(device: torch.device) -> Callable[[], None]:
    """A step of the program with the defaults of ``DataLoader``. On the virtual GPU call it inside ``full_size``."""
    loader = DataLoader(Photos(device), batch_size=BATCH, shuffle=True)
    train, batches = make_train(device), endless(loader)

    def step():
        images, labels = next(batches)
        train(images.to(device), labels.to(device))

    return step


def training_step(device: torch.device, *, workers: int = 0, pinned: bool = False, as_bytes: bool = False,
                  to_device: Callable | None = None, prepare: Callable | None = None, prefetch: Callable | None = None
                  ) -> Callable[[], None]:
    """The same with changes: so many ``workers``, ``pinned`` memory, images ``as_bytes`` that ``prepare(images, mean, std)``
    makes floats of, copies by ``to_device(batch, device)`` or ahead, by ``prefetch(loader, device)``."""
    loader = DataLoader(Photos(device, as_bytes), batch_size=BATCH, shuffle=True, num_workers=workers, pin_memory=pinned,
                        persistent_workers=workers > 0, multiprocessing_context=start_method(workers))
    mean, std = (torch.tensor(each, device=device) for each in (MEAN, STD))
    train = make_train(device)
    batches = endless(loader if prefetch is None else _Ahead(prefetch, loader, device))

    def step():
        images, labels = next(batches)
        if prefetch is None:
            images, labels = to_device((images, labels), device)
        train(images if prepare is None else prepare(images, mean, std), labels)

    return step


class _Ahead:
    """A loader's batches on the device, copied ahead, any number of times."""

    def __init__(self, prefetch: Callable, loader: DataLoader, device: torch.device):
        self._prefetch, self._loader, self._device = prefetch, loader, device

    def __iter__(self) -> Iterator:
        return iter(self._prefetch(self._loader, self._device))


def blocking(batch: tuple[torch.Tensor, ...], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Tensors by copies that wait."""
    return tuple(tensor.to(device) for tensor in batch)


@dataclass(frozen=True)
class Epoch:
    """An epoch on the host's clock: until the first batch is there, and in all."""

    first_ms: float
    ms: float


def pinned_loader(device: torch.device, workers: int, images: int) -> DataLoader:
    """So many images, whose batches come in pinned memory; new workers for each epoch."""
    return DataLoader(Photos(device, images=images), batch_size=BATCH, shuffle=True, num_workers=workers, pin_memory=True,
                      multiprocessing_context=start_method(workers))


def at_full_size(device: torch.device) -> AbstractContextManager:
    """Where the program's steps are of full size and the host's own work is on its clock."""
    stack = ExitStack()
    stack.enter_context(full_size(device))
    stack.enter_context(vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext())
    return stack


def epoch(device: torch.device, workers: int, images: int = IMAGES // 2) -> Epoch:
    """One epoch of the program with so many workers, pinned memory and copies that do not block, from making the loader's
    iterator, and with it the workers, until the device is done."""
    with at_full_size(device):
        train, first_ms, loader = make_train(device), None, pinned_loader(device, workers, images)
        synchronize(device)
        start_ms = clock_ms(device)
        for batch in one_by_one(loader):
            first_ms = first_ms or clock_ms(device) - start_ms
            train(*(tensor.to(device, non_blocking=True) for tensor in batch))
        synchronize(device)
        return Epoch(first_ms, clock_ms(device) - start_ms)
