"""Lesson 00, first exercise: a stopwatch for a step, and the programs that it is tried on.

What is right is what the device's own clock says, so the truth is measured on the device and not on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from ...course.evidence import Case
from ...course.exercise import Exercise, full_size
from ...measure.device import clock_ms, synchronize
from ...measure.profile import time_step as library_time_step


def time_step(step, warmup, steps, device):
    """The stopwatch as it is often written: nothing waits for the device."""
    start = clock_ms(device)
    for _ in range(steps):
        step()
    return (clock_ms(device) - start) / steps


def right_time_step(step, warmup, steps, device):
    """What a step takes in a long run, in ms: the library's own stopwatch."""
    blocks = 1 if device.type == "vgpu" else 5
    return library_time_step(step, warmup=warmup, steps=steps, blocks=blocks, device=device).true_ms


# -- the programs it is tried on ------------------------------------------------------------------

SMALL = 16  # elements of a kernel that is as short as a kernel can be


def _small_kernels(device: torch.device, size: int, warmup: int) -> Callable[[], object]:
    x = torch.empty(SMALL, device=device)

    def step():
        y = x
        for _ in range(size):
            y = y + 1
        return y

    return step


def _long_kernels(device: torch.device, size: int, warmup: int) -> Callable[[], object]:
    a = torch.empty(size, size, device=device)

    def step():
        return (a @ a) @ a

    return step


def _both(device: torch.device, size: int, warmup: int) -> Callable[[], object]:
    """Host and device have about as much to do: whoever makes them take turns pays."""
    small, a = _small_kernels(device, 40, warmup), torch.empty(size, size, device=device)

    def step():
        small()
        return a @ a

    return step


def _reads_back(device: torch.device, size: int, warmup: int) -> Callable[[], object]:
    small = _small_kernels(device, size, warmup)
    return lambda: small()[0].item()


def _slow_at_first(device: torch.device, size: int, warmup: int) -> Callable[[], object]:
    """The first ``warmup`` steps have nine times the work, as when kernels are tried out or compiled."""
    a, done = torch.empty(size, size, device=device), 0

    def step():
        nonlocal done
        done += 1
        for _ in range(9 if done <= warmup else 1):
            a @ a

    return step


PROGRAMS = {"small": _small_kernels, "long": _long_kernels, "both": _both, "reads back": _reads_back,
            "slow at first": _slow_at_first}


def cases(seed: int) -> list[Case]:
    """Programs of all kinds; ``busy`` of them begin while the device still works on something else."""
    rng = np.random.default_rng(seed)

    def case(name: str, program: str, size: int, warmup: int, steps: int, busy: bool = False) -> Case:
        return Case(name, {}, {"program": program, "size": size, "warmup": warmup, "steps": steps, "busy": busy})

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return [
        case("many short kernels", "small", between(30, 90), 3, between(15, 30)),
        case("a few long kernels", "long", between(2500, 4000), 2, between(10, 20)),
        case("long kernels, so many steps that the queue is full", "long", between(2000, 3000), 2, between(700, 800)),
        case("short kernels, then a long one", "both", between(1800, 2200), 3, between(15, 30)),
        case("every step reads a number back", "reads back", between(20, 60), 2, between(10, 20)),
        case("the first steps are slow", "slow at first", between(1500, 2500), between(3, 6), between(10, 20)),
        case("no warm-up, and the device still busy with earlier work", "long", between(2000, 3000), 0, between(5, 10),
             busy=True),
        case("a single step", "long", between(2500, 4000), 1, 1),
    ]


def ask(function: Callable, case: Case, device: torch.device) -> dict:
    """What ``function`` says of the case's program. Runs without values on the virtual GPU: only time matters."""
    options = case.options
    with full_size(device):
        step = PROGRAMS[options["program"]](device, options["size"], options["warmup"])
        synchronize(device)
        if options["busy"]:
            earlier = _long_kernels(device, 4000, 0)
            for _ in range(20):
                earlier()
        answer = function(step, options["warmup"], options["steps"], device)
        synchronize(device)
    return {ANSWER: answer, "device": str(device)}


ANSWER = "ms a step"


# -- why an answer is wrong -----------------------------------------------------------------------


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
    (time_step, _NO_END + ". And run the warm-up"),
    (_stopwatch(warm=False), _NO_WARMUP),
    (_stopwatch(first=False), _NO_START),
    (_stopwatch(warm=False, first=False), _NO_START),
    (_stopwatch(each=True), _EACH),
    (_stopwatch(first=False, each=True), _EACH),
    (_stopwatch(counts_warmup=True), _COUNTS_WARMUP),
    (_stopwatch(counts_warmup=True, first=False), _COUNTS_WARMUP),
)


def explain(case: Case, found: dict, wanted: dict) -> str | None:
    """Which mistake gives the number that was found: each is made again, on the same clock."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return "Return one number: the milliseconds that a step takes."
    device, steps = torch.device(wanted["device"]), case.options["steps"]
    for factor, why in ((steps, "That is the time of all steps together: divide by `steps`."),
                        (1e-3 * steps, "That is the time of all steps together, in seconds: divide by `steps`, times 1000."),
                        (1e-3, "That is in seconds: milliseconds are wanted."), (1e6, "That is in nanoseconds.")):
        if factor != 1 and _same(own, factor * true):
            return why
    if device.type == "vgpu":
        made = [(ask(mistake, case, device)[ANSWER], why) for mistake, why in _MISTAKES]
        near = [(round(abs(own - ms), 6), why) for ms, why in made if _same(own, ms) and not _same(ms, true)]
        if near:
            return f"{min(near, key=lambda pair: pair[0])[1]}."  # the nearest, of equals the first
    if own < true:
        return f"That is too short. Is all the device's work done when you stop the clock?{_other_clock(device)}"
    return ("That is too long. Does the clock run while anything else than the `steps` steps is being done: the warm-up, "
            f"earlier work, a wait after each step?{_other_clock(device)}")


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=0.005)


def _other_clock(device: torch.device) -> str:
    if device.type != "vgpu":
        return ""
    return (" And read the time with `clock_ms(device)`: a simulated GPU has a clock of its own, which the computer's does "
            "not know.")


EXERCISE = Exercise(
    name="time_step",
    slow=time_step,
    right=right_time_step,
    truth_on_device=True,
    cases=cases,
    ask=ask,
    explain=explain,
    relative_tolerance=0.01,
    points={"values": 5},
    hints=(
        "When `step()` returns, the host has queued the step's work. Who says that the device has done it? Ask this at both "
        "ends of the measurement: when the clock starts, and when it stops.",
        "`synchronize(device)` makes the host wait until the device has done all that is queued. You need it twice: before "
        "you start the clock, so that no earlier work is counted, and before you stop it. Not in between.",
        "In this order: `warmup` calls of `step()`; `synchronize(device)`; start the clock; `steps` calls of `step()`; "
        "`synchronize(device)`; stop the clock. Return the difference, divided by `steps`.",
    ),
)
