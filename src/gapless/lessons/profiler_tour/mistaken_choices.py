"""The batch size and the cause of idleness as learners get them wrong: the rule by which something is chosen."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.mistakes import Mistake
from ...evidence.trace import Trace
from .disturbances import BLOCKS, OCCUPANCY
from .mistaken_shares import gpu_utilization, kernels_of, sm_efficiency
from .right import ENOUGH, WORK, right_why_idle, steps_of, steps_time
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS

# -- the batch size -----------------------------------------------------------------------------------


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
_UTILIZATION = "It goes by the GPU utilisation, which is not what you pay for: compare samples by time, `batch / step_ms`."
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
    Mistake(_choice(_until_gain_ends),
            "Each batch was compared with the next larger one. Many small gains add up: compare with the best of all."),
    Mistake(_choice(lambda speeds, found: _until_gain_ends(dict(sorted(speeds.items(), reverse=True)), None)),
            "Each batch was compared with its neighbour: compare with the best of all."),
    Mistake(_choice(lambda speeds, found: _near(speeds)[0], in_order=True), _ORDER),
    Mistake(_choice(lambda speeds, found: min(_near(speeds)), in_order=True, until_full=True), _MEMORY),
    Mistake(_choice(lambda speeds, found: max(_near(speeds))),
            "That is the largest batch that is fast enough: return the smallest."),
    Mistake(_choice(lambda speeds, found: min(_near(_utilization(found)))),
            f"It is the smallest with 95 % of the best GPU utilisation. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(
        (batch for batch, share in _utilization(found).items() if share >= ENOUGH), default=None)),
            f"It is the smallest with a GPU utilisation of 95 %. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 1 - ENOUGH))),
            "5 % of the best throughput was asked for: 95 % are wanted."),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 0.9))), "90 % of the best throughput was asked for: 95 % are "
                                                                    "wanted."),
    Mistake(_choice(lambda speeds, found: min(_near(speeds, 0.99))), "99 % of the best throughput was asked for: 95 % are "
                                                                     "wanted."),
    Mistake(_choice(lambda speeds, found: _shortest(found)),
            "It has the shortest step, which is nearly always that of the smallest batch. Throughput is samples by time: "
            "`batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: max(found, key=lambda batch: found[batch].step_ms)),
            "It has the longest step. Throughput is samples by time: `batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: min(b for b, each in found.items() if each.step_ms <= min(
        other.step_ms for other in found.values()) / ENOUGH)),
            "It goes by the step's time, which grows with the batch. Throughput is samples by time: `batch / step_ms`."),
    Mistake(_choice(lambda speeds, found: min(found)),
            "It is the smallest that fits: it has to reach 95 % of the best throughput as well."),
    Mistake(_choice(lambda speeds, found: min(speeds, key=speeds.get)),
            "It is the slowest a sample: throughput is `batch / step_ms`, and the largest is the best."),
    Mistake(_choice(lambda speeds, found: min([batch for batch in speeds if speeds[batch] > ENOUGH * speeds[max(speeds)]])),
            "It was compared with the throughput of the largest batch, which need not be the best."),
    Mistake(_choice(lambda speeds, found: min(b for b, each in found.items() if each.step_ms / b >= ENOUGH * max(
        other.step_ms / batch for batch, other in found.items()))),
            "`step_ms / batch` is the time of a sample, and the *smallest* is best. Throughput is the other way round."),
    Mistake(_choice(_down_from_the_largest),
            "The search went down from the largest and ended at the first that is too slow: a smaller one may be fast "
            "enough again. Look at all."),
    Mistake(_choice(_running_best, in_order=True), _RUNNING),
    Mistake(_choice(_running_best), _RUNNING),
    Mistake(_choice(_until_it_falls),
            "The search went up and ended where the throughput fell for the first time: a larger batch may be faster "
            "again, and a smaller one near enough. Look at all."),
    Mistake(_choice(_before_the_best),
            "It is the next smaller one than the fastest, whatever its throughput: the smallest with 95 % of the best is "
            "wanted."),
    Mistake(_choice(_step_as_short),
            "The steps' times were compared. A smaller batch has a shorter step and trains on fewer samples: compare "
            "`batch / step_ms`."),
    Mistake(_choice(_whole), "`//` throws away what is behind the point: divide with `/`."),
    Mistake(_choice(lambda speeds, found: min(_near({b: speeds[b] * found[b].gpu_utilization for b in speeds}))),
            f"The throughput was multiplied by the GPU utilisation, which is in it already. {_UTILIZATION}"),
    Mistake(_choice(lambda speeds, found: min(_above(speeds, sum(speeds.values()) / len(speeds)))),
            "It was compared with the *mean* throughput: 95 % of the best is wanted."),
    Mistake(_choice(lambda speeds, found: min(_above(speeds, sorted(speeds.values())[len(speeds) // 2]))),
            "It was compared with the median throughput: 95 % of the best is wanted."),
    Mistake(_choice(lambda speeds, found: min(speeds, key=lambda batch: abs(speeds[batch] - ENOUGH * max(speeds.values())))),
            "It is the batch whose throughput is nearest to 95 %: the smallest with at least that much is wanted."),
    Mistake(_choice(lambda speeds, found: sorted(speeds)[len(speeds) // 2]),
            "It is the batch in the middle: compare the throughputs."),
    Mistake(_choice(lambda speeds, found: max(speeds.values())), "That is the throughput: return the batch."),
    Mistake(_choice(lambda speeds, found: _near(speeds)), "Those are all that are fast enough: return the smallest, a "
                                                          "number."),
    Mistake(_choice(lambda speeds, found: next(iter(speeds)), in_order=True), "It is the first candidate that fits."),
)

# -- the cause ----------------------------------------------------------------------------------------

_LOADER = ("A slow loader shows in what the host does: for most of the steps' time it is in no operator that launches "
           "anything.")
_LABEL = ("The label `enumerate(DataLoader)…` is no evidence, every loop over a `DataLoader` has it. How long the host "
          "launches nothing is.")
_THRESHOLD = "A limit in µs fits one card at most: compare with the steps' time."


def _launches(trace: Trace, exact=False) -> list:
    calls = [s for s in trace.spans if s.category == "runtime"]
    return [s for s in calls if (s.name == "cudaLaunchKernel" if exact else "aunch" in s.name)]


def _launching(trace: Trace, *, threads=True, any_operator=False, ends="open", exact=False, leaves=False) -> float:
    """The share of the steps' time in which the host is in an operator that launches."""
    start, end = steps_time(trace)
    calls, us, reached = _launches(trace, exact), 0.0, float("-inf")

    def inside(op, call) -> bool:
        last = op.end_us if ends == "open" else op.end_us + 1e-9
        return op.start_us <= call.start_us < last and (not threads or op.thread == call.thread)

    for op in trace.spans:
        if op.category == "op" and op.end_us > reached and (any_operator or any(inside(op, call) for call in calls)):
            us += op.end_us - max(op.start_us, reached)
            reached = op.end_us
    return us / (end - start)


