"""Lesson 09: the data sets that ``make_batches`` gets, and what is said of what it makes of them."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.variants import covering
from ....words import counted
from . import judged
from .stage import AGREE, GLOBAL, NOT_AGAIN, RAISED, SEEDED

_EPOCHS = (0, 1, 2, 3, 7, 12, 20, 36)  # after the first: what comes again after 13 epochs or fewer, or after 16, is seen
_TIMES = 2
# Kind → lengths of `count` samples, in tokens.
KINDS = {
    "sentences": lambda rng, count: np.clip(rng.lognormal(3.2, 0.7, count), 1, 512),
    "short ones and long ones": lambda rng, count: np.where(rng.random(count) < 0.8, rng.integers(5, 15, count),
                                                            rng.integers(200, 400, count)),
    "sorted in the file": lambda rng, count: np.sort(np.clip(rng.lognormal(3.5, 0.8, count), 1, 1024)),
    "all of one length": lambda rng, count: np.full(count, 64),
    "no two alike": lambda rng, count: 20 + 3 * rng.permutation(count),
    "a few very long ones": lambda rng, count: np.where(rng.random(count) < 0.03, rng.integers(800, 1200, count),
                                                        rng.integers(20, 60, count)),
}
# How many samples there are, where a step takes `full` of them on all ranks.
COUNTS = {
    "whole steps": lambda rng, full: full * int(rng.integers(13, 17)),
    "one too many": lambda rng, full: full * int(rng.integers(13, 17)) + 1,
    "one too few": lambda rng, full: full * int(rng.integers(13, 17)) - 1,
    "half a step too many": lambda rng, full: full * int(rng.integers(13, 17)) + full // 2 + 1,
    "less than a step": lambda rng, full: full - 1,
}


def dealing_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, kind: str, count: int, world: int, batch_size: int, first: int | None = None) -> Case:
        lengths = [int(length) for length in KINDS[kind](rng, count)]
        first = int(rng.integers(0, 50)) if first is None else first
        options = {"lengths": lengths, "world": world, "batch_size": batch_size,
                   "epochs": [first + each for each in _EPOCHS]}
        return Case(f"{name}, {kind}, {counted(count, 'sample')} for {counted(world, 'rank')}, {batch_size} a batch", {},
                    options)

    found = []
    kinds = {"count": list(COUNTS), "kind": list(KINDS), "world": (4, 2, 3, 8, 1), "batch_size": (8, 4, 16, 2)}
    for pick in [pick for _ in range(_TIMES) for pick in covering(rng, **kinds)]:
        world, batch_size = pick["world"], pick["batch_size"]
        found.append(case(pick["count"], pick["kind"], COUNTS[pick["count"]](rng, world * batch_size), world, batch_size))
    found.append(case("one too many", "sentences", 8 * 16 * 4 + 1, 4, 8))
    first = found[-1].options
    found.append(case("as many again", "no two alike", 8 * 16 * 4 + 1, 4, 8, first["epochs"][0]))
    found[-1].options["others"] = first["lengths"]
    found.append(case("batches that are steps", "sentences", 14 * 16, 1, 16))
    found.append(case("one for each rank", "sentences", 4, 4, 8))
    found.append(case("fewer samples than ranks", "sentences", 3, 4, 8))
    found.append(case("no samples", "sentences", 0, 4, 8))
    return found


_WHY = {
    AGREE: (None, "Each rank calls the function in its own process. There the random numbers are others, and so are its "
                  "rank, `os.getpid()` and the `hash` of a text. Draw from your own generator with the epoch as its seed, "
                  "or some samples come twice and others never."),
    judged.NUMBER: (None, "The rank with fewer batches ends its epoch early, and the others wait in the next all-reduce "
                          "forever. Fix the number of steps first, and give each step a batch for each rank."),
    judged.STEPS: (None, "Each step costs its launches and an all-reduce. samples ÷ (world × batch_size) steps, rounded "
                         "up, are enough."),
    judged.EACH: (None, "Do not lose or double any sample. Spread samples that fill no step over the steps, which may be "
                        "smaller than batch_size."),
    judged.ROWS: (None, "A batch holds at least one sample and at most batch_size. Cut the samples into steps of nearly "
                        "one size, so that none is left over."),
    judged.EVEN: (None, "DDP takes the mean of the ranks' gradients. If a rank has two samples and another eight, each "
                        "of the two counts four times as much. Assign each step's samples to the ranks in turn."),
    judged.WORK: (None, "In each step all ranks wait for the one with the most to pad and compute. Put samples of "
                        "similar length into one step (sort by length), and divide *that step* among the ranks."),
    judged.MEET: (judged.SAME_COMPANY, "Most pairs of a batch's samples are together again in a later epoch, so "
                                       "their gradient is always the same mixture. At most 60 % may be. Blur the "
                                       "lengths (more) before you sort, with new random numbers in each epoch."),
    judged.ORDER: (judged.BY_LENGTH, "From the shortest to the longest, or back, is not a random order: the network sees "
                                     "all short samples in a row. Shuffle the steps, in the same way on all ranks."),
}


def explain_dealing(case: Case, found, wanted) -> str | None:
    """Why batches are wrong that no known mistake gives."""
    if wanted == RAISED or found == RAISED:
        return ("With fewer samples than ranks some rank has no batch, and you may not double a sample. Raise a "
                "ValueError that says so, on all ranks." if wanted == RAISED else
                "There are enough samples for all ranks here: do not raise an error.")
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return None
    wrong = [name for name in wanted if found.get(name) != wanted[name]]
    if GLOBAL in wrong[:1]:
        what = "seeded" if found[GLOBAL] == SEEDED else "drawn from"
        return (f"The process's own random numbers were {what}. Dropout and augmentation use them too, and would be the "
                "same on all ranks, or in every epoch. Use your own generator: `random.Random(epoch)`, "
                "`torch.Generator().manual_seed(epoch)`.")
    if AGREE in wrong[:1] and found[AGREE] == NOT_AGAIN:
        return ("The same call returns other batches the second time. So the answer depends on earlier calls or on the "
                "time. In each call make a generator with the epoch as its seed, such as `random.Random(epoch)`.")
    if judged.ORDER in wrong[:1] and found[judged.ORDER] == judged.MOSTLY:
        return ("In most epochs the steps with short samples come first, or those with long ones. Shuffle *all* steps "
                "together, in the same way on all ranks.")
    if judged.ORDER in wrong[:1] and found[judged.ORDER] == judged.SAME_ORDER:
        return ("The steps come in the same order again in a later epoch: shuffle them, with the epoch itself in the seed.")
    return next((_WHY[name][1] for name in wrong if name in _WHY), None)
