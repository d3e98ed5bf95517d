"""Lesson 00: why an answer to ``time_step`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ....course.evidence import Case
from ....course.exercise import full_size
from ....course.stage import Given, LocalStage
from ....measure.device import clock_ms, synchronize
from ..explain import no_number
from ..stage import ANSWER
from . import slow
from .cases import CALLS, TOO_FEW
from .stage import ask_time_step


def _stopwatch(warm: bool = True, first: bool = True, last: bool = True, each: bool = False, counts_warmup: bool = False):
    """A stopwatch with some of its parts left out."""

    def measure(step, warmup, steps, device):
        start = clock_ms(device)
        for _ in range(warmup if warm else 0):
            step()
        if first:
            synchronize(device)
        if not counts_warmup:
            start = clock_ms(device)
        for _ in range(steps):
            step()
            if each:
                synchronize(device)
        if last:
            synchronize(device)
        return (clock_ms(device) - start) / steps

    return measure


_NO_END = ("That is the host's time to *queue* the steps. The device still works when you stop the clock: wait for it "
           "first, with `synchronize(device)`")
_NO_START = ("The clock started while the device was still busy with earlier work, and that work is in your figure. Call "
             "`synchronize(device)` before you start the clock")
_EACH = ("You wait after every step. So host and device take turns, which they don't in a real run: the host should queue "
         "the next step while the device works. Wait once, after the last step")
_COUNTS_WARMUP = "The warm-up is in your figure: start the clock after it"
_NO_WARMUP = "The first steps are slower than the rest. Run `warmup` steps before you start the clock, and don't count them"
_MISTAKES = (
    (_stopwatch(first=False, last=False), _NO_END),
    (_stopwatch(last=False), _NO_END),
    (_stopwatch(warm=False, last=False), _NO_END),
    (slow.time_step, _NO_END + ". And run the warm-up"),
    (_stopwatch(warm=False), _NO_WARMUP),
    (_stopwatch(first=False), _NO_START),
    (_stopwatch(warm=False, first=False), _NO_START),
    (_stopwatch(each=True), _EACH),
    (_stopwatch(first=False, each=True), _EACH),
    (_stopwatch(counts_warmup=True), _COUNTS_WARMUP),
    (_stopwatch(counts_warmup=True, first=False), _COUNTS_WARMUP),
)


def time_step(case: Case, found: dict, wanted: dict) -> str | None:
    """Which mistake gives the number that was found: each is made again, on the same clock."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return no_number(own)
    device, steps = torch.device(wanted["device"]), case.options["steps"]
    if _same(own, true) and found[CALLS] != wanted[CALLS]:
        if found[CALLS].startswith(TOO_FEW):
            return f"{_NO_WARMUP}."
        return ("The time is right, and `step()` is called too often or too rarely: `warmup` times to warm up, and `steps` "
                "times while the clock runs. A step may train a model: one more is one too many.")
    for factor, why in ((steps, "That is the time of all steps together: divide by `steps`."),
                        (1e-3 * steps, "That is the time of all steps together, in seconds: divide by `steps`, times 1000."),
                        (1e-3, "That is in seconds: milliseconds are wanted."), (1e6, "That is in nanoseconds.")):
        if factor != 1 and _same(own, factor * true):
            return why
    by = true * steps / own if own > 0 else 0.0
    if 1 < round(by) != steps and abs(by - round(by)) < 2e-3 * by and abs(round(by) - steps) <= case.options["warmup"] + 1:
        return f"That is the run's time divided by {round(by)}: it has {steps} steps."
    if own == int(true) and own != true:
        return "The fraction is cut off: return the number as it is."
    if device.type == "vgpu":
        made = [(_made_again(mistake, case, device), why) for mistake, why in _MISTAKES]
        near = [(round(abs(own - ms), 6), why) for ms, why in made if _same(own, ms) and not _same(ms, true)]
        if near:
            return f"{min(near, key=lambda pair: pair[0])[1]}."  # the nearest, of equals the first
    if own < true:
        return f"That is too short. Is all the device's work done when you stop the clock?{_other_clock(device)}"
    return ("That is too long. Does the clock run while anything else than the `steps` steps is being done: the warm-up, "
            f"earlier work, a wait after each step?{_other_clock(device)}")


def _made_again(mistake: Callable, case: Case, device: torch.device) -> float:
    with full_size(device):
        call = LocalStage(mistake, device, ask_time_step).begin(Given({}, case.options))
        call.run()
        return call.finish()[ANSWER]


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=0.005)


def _other_clock(device: torch.device) -> str:
    if device.type != "vgpu":
        return ""
    return (" And read the time with `clock_ms(device)`: a simulated GPU has a clock of its own, which the computer's does "
            "not know.")