def _fills(trace: Trace) -> float:
    told = [(s.end_us - s.start_us, min(s.args.get(BLOCKS, 0), 1)) for s in kernels_of(trace)]
    return sum(us * blocks for us, blocks in told) / sum(us for us, _ in told)


def _cause(loader: Callable[[Trace], bool], small: Callable[[Trace], bool] = lambda trace: _fills(trace) < 0.5, *,
           small_first=False) -> Callable[[Trace], str]:
    """The answer from two questions: is it the loader, and are the kernels too small for the card?"""

    def why_idle(trace):
        if small_first and small(trace):
            return SMALL_BATCH
        if loader(trace):
            return SLOW_LOADER
        return SMALL_BATCH if small(trace) else SMALL_KERNELS

    return why_idle


def _is_loader(trace: Trace) -> bool:
    return right_why_idle(trace) == SLOW_LOADER


def _mean_us(trace: Trace) -> float:
    kernels = kernels_of(trace)
    return sum(k.end_us - k.start_us for k in kernels) / len(kernels)


def _by_duration(limit: float) -> Callable[[Trace], str]:
    return lambda trace: SMALL_KERNELS if _mean_us(trace) < limit else SLOW_LOADER


def _time_of(trace: Trace, category: str) -> float:
    return sum(span.end_us - span.start_us for span in trace.spans if span.category == category)


