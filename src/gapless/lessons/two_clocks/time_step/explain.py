"""Lesson 00: why an answer to ``time_step`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ....course.evidence import Case
from ....course.exercise import full_size
from ....course.mistakes import MistakesFile
from ....course.stage import Given, LocalStage
from ..explain import no_number
from ..stage import ANSWER, names
from .cases import CALLS, TOO_FEW
from .stage import ask_time_step

# Not the exercise's own mistakes, which are compared case by case: the clock's figure decides which of them is nearest.
MISTAKES = MistakesFile(__package__, names)
_NO_WARMUP = "The first steps are slower than the rest. Run `warmup` steps before you start the clock, and don't count them."


def time_step(case: Case, found: dict, wanted: dict) -> str | None:
    """Which mistake gives the number that was found: each is made again, on the same clock."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return no_number(own)
    device, steps = torch.device(wanted["device"]), case.options["steps"]
    if _same(own, true) and found[CALLS] != wanted[CALLS]:
        if found[CALLS].startswith(TOO_FEW):
            return _NO_WARMUP
        return ("The time is right, but the number of calls of `step()` is wrong: call it `warmup` times to warm up, and "
                "`steps` times while the clock runs. A step may train a model, so one extra call changes the training.")
    for factor, why in ((steps, "That is the time of all steps together: divide by `steps`."),
                        (1e-3 * steps, "That is the time of all steps together, in seconds: divide by `steps`, times 1000."),
                        (1e-3, "That is in seconds: return milliseconds."), (1e6, "That is in nanoseconds.")):
        if factor != 1 and _same(own, factor * true):
            return why
    by = true * steps / own if own > 0 else 0.0
    if 1 < round(by) != steps and abs(by - round(by)) < 2e-3 * by and abs(round(by) - steps) <= case.options["warmup"] + 1:
        return f"That is the run's time divided by {round(by)}: it has {steps} steps."
    if own != true and own in (int(true), *(round(true, digits) for digits in range(4))):
        return "Your number is rounded: return it as it is."
    if device.type == "vgpu":
        made = [(_made_again(mistake.function, case, device), mistake.why) for mistake in MISTAKES]
        near = [(round(abs(own - ms), 6), why) for ms, why in made if _same(own, ms, 1e-3) and not _same(ms, true)]
        if near:
            return min(near, key=lambda pair: pair[0])[1]  # the nearest, of equals the first
    if found[CALLS].startswith(TOO_FEW):
        return f"`step()` is called {found[CALLS]}. Call it `warmup` times, and then `steps` times while the clock runs."
    if own < true:
        return ("That is too short. Is all the device's work done when you stop the clock? And does every timed step count, "
                f"also a slow one?{_other_clock(device)}")
    return ("That is too long. Does the clock run during anything other than the `steps` steps: the warm-up, earlier work, "
            f"a wait between the steps?{_other_clock(device)}")


def _made_again(mistake: Callable, case: Case, device: torch.device) -> float:
    with full_size(device):
        call = LocalStage(mistake, device, ask_time_step).begin(Given({}, case.options))
        call.run()
        return call.finish()[ANSWER]


def _same(a: float, b: float, relative: float = 0.005) -> bool:
    return math.isclose(a, b, rel_tol=relative)


def _other_clock(device: torch.device) -> str:
    if device.type != "vgpu":
        return ""
    return (" And read the time with `clock_ms(device)`: a simulated GPU has its own clock, which is not the "
            "computer's.")
