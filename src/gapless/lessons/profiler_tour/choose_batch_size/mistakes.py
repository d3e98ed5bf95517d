"""Lesson 01: the usual wrong versions of ``choose_batch_size``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.mistakes import Mistake
from .right import ENOUGH


def _fits(measure, candidates) -> dict:
    """Batch → what was measured, of those that fit, in the candidates' order."""
    found = {}
    for batch in candidates:
        try:
            found[batch] = measure(batch)
        except torch.OutOfMemoryError:
            continue
    return found


def _choice(rule: Callable[[dict[int, float], dict], object], *, in_order=False, until_full=False, known=False) -> Callable:
    """``rule(speeds, measured)``: of batch → samples a ms, and of batch → what was measured; by batch, or in the candidates'
    order."""

    def choose_batch_size(measure, candidates):
        order = list(candidates) if in_order else sorted(candidates)
        found = {}
        for batch in order:
            measured = _fits(measure, [batch])
            if until_full and not measured:
                break
            found.update(measured)
        return rule({batch: batch / each.step_ms for batch, each in found.items()}, found)

    return choose_batch_size


def _near(values: dict[int, float], share=ENOUGH) -> list[int]:
    return [batch for batch, value in values.items() if value >= share * max(values.values())]


def _above(speeds: dict[int, float], best: float) -> list[int]:
    return [batch for batch, speed in speeds.items() if speed >= ENOUGH * best]


def _utilization(found: dict) -> dict[int, float]:
    return {batch: each.gpu_utilization for batch, each in found.items()}


def _until_gain_ends(speeds: dict[int, float], _found) -> int:
    batches = list(speeds)
    for batch, following in zip(batches, batches[1:]):
        if speeds[batch] >= ENOUGH * speeds[following]:
            return batch
    return batches[-1]


def _shortest(found: dict) -> int:
    return min(found, key=lambda batch: found[batch].step_ms)


def _cheapest_sample(speeds: dict[int, float], found: dict) -> int:
    return min(found, key=lambda batch: found[batch].step_ms / batch)


def _down_from_the_largest(speeds: dict[int, float], _found) -> int:
    chosen = max(speeds)
    for batch in sorted(speeds, reverse=True):
        if speeds[batch] < ENOUGH * max(speeds.values()):
            break
        chosen = batch
    return chosen


def _running_best(speeds: dict[int, float], _found) -> int:
    chosen, best = None, 0.0
    for batch, speed in speeds.items():
        if speed > best / ENOUGH:
            chosen, best = batch, speed
    return chosen


def _smallest_so_far(speeds: dict[int, float], _found) -> int:
    batches = list(speeds)
    return min(batch for place, batch in enumerate(batches)
               if speeds[batch] >= ENOUGH * max(speeds[other] for other in batches[:place + 1]))