def _mean_occupancy(trace: Trace) -> float:
    kernels = kernels_of(trace)
    return sum(k.args.get(OCCUPANCY, 0) * k.duration_ms for k in kernels) / sum(k.duration_ms for k in kernels)


def _calls_share(trace: Trace) -> float:
    start, end = steps_time(trace)
    return sum(s.end_us - s.start_us for s in trace.spans if s.category == "runtime") / (end - start)


def _kernels_a_step(trace: Trace) -> float:
    return len(kernels_of(trace)) / len(steps_of(trace))


def _longest_gap_us(trace: Trace) -> float:
    work = [s for s in trace.spans if s.category in WORK]
    gaps, reached = [0.0], work[0].end_us
    for span in work:
        gaps.append(span.start_us - reached)
        reached = max(reached, span.end_us)
    return max(gaps)


def _by_label(trace: Trace) -> bool:
    return any(span.name.startswith("enumerate(DataLoader)") for span in trace.spans)


def _label_share(trace: Trace) -> bool:
    labelled = sum(s.end_us - s.start_us for s in trace.spans if s.name.startswith("enumerate(DataLoader)"))
    return labelled > 0.5 * sum(step.end_us - step.start_us for step in steps_of(trace))


def _other(answers: dict[str, str]) -> Callable[[Trace], str]:
    return lambda trace: answers[right_why_idle(trace)]


_SWAPPED = {SMALL_BATCH: SMALL_KERNELS, SMALL_KERNELS: SMALL_BATCH, SLOW_LOADER: SLOW_LOADER}
_ANY = ("An operator that launches nothing (`aten::stack` of a loader) is no work for the GPU: only operators with a "
        "launch count.")
_FULL = ("Between the two others it is the blocks that tell: the mean of `min(1, blocks per SM)`, weighted by duration. "
         "Below one half the card is not filled, so the batch is small.")
_FIRST = "Ask for the loader first: a program that waits for its data may have a small batch too."

