"""Lesson 04: the datasets that `make_loader` makes a loader for, and what its epochs show."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Note
from .stage import EPOCHS

EACH_ONCE, ANOTHER_ORDER = "each once in every epoch", "another in every epoch"
NO_TWO_ALIKE, PINNED = "no two alike", "pinned"
BY_WORKERS, BY_EPOCHS = "the same from several workers", "the same in several epochs"
LIVE_ON, AGAIN = "live on", "are started again in every epoch"
TWO_OR_MORE = "two batches or more"


def loader_cases(seed: int) -> list[Case]:
    """Few workers: each is a real process."""
    rng = np.random.default_rng(seed)

    def case(name: str, workers: int, batches: int, batch_size: int, last: int) -> Case:
        return Case(name, {}, {"samples": (batches - 1) * batch_size + last, "batch_size": batch_size, "workers": workers})

    size = int(rng.integers(3, 6))
    return [
        case("two workers", 2, int(rng.integers(4, 7)), size, size),
        case("one worker", 1, 3, size, size),
        case("no workers", 0, 4, int(rng.integers(4, 6)), int(rng.integers(2, 4))),
        case("three workers, and a last batch of one sample", 3, int(rng.integers(4, 7)), int(rng.integers(4, 7)), 1),
    ]


def see_loader(case: Case, answer: dict, notes: list[Note]) -> dict:
    """What the loader did, in words."""
    epochs, samples = answer["epochs"], case.options["samples"]
    labels = [[label for batch in epoch for label in batch["labels"]] for epoch in epochs]
    noise = [[number for batch in epoch for each in batch["noise"] for number in each] for epoch in epochs]
    processes = [{number for batch in epoch for number in batch["processes"]} for epoch in epochs]
    return {"samples": next((_lost(each, samples, number) for number, each in enumerate(labels, start=1)
                             if sorted(each) != list(range(samples))), EACH_ONCE),
            "augmentations": _augmentations(noise, samples),
            "sizes of the batches": [len(batch["labels"]) for batch in epochs[0]] if epochs else [],
            "order": ANOTHER_ORDER if len({tuple(each) for each in labels}) == EPOCHS else "the same in several epochs",
            "workers": _workers(processes, answer["own process"]),
            "dtypes of the images": sorted({batch["dtype"] for epoch in epochs for batch in epoch}),
            "memory": PINNED if all(batch["pinned"] for epoch in epochs for batch in epoch) else "not pinned",
            "asked of a worker beforehand": _beforehand(case, answer["prefetch"])}


def _lost(labels: list[int], samples: int, epoch: int) -> str:
    missing, twice = sorted(set(range(samples)) - set(labels)), len(labels) - len(set(labels))
    return f"in epoch {epoch}: {len(missing)} of {samples} do not come, and {twice or 'none'} come twice"


def _workers(processes: list[set[int]], own: int) -> str:
    if all(each == {own} for each in processes):
        return "none"
    together = set().union(*processes)
    count = max(map(len, processes), default=0)
    return f"{count}, which {LIVE_ON if len(together) == count else AGAIN}"


def _augmentations(noise: list[list[float]], samples: int) -> str:
    """``noise``: of each epoch the numbers of all samples, one by one, since a stream may begin in the middle of another. A
    few are equal by chance, but never half a sample's."""
    few = len(noise[0]) / samples / 2 if noise else 0
    within = any(len(each) - len(set(each)) >= few for each in noise)
    between = sum(len(set(each)) for each in noise) - len(set().union(*noise)) >= few
    found = [words for words, repeated in ((BY_WORKERS, within), (BY_EPOCHS, between)) if repeated]
    return ", and ".join(found) or NO_TWO_ALIKE


def _beforehand(case: Case, prefetch) -> str:
    if not case.options["workers"]:
        return "nothing: there is none"
    if type(prefetch) is not int:
        return "unknown: it is no DataLoader"
    return TWO_OR_MORE if prefetch >= 2 else "one batch"