def _whole(speeds: dict[int, float], found: dict) -> int:
    return min(_near({batch: batch // each.step_ms for batch, each in found.items()}))


def _until_it_falls(speeds: dict[int, float], _found) -> int:
    batches = list(speeds)
    for batch, following in zip(batches, batches[1:]):
        if speeds[following] < speeds[batch]:
            return batch
    return batches[-1]


def _before_the_best(speeds: dict[int, float], _found) -> int:
    best = max(speeds, key=speeds.get)
    return max((batch for batch in speeds if batch < best), default=best)


def _step_as_short(speeds: dict[int, float], found: dict) -> int:
    best = max(speeds, key=speeds.get)
    return min(batch for batch in found if found[batch].step_ms <= found[best].step_ms / ENOUGH)


_RUNNING = ("Each batch was compared with the best *so far*: what is best is known only once all are measured. Collect "
            "first, then choose.")
_BEST = "It is the fastest, but a smaller batch reaches 95 % of its throughput already: return the smallest that does."
_UTILIZATION = ("Your function chooses by the GPU utilisation, which is not what you pay for: compare samples by time, "
                "`batch / step_ms`.")
_MEMORY = ("The search ended at the first batch that does not fit. The candidates come in any order: leave that one out "
           "and go on (`continue`).")
_ORDER = ("The first candidate that is near enough was taken; they come in any order. Return the smallest: sort them, or "
          "take `min`.")
BATCHES = (
    Mistake(_choice(lambda speeds, found: max(_utilization(found), key=_utilization(found).get), in_order=True),
            f"It has the highest GPU utilisation. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: max(speeds, key=speeds.get)), _BEST),
    Mistake(_choice(_cheapest_sample), _BEST),
    Mistake(_choice(lambda speeds, found: max(found)),
            "It is the largest that fits: return the smallest batch that reaches 95 % of the best throughput."),
    Mistake(_choice(lambda speeds, found: max(_near(speeds))),
            "That is the largest batch that is fast enough: return the smallest."),
    Mistake(_choice(_until_gain_ends),
            "Each batch was compared with the next larger one. Many small gains add up: compare with the best of all."),
    Mistake(_choice(lambda speeds, found: _until_gain_ends(dict(sorted(speeds.items(), reverse=True)), None)),
            "Each batch was compared with its neighbour: compare with the best of all."),
    Mistake(_choice(lambda speeds, found: _near(speeds)[0], in_order=True), _ORDER),
    Mistake(_choice(lambda speeds, found: min(_near(speeds)), in_order=True, until_full=True), _MEMORY),
    Mistake(_choice(lambda speeds, found: min(_near(_utilization(found)))),
            f"It is the smallest with 95 % of the best GPU utilisation. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(
        (batch for batch, share in _utilization(found).items() if share >= ENOUGH), default=None)),
            f"It is the smallest with a GPU utilisation of 95 %. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 1 - ENOUGH))),
            "You took 5 % of the best throughput: take 95 %."),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 0.9))), "You took 90 % of the best throughput: take 95 %."),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 0.99))), "You took 99 % of the best throughput: take 95 %."),
    Mistake(_choice(lambda speeds, found: _shortest(found)),
            "It has the shortest step, which is nearly always that of the smallest batch. Throughput is samples by time: "
            "`batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: max(found, key=lambda batch: found[batch].step_ms)),
            "It has the longest step. Throughput is samples by time: `batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: min(b for b, each in found.items() if each.step_ms <= min(
        other.step_ms for other in found.values()) / ENOUGH)),
            "Your function chooses by the step's time, which grows with the batch. Throughput is samples by time: "
            "`batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: min(found)),
            "It is the smallest that fits: it has to reach 95 % of the best throughput as well."),
    Mistake(_choice(lambda speeds, found: min(speeds, key=speeds.get)),
            "It is the slowest a sample: throughput is `batch / step_ms`, and the largest is the best."),
    Mistake(_choice(lambda speeds, found: min([batch for batch in speeds if speeds[batch] > ENOUGH * speeds[max(speeds)]])),
            "It was compared with the throughput of the largest batch, which may not be the best."),
    Mistake(_choice(lambda speeds, found: min(b for b, each in found.items() if each.step_ms / b >= ENOUGH * max(
        other.step_ms / batch for batch, other in found.items()))),
            "`step_ms / batch` is the time of a sample, and the *smallest* is best. Throughput is the other way round."),
    Mistake(_choice(_down_from_the_largest),
            "The search went down from the largest and ended at the first that is too slow: a smaller one may be fast "
            "enough again. Look at all."),
    Mistake(_choice(_running_best, in_order=True), _RUNNING),
    Mistake(_choice(_running_best), _RUNNING),
    Mistake(_choice(_smallest_so_far, in_order=True), _RUNNING),
    Mistake(_choice(_until_it_falls),
            "The search went up and ended where the throughput fell for the first time: a larger batch may be faster "
            "again, and a smaller one near enough. Look at all."),
    Mistake(_choice(_before_the_best),
            "It is the next smaller one than the fastest. Return the smallest whose throughput is at least 95 % of the "
            "best."),
    Mistake(_choice(_step_as_short),
            "The steps' times were compared. A smaller batch has a shorter step and trains on fewer samples: compare "
            "`batch / step_ms`."),
    Mistake(_choice(_whole), "`//` throws away what is behind the point: divide with `/`."),
    Mistake(_choice(lambda speeds, found: min(_near({b: speeds[b] * found[b].gpu_utilization for b in speeds}))),
            f"The throughput was multiplied by the GPU utilisation, which is in it already. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(_above(speeds, sum(speeds.values()) / len(speeds)))),
            "It was compared with the *mean* throughput: compare with 95 % of the best."),
    Mistake(_choice(lambda speeds, found: min(_above(speeds, sorted(speeds.values())[len(speeds) // 2]))),
            "It was compared with the median throughput: compare with 95 % of the best."),
    Mistake(_choice(lambda speeds, found: min(speeds, key=lambda batch: abs(speeds[batch] - ENOUGH * max(speeds.values())))),
            "It is the batch whose throughput is nearest to 95 %: return the smallest with at least that much."),
    Mistake(_choice(lambda speeds, found: sorted(speeds)[len(speeds) // 2]),
            "It is the batch in the middle: compare the throughputs."),
    Mistake(_choice(lambda speeds, found: max(speeds.values())), "That is the throughput: return the batch."),
    Mistake(_choice(lambda speeds, found: _near(speeds)), "Those are all that are fast enough: return the smallest, a "
                                                          "number."),
    Mistake(_choice(lambda speeds, found: next(iter(speeds)), in_order=True), "It is the first candidate that fits."),
)