IDLE = (
    Mistake(_by_duration(20), f"It goes by the kernels' mean duration alone. {_LOADER}"),
    Mistake(_cause(_by_label), _LABEL),
    Mistake(_cause(lambda trace: _launching(trace, any_operator=True) < 0.5), _ANY),
    Mistake(_cause(lambda trace: _launching(trace, threads=False) < 0.5),
            "An operator of another thread is around these launches in time and has nothing to do with them: compare "
            "`op.thread` with `call.thread`."),
    Mistake(_cause(lambda trace: _launching(trace, ends="closed") < 0.5),
            "A launch at the very end of an operator is no longer inside it: `op.start_us <= call.start_us < op.end_us`."),
    Mistake(_cause(lambda trace: _launching(trace, exact=True) < 0.5),
            "A launch need not be called `cudaLaunchKernel`: look for `Launch` in the call's name."),
    Mistake(_cause(_is_loader, small_first=True), _FIRST),
    Mistake(_other(_SWAPPED), f"Small batch and many small kernels are the wrong way round. {_FULL}"),
    Mistake(_cause(lambda trace: False), f"It never says that it is the loader. {_LOADER}"),
    Mistake(_cause(lambda trace: gpu_utilization(trace) < 0.5), "A low GPU utilisation may have any of the causes. "
                                                                f"{_LOADER}"),
    Mistake(_cause(lambda trace: gpu_utilization(trace) < 0.3), "A low GPU utilisation may have any of the causes. "
                                                                f"{_LOADER}"),
    Mistake(_cause(_is_loader, lambda trace: sm_efficiency(trace) < 0.5),
            "SM efficiency counts idle time as 0, and the GPU is idle in all three: look at the blocks per SM *while a "
            "kernel runs*, SM efficiency by utilisation."),
    Mistake(_cause(lambda trace: not _is_loader(trace)),
            f"The first question is the wrong way round: it says loader where the host launches. {_LOADER}"),
    Mistake(_other({SMALL_BATCH: SLOW_LOADER, SMALL_KERNELS: SLOW_LOADER, SLOW_LOADER: SMALL_BATCH}),
            f"The first question is the wrong way round: it says loader where the host launches. {_LOADER}"),
    Mistake(_cause(lambda trace: any("stack" in span.name for span in trace.spans)),
            "That an operator of the loader is there says nothing: each program makes batches. How long it takes does. "
            f"{_LOADER}"),
    Mistake(_cause(lambda trace: _time_of(trace, "memcpy") > _time_of(trace, "kernel")),
            f"The time of copies is the GPU's, and says nothing of how long the host reads and decodes. {_LOADER}"),
    *(Mistake(_cause(lambda trace: False, lambda trace, which=which: which(
        span.args.get(BLOCKS, 0) for span in kernels_of(trace)) < 1),
              f"It never says that it is the loader, and one kernel does not speak for all. {_LOADER} {_FULL}")
      for which in (min, max)),
    Mistake(_cause(_is_loader, lambda trace: _fills(trace) >= 0.5), "Small batch and many small kernels are swapped. "
                                                                    f"{_FULL}"),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_occupancy(trace) < limit),
              "Small batch and many small kernels were told apart by the occupancy, which says how full an SM is, and not "
              f"how many have a block. {_FULL}") for limit in (15, 30, 50)),
    *(Mistake(_cause(lambda trace, limit=limit: _calls_share(trace) < limit),
              "It goes by the time in runtime calls: between two launches of an operator the host works too. Ask how long "
              "it is inside operators that contain a launch.") for limit in (0.5, 0.3)),
    *(Mistake(lambda trace, one=one, other=other, limit=limit: one if _kernels_a_step(trace) > limit else other,
              f"It goes by the number of kernels, which says nothing of their size or of the host. {_LOADER} {_FULL}")
      for limit in (20, 30, 40, 50) for one, other in ((SMALL_KERNELS, SMALL_BATCH), (SMALL_KERNELS, SLOW_LOADER))),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_us(trace) >= limit),
              f"Small batch and many small kernels were told apart by the kernels' duration. {_FULL} {_THRESHOLD}")
      for limit in (5, 10, 20, 50)),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_us(trace) < limit),
              f"Small batch and many small kernels were told apart by the kernels' duration. {_FULL} {_THRESHOLD}")
      for limit in (5, 10, 20, 50)),
    *(Mistake(_cause(lambda trace, limit=limit: _longest_gap_us(trace) > limit),
              f"It goes by the longest gap in µs. {_THRESHOLD} {_LOADER}") for limit in (50, 100, 200, 500, 1000, 5000)),
    Mistake(_cause(_label_share),
            "How long the label `enumerate(DataLoader)…` lasts is near the mark, but not every loader has it. What the "
            "host launches tells in each trace."),
    Mistake(lambda trace: SMALL_KERNELS, f"It is always the same answer. {_LOADER} {_FULL}"),
    Mistake(lambda trace: SLOW_LOADER, f"It is always the same answer. {_LOADER} {_FULL}"),
    Mistake(lambda trace: SMALL_BATCH, f"It is always the same answer. {_LOADER} {_FULL}"),
)
