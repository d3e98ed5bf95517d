"""Lesson 09: whether batches are assigned as asked, in words. On the judge's side."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ....course.evidence import Case
from .stage import BATCHES

NUMBER, STEPS, EACH = "number of batches", "number of steps", "each sample"
ROWS, EVEN, WORK = "samples of a batch", "samples of a step", "tokens that the slowest ranks pad to"
MEET, ORDER = "who is in a batch with whom", "order of the steps"
ALIKE, FEW, ONCE = "the same on each rank", "few enough", "is in one batch, once"
AS_MANY, NEAR_LEAST = "as many on each rank, or one more", "near the least"
CHANGES, NOT_BY_LENGTH = "changes from epoch to epoch", "changes from epoch to epoch, and does not follow the length"
SAME_COMPANY, SAME_ORDER, BY_LENGTH = "the same again in another epoch", "the same again in another epoch", "by length"
MOSTLY = "mostly short samples first, or long ones"
RAISED_NOTHING = "no error"
_MOST_WORK = 1.2  # times what sorting without any chance gives, and one step of the longest samples besides
_MOST_COMPANY = 0.6  # of the pairs that a batch joins, those that another epoch's join again
_MOST_COMPANY_ALONE = 0.8  # where a batch is a whole step, as with one rank: there neighbours change least
_ENOUGH_SAMPLES, _ENOUGH_STEPS = 16, 12  # of a step, of an epoch: with less, chance may tell the same twice
_MOST_CORRELATION = 0.95
_MOST_TREND = 0.6  # of the length with the place, the mean over the epochs: by chance it is 0.4


def seen(case: Case, plain, notes):
    """What the check compares: what :func:`.dealing.ask_make_batches` returns, its batches judged."""
    if not isinstance(plain, dict) or BATCHES not in plain:
        return plain
    options = case.options
    if len(options["lengths"]) < options["world"]:
        return RAISED_NOTHING
    lengths, world, size = options["lengths"], options["world"], options["batch_size"]
    epochs = plain[BATCHES]
    found = {NUMBER: ALIKE, STEPS: FEW, EACH: ONCE, ROWS: f"1 to {size}", EVEN: AS_MANY, WORK: NEAR_LEAST, MEET: CHANGES,
             ORDER: NOT_BY_LENGTH}
    for batches in epochs:
        for name, fault in _faults(batches, lengths, world, size).items():
            found[name] = fault
    if all(found[name] == right for name, right in ((NUMBER, ALIKE), (EACH, ONCE))):
        found[MEET] = _company(epochs)
        found[ORDER] = _order(epochs, lengths)
    return {**{name: value for name, value in plain.items() if name != BATCHES}, **found}


def _faults(batches: list[list[list[int]]], lengths: list[int], world: int, size: int) -> dict[str, str]:
    """What is wrong in one epoch."""
    found = {}
    counts = [len(of_rank) for of_rank in batches]
    if min(counts) != max(counts):
        found[NUMBER] = f"{min(counts)} on one rank, {max(counts)} on another"
    least = -(-len(lengths) // (world * size))
    if max(counts) > least:
        found[STEPS] = f"{max(counts)}, where {least} {'is' if least == 1 else 'are'} enough"
    places = [place for of_rank in batches for batch in of_rank for place in batch]
    if any(not 0 <= place < len(lengths) for place in places):
        return {**found, EACH: "is a place in `lengths`, and some are not"}
    times = np.bincount(places, minlength=len(lengths)) if places else np.zeros(len(lengths), dtype=int)
    if (times != 1).any():
        lost, twice = int((times == 0).sum()), int((times > 1).sum())
        found[EACH] = " and ".join(words for words in (f"{lost} in no batch" if lost else "",
                                                       f"{twice} more than once" if twice else "") if words)
    rows = [len(batch) for of_rank in batches for batch in of_rank]
    if rows and not min(rows):
        found[ROWS] = "none in some"
    elif rows and max(rows) > size:
        found[ROWS] = f"up to {max(rows)}"
    steps = list(zip(*batches))
    uneven = [step for step in steps if max(map(len, step)) - min(map(len, step)) > 1]
    if uneven:
        found[EVEN] = f"{min(map(len, uneven[0]))} on one rank, {max(map(len, uneven[0]))} on another"
    least_work, own = paced_tokens(sorted_steps(lengths, world, size), lengths), paced_tokens(steps, lengths)
    one_step = -(-len(lengths) // (world * least)) * max(lengths)
    if own > _MOST_WORK * least_work + one_step and EACH not in found:
        found[WORK] = f"{own / least_work:.1f} times the least"
    return found


def paced_tokens(steps: list[list[list[int]]], lengths: list[int]) -> int:
    """The sum over the steps of what the rank with most to do has: its samples, each padded to its batch's longest. In a
    step all ranks wait for that one. ``steps``: of each step, the batch of each rank."""
    return sum(max(len(batch) * max((lengths[place] for place in batch), default=0) for batch in step) for step in steps)


def sorted_steps(lengths: list[int], world: int, size: int) -> list[list[list[int]]]:
    """The steps where samples are sorted by length, cut into as few steps as may be, and assigned in turn."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    count = -(-len(order) // (world * size))
    cuts = [len(order) * step // count for step in range(count + 1)]
    return [[order[start:end][rank::world] for rank in range(world)] for start, end in zip(cuts, cuts[1:])]


def _pairs(batches: list[list[list[int]]]) -> set[tuple[int, int]]:
    return {pair for of_rank in batches for batch in of_rank for pair in combinations(sorted(batch), 2)}


def _company(epochs: list) -> str:
    steps = list(zip(*epochs[0]))
    if len(steps) < _ENOUGH_STEPS or sum(map(len, steps[0])) < _ENOUGH_SAMPLES:
        return CHANGES
    most = _MOST_COMPANY if len(steps[0]) > 1 else _MOST_COMPANY_ALONE
    pairs = [_pairs(batches) for batches in epochs]
    for one, other in combinations(pairs, 2):
        if len(one & other) > most * len(one):
            return SAME_COMPANY
    return CHANGES


def _order(epochs: list, lengths: list[int]) -> str:
    longest = [[max(lengths[place] for batch in step for place in batch) for step in zip(*batches)] for batches in epochs]
    if len(longest[0]) < _ENOUGH_STEPS or any(min(each) == max(each) for each in longest):
        return NOT_BY_LENGTH
    trends = [abs(_correlation(each, range(len(each)))) for each in longest]
    if max(trends) > _MOST_CORRELATION:
        return BY_LENGTH
    if any(_correlation(*pair) > _MOST_CORRELATION for pair in combinations(longest, 2)):
        return SAME_ORDER
    return MOSTLY if np.mean(trends) > _MOST_TREND else NOT_BY_LENGTH


def _correlation(one, other) -> float:
    """Spearman's: of the ranks of the two sequences."""
    ranks = [np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])
