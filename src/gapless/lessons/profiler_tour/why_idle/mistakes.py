"""Lesson 01: the usual wrong versions of ``why_idle``, and what to say of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean

from ....course.mistakes import Mistake
from ....evidence.traces.trace import Trace
from ..disturbances import BLOCKS, OCCUPANCY
from ..mistakes import gpu_utilization, kernels_of, sm_efficiency
from ..right import WORK, steps_of, steps_time
from .right import right_why_idle
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS

_LOADER = ("A slow loader shows in what the host does: for most of the steps' time it is in no operator that launches "
           "anything.")
_LABEL = ("The label `enumerate(DataLoader)…` is not evidence, every loop over a `DataLoader` has it. How long the host "
          "launches nothing is.")
_THRESHOLD = "A limit in µs fits one card at most: compare with the steps' time."


def _launches(trace: Trace, exact=False) -> list:
    calls = [s for s in trace.spans if s.category == "runtime"]
    return [s for s in calls if (s.name == "cudaLaunchKernel" if exact else "aunch" in s.name)]


def _launching(trace: Trace, *, threads=True, any_operator=False, ends="open", exact=False, step: int | None = None,
               since: float | None = None) -> float:
    """The share of the steps' time, or of one step's, in which the host is in an operator that launches."""
    start, end = steps_time(trace)
    calls, us, reached = _launches(trace, exact), 0.0, float("-inf")
    if step is not None:
        start = reached = steps_of(trace)[step].start_us
        end = steps_of(trace)[step].end_us
    start = start if since is None else since

    def inside(op, call) -> bool:
        if ends == "of the call":
            return op.start_us <= call.start_us and call.end_us <= op.end_us and op.thread == call.thread
        last = op.end_us if ends == "open" else op.end_us + 1e-9
        return op.start_us <= call.start_us < last and (not threads or op.thread == call.thread)

    for op in trace.spans:
        if op.category != "op" or op.end_us <= reached or op.start_us >= end:
            continue
        if any_operator or any(inside(op, call) for call in calls):
            us += op.end_us - max(op.start_us, reached)
            reached = op.end_us
    return us / (end - start)


def _fills(trace: Trace, most: float = 1) -> float:
    told = [(s.end_us - s.start_us, min(s.args.get(BLOCKS, 0), most)) for s in kernels_of(trace)]
    return sum(us * blocks for us, blocks in told) / sum(us for us, _ in told)


def _fills_of_step(trace: Trace, step: int) -> float:
    """Of as many kernels, from the first or to the last, as a step has on average."""
    kernels = kernels_of(trace)
    each = len(kernels) // len(steps_of(trace))
    some = kernels[:each] if step == 0 else kernels[-each:]
    told = [(s.end_us - s.start_us, min(s.args.get(BLOCKS, 0), 1)) for s in some]
    return sum(us * blocks for us, blocks in told) / sum(us for us, _ in told)


def _plain_fill(trace: Trace) -> float:
    return mean(min(s.args.get(BLOCKS, 0), 1) for s in kernels_of(trace))


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
_ANY = ("An operator that launches nothing (`aten::stack` of a loader) gives the GPU no work: only operators with a "
        "launch count.")
_FULL = ("Between the two others the blocks decide: the mean of `min(1, blocks per SM)`, weighted by duration. Below "
         "one half the card is not filled, so the batch is small.")
_FIRST = "Ask for the loader first: a program that waits for its data may have a small batch too."
_ONE_STEP = ("A step was judged by itself: a loader may have its batch ready for one, and not for the others. Take the "
             "share of all steps together.")
_ALL_KERNELS = ("Every kernel counts, by its duration: not one kernel, and not a plain mean or median, where one of 2 µs "
                f"counts as much as one of 2 ms. {_FULL}")
IDLE = (
    Mistake(_by_duration(20), f"Your function chooses by the kernels' mean duration alone. {_LOADER}"),
    *(Mistake(_cause(lambda trace, step=step: _launching(trace, step=step) < 0.5), _ONE_STEP) for step in (0, -1)),
    Mistake(_cause(lambda trace: all(_launching(trace, step=i) < 0.5 for i in range(len(steps_of(trace))))), _ONE_STEP),
    Mistake(_cause(lambda trace: any(_launching(trace, step=i) < 0.5 for i in range(len(steps_of(trace))))), _ONE_STEP),
    Mistake(_cause(lambda trace: sum(_launching(trace, step=i) < 0.5 for i in range(len(steps_of(trace))))
                   > len(steps_of(trace)) / 2), _ONE_STEP),
    *(Mistake(_cause(_is_loader, lambda trace, step=step: _fills_of_step(trace, step) < 0.5), (
        "How much of the card is filled was taken from one step. Take the kernels of all steps, by their duration."))
      for step in (0, -1)),
    Mistake(_cause(lambda trace: _launching(trace, since=0.0) < 0.5),
            "A trace's clock does not begin with the first step: the steps' time is its end minus the first step's start."),
    Mistake(_cause(_by_label), _LABEL),
    Mistake(_cause(lambda trace: _launching(trace, any_operator=True) < 0.5), _ANY),
    Mistake(_cause(lambda trace: _launching(trace, threads=False) < 0.5),
            "An operator of another thread is around these launches in time and has nothing to do with them: compare "
            "`op.thread` with `call.thread`."),
    Mistake(_cause(lambda trace: _launching(trace, ends="closed") < 0.5),
            "A launch at the very end of an operator is no longer inside it: `op.start_us <= call.start_us < op.end_us`."),
    Mistake(_cause(lambda trace: _launching(trace, ends="of the call") < 0.5),
            "The condition is on the launch's start alone, `op.start_us <= call.start_us < op.end_us`. When the call ends "
            "does not matter."),
    Mistake(_cause(lambda trace: _launching(trace, exact=True) < 0.5),
            "A launch may have another name than `cudaLaunchKernel`: look for `Launch` in the call's name."),
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
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _plain_fill(trace) < limit),
              _ALL_KERNELS) for limit in (0.5, 1)),
    *(Mistake(_cause(_is_loader, lambda trace, which=which: which(kernels_of(trace)).args.get(BLOCKS, 0) < 0.5),
              _ALL_KERNELS)
      for which in (lambda kernels: kernels[0], lambda kernels: max(kernels, key=lambda kernel: kernel.duration_ms))),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _fills(trace, most=math.inf) < limit),
              f"No kernel fills more than the whole card: take at most 1 of its blocks per SM. {_FULL}")
      for limit in (0.5, 1)),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_occupancy(trace) < limit),
              "Small batch and many small kernels were distinguished by the occupancy, which says how full an SM is, "
              f"and not how many have a block. {_FULL}") for limit in (15, 30, 50)),
    *(Mistake(_cause(lambda trace, limit=limit: _calls_share(trace) < limit),
              "Your function chooses by the time in runtime calls: between two launches of an operator the host works "
              "too. Ask how long it is inside operators that contain a launch.") for limit in (0.5, 0.3)),
    *(Mistake(lambda trace, one=one, other=other, limit=limit: one if _kernels_a_step(trace) > limit else other,
              f"Your function chooses by the number of kernels, which says nothing of their size or of the host. "
              f"{_LOADER} {_FULL}")
      for limit in (20, 30, 40, 50) for one, other in ((SMALL_KERNELS, SMALL_BATCH), (SMALL_KERNELS, SLOW_LOADER))),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_us(trace) >= limit),
              f"Small batch and many small kernels were distinguished by the kernels' duration. {_FULL} {_THRESHOLD}")
      for limit in (5, 10, 20, 50)),
    *(Mistake(_cause(_is_loader, lambda trace, limit=limit: _mean_us(trace) < limit),
              f"Small batch and many small kernels were distinguished by the kernels' duration. {_FULL} {_THRESHOLD}")
      for limit in (5, 10, 20, 50)),
    *(Mistake(_cause(lambda trace, limit=limit: _longest_gap_us(trace) > limit),
              f"Your function chooses by the longest gap in µs. {_THRESHOLD} "
              f"{_LOADER}") for limit in (50, 100, 200, 500, 1000, 5000)),
    Mistake(_cause(_label_share),
            "How long the label `enumerate(DataLoader)…` lasts is near the mark, but not every loader has it. What the "
            "host launches tells in each trace."),
    Mistake(lambda trace: SMALL_KERNELS, f"It is always the same answer. {_LOADER} {_FULL}"),
    Mistake(lambda trace: SLOW_LOADER, f"It is always the same answer. {_LOADER} {_FULL}"),
    Mistake(lambda trace: SMALL_BATCH, f"It is always the same answer. {_LOADER} {_FULL}"),
)
