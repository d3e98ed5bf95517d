"""Lesson 05: how ``largest_batch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

MULTIPLE = 8
LARGEST, CALLS, ASKED, HELD = "largest batch", "calls of step", "batches that were tried", "bytes still held at the end"
SHOWN = "what the trials show"
RAISED = "raised: "
FEW, AS_WANTED = "few", f"multiples of {MULTIPLE} up to the most"
BORDER = "that it fits, and that the next does not"
LARGER = "that a larger one fits"
# Errors of other kinds, by their texts. MemoryError is of the host's memory.
OTHER_ERRORS = {"CUDA error: misaligned address": RuntimeError,
                "CUDA error: an illegal memory access was encountered": RuntimeError,
                "mat1 and mat2 shapes cannot be multiplied (8x12 and 13x4)": RuntimeError,
                "Expected more than 1 value per channel when training": ValueError,
                "the host has no memory left": MemoryError}
LAYERS = 3  # of a trial step, each with a block of memory of its own


@dataclass
class _Trials:
    """The batches that were tried, those that fitted, and the bytes that something still holds."""

    batches: list[int] = field(default_factory=list)
    fitting: list[int] = field(default_factory=list)
    held: int = 0


def _trial_step(options: dict, trials: _Trials, device: torch.device) -> Callable[[int], torch.Tensor]:
    """A training step that takes ``sample_bytes`` a sample of a memory of ``memory_bytes``, counted as long as something
    holds its tensors; ``broken``: the text of another error that it raises, or "". A function alone: no attribute of it
    says what fits."""
    memory_bytes = options["memory_bytes"]

    def give_back(size: int) -> None:
        trials.held -= size

    def block_of(batch: int) -> torch.Tensor:
        size = batch * options["sample_bytes"] // LAYERS
        if trials.held + size > memory_bytes:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size} bytes. GPU 0 has a total capacity of {memory_bytes} "
                f"bytes of which {memory_bytes - trials.held} bytes is free.")
        block = torch.ones(max(batch, 0), device=device)  # stands for the bytes that it counts
        trials.held += size
        weakref.finalize(block, give_back, size)
        return block

    def step(batch):
        if type(batch) is not int:
            raise TypeError(f"step takes a whole number of samples, not a {type(batch).__name__}")
        trials.batches.append(batch)
        activations = []  # a variable of the frame, which a traceback keeps: a comprehension dies with the error
        for _ in range(LAYERS):
            activations.append(block_of(batch))
        if options["broken"]:
            raise OTHER_ERRORS[options["broken"]](options["broken"])
        trials.fitting.append(batch)
        return activations[-1]

    return step


def ask_largest_batch(function, given, device):
    """What ``function`` finds, in how many trials, and what it holds on to."""
    options = given.options
    trials = _Trials()
    yield
    try:
        found = function(_trial_step(options, trials, device), options["most"])
    except tuple(OTHER_ERRORS.values()) as error:
        if str(error) != options["broken"]:
            raise
        found = RAISED + options["broken"]
    yield
    odd = [batch for batch in trials.batches if batch % MULTIPLE or not 0 < batch <= options["most"]]
    enough = 2 * math.ceil(math.log2(options["most"] // MULTIPLE + 1)) + 1
    count = len(trials.batches)
    found = found.item() if isinstance(found, torch.Tensor) else found
    return {LARGEST: found, SHOWN: _shown(found, options["most"], trials),
            ASKED: f"{odd[0]}, where the most is {options['most']}" if odd else AS_WANTED,
            CALLS: FEW if count <= enough else f"{count}, where at most {enough} are needed",
            HELD: trials.held}


def _shown(found, most: int, trials: _Trials) -> str:
    """Of a number: whether it has fitted in a trial, and the next one has not."""
    if type(found) is not int:
        return BORDER
    if found < max(trials.fitting, default=0):
        return LARGER
    if found and found not in trials.fitting:
        return f"that {found} does not fit" if found in trials.batches else f"nothing of {found}"
    after = found + MULTIPLE
    return BORDER if after > most or (after in trials.batches and after not in trials.fitting) else f"nothing of {after}"
