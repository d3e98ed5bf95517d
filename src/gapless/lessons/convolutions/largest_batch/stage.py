"""Lesson 05: how ``largest_batch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import math
import weakref

import torch

MULTIPLE = 8
LARGEST, CALLS, ASKED, HELD = "largest batch", "calls of step", "batches that were tried", "bytes still held at the end"
FEW, AS_WANTED = "few", f"multiples of {MULTIPLE} up to the most"
NOT_OF_MEMORY = "CUDA error: misaligned address"
LAYERS = 3  # of a trial step, each with a block of memory of its own


class _Trials:
    """A training step that takes ``sample_bytes`` a sample of a memory of ``memory_bytes``, counted as long as something
    holds its tensors. ``broken``: it raises another error."""

    def __init__(self, memory_bytes: int, sample_bytes: int, broken: bool, device: torch.device):
        self.memory_bytes, self.sample_bytes = memory_bytes, sample_bytes
        self.broken, self.device = broken, device
        self.held, self.batches = 0, []

    def step(self, batch):
        if type(batch) is not int:
            raise TypeError(f"step takes a whole number of samples, not a {type(batch).__name__}")
        self.batches.append(batch)
        activations = []  # a variable of the frame, which a traceback keeps: a comprehension dies with the error
        for _ in range(LAYERS):
            activations.append(self._block(batch))
        if self.broken:
            raise RuntimeError(NOT_OF_MEMORY)
        return activations[-1]

    def _block(self, batch: int) -> torch.Tensor:
        size = batch * self.sample_bytes // LAYERS
        if self.held + size > self.memory_bytes:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size} bytes. GPU 0 has a total capacity of {self.memory_bytes} "
                f"bytes of which {self.memory_bytes - self.held} bytes is free.")
        block = torch.ones(max(batch, 0), device=self.device)  # stands for the bytes that it counts
        self.held += size
        weakref.finalize(block, self._give_back, size)
        return block

    def _give_back(self, size: int) -> None:
        self.held -= size


def ask_largest_batch(function, given, device):
    """What ``function`` finds, in how many trials, and what it holds on to."""
    options = given.options
    trials = _Trials(options["memory_bytes"], options["sample_bytes"], options["broken"], device)
    yield
    try:
        found = function(trials.step, options["most"])
    except RuntimeError as error:
        if str(error) != NOT_OF_MEMORY:
            raise
        found = f"raised: {NOT_OF_MEMORY}"
    yield
    odd = [batch for batch in trials.batches if batch % MULTIPLE or not 0 < batch <= options["most"]]
    enough = 2 * math.ceil(math.log2(options["most"] // MULTIPLE + 1)) + 1
    count = len(trials.batches)
    return {LARGEST: found.item() if isinstance(found, torch.Tensor) else found,
            ASKED: f"{odd[0]}, where the most is {options['most']}" if odd else AS_WANTED,
            CALLS: FEW if count <= enough else f"{count}, where at most {enough} are needed",
            HELD: trials.held}
