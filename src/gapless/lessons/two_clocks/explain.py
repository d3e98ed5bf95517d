"""Lesson 00: why an answer is wrong. The usual mistakes are made again, and recognised by what they give."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch

from ...course.evidence import Case
from ...course.exercise import full_size
from ...course.stage import Given, LocalStage
from ...measure.device import clock_ms, synchronize
from . import functions
from .cases import CALLS, NO_LINE, TOO_FEW
from .rates import Rates, numbers, program_of, rates_of
from .stage import ANSWER, ask_time_step

# -- time_step --------------------------------------------------------------------------------------


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
    (functions.time_step, _NO_END + ". And run the warm-up"),
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
        return _no_number(own)
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


def _no_number(own) -> str:
    if own is None:
        return "It returned nothing: is there a `return`? `print` shows a number, and returns none."
    return "Return one number: the milliseconds that a step takes."


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


# -- predict_step_ms --------------------------------------------------------------------------------


def _mistakes(flops, bytes, launches, card: Rates):
    """(prediction in ms, why it is wrong), the likeliest first."""
    rows = list(zip(flops, bytes, launches))
    compute = [1e3 * f / card.flops_per_s for f, _, _ in rows]
    memory = [1e3 * b / card.bytes_per_s for _, b, _ in rows]
    longer = [max(pair) for pair in zip(compute, memory)]
    floored = [max(ms, card.kernel_ms) for ms in longer]
    host_ms = sum(launches) * card.launch_ms

    def in_all(each) -> float:
        return sum(ms * n for ms, n in zip(each, launches))

    device_ms = in_all(floored)
    if len(rows) > 1:
        for totals in (max(in_all(compute), in_all(memory)), max(in_all(compute), in_all(memory), host_ms)):
            yield totals, ("You compare the totals. One kernel computes while it moves *its own* bytes, not those of the "
                           "next: take the larger time kernel by kernel, then add up")
    yield in_all(compute), "That is the arithmetic alone. A kernel also has to move its bytes, and the host has to launch it"
    yield in_all(memory), "That is the bytes alone. A kernel also has to compute, and the host has to launch it"
    yield host_ms + device_ms, ("That is the host's time plus the device's. They work at the same time: the slower of the "
                                "two sets the pace")
    yield max(in_all(longer), host_ms), "No kernel is shorter than `card.kernel_ms`, however little it does"
    yield in_all(longer), ("The host has to launch each kernel (`card.launch_ms`), and no kernel is shorter than "
                           "`card.kernel_ms`")
    yield device_ms, "That is the device's time. The host needs `card.launch_ms` for each launch, and is the slower one here"
    yield host_ms, "That is the host's time. The device needs longer here"
    if len(rows) > 1:
        yield max(in_all(compute), in_all(memory)) + host_ms, (
            "You compare the totals, and add the host's time. Take the larger of the two kernel by kernel; and the host "
            "launches while the device works, so that the slower of the two sets the pace")
        yield max(ms * n for ms, n in zip(floored, launches)), (
            "That is the longest entry alone. Kernels run one after another: add them up")
        yield max(floored), "That is the longest kernel alone. Kernels run one after another: add them up"
    yield device_ms + len(rows) * card.launch_ms, (
        "Each of the `launches[i]` kernels is launched by itself, and the host does that while the device works: the larger "
        "of the two totals counts")
    yield min(host_ms, device_ms), "That is the smaller of the two totals: the slower worker sets the pace"
    both = [max(c + m, card.kernel_ms) for c, m in zip(compute, memory)]
    yield max(in_all(both), host_ms), ("Within a kernel, computing and moving bytes happen at the same time: take the "
                                       "larger of the two times, not their sum")
    yield max(sum(floored), len(rows) * card.launch_ms), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield sum(floored), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield in_all([max(ms, card.launch_ms) for ms in floored]), (
        "You let each kernel wait for its own launch. The host runs ahead: compare the host's time for the *whole step* "
        "with the device's")


def prediction(case: Case, found: dict, wanted: dict) -> str | None:
    """Which wrong formula gives the number that was found."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return _no_number(own)
    if math.isclose(own, true / 1e3, rel_tol=0.1):
        return ("That is in seconds: milliseconds are wanted. `f / card.flops_per_s` and `b / card.bytes_per_s` are "
                "seconds, `card.kernel_ms` and `card.launch_ms` are milliseconds.")
    rates = rates_of(torch.device(wanted["device"]))
    made = list(_mistakes(**numbers(program_of(case.options["rows"], rates)), card=rates))
    for unit, remark in ((1.0, ""), (1e-3, " And it is in seconds: milliseconds are wanted.")):
        near = [(round(abs(own - ms * unit), 9), why) for ms, why in made if math.isclose(own, ms * unit, rel_tol=1e-3)]
        if near:
            return f"{min(near, key=lambda pair: pair[0])[1]}.{remark}"  # the nearest, of equals the first
    return "Work out one kernel at a time: how long to compute, how long to move its bytes? And how long does the host need?"


# -- train ------------------------------------------------------------------------------------------


def training(case: Case, found: dict, wanted: dict) -> str | None:
    """The commonest reasons for what was found."""
    own, right = found["lines"], wanted["lines"]
    if not own:
        return "No line was logged: call `log(text)` for each step."
    if len(own) < len(right) and own == right[:len(own)]:
        return (f"The lines of the last {len(right) - len(own)} step(s) are missing. The number of steps need not be a "
                "multiple of `every`: read what is left after the loop.")
    if len(own) != len(right):
        return f"There are {len(own)} lines for {len(right)} steps: one line for each step is wanted."
    differ = next((i for i, pair in enumerate(zip(own, right)) if pair[0] != pair[1]), None)
    if differ is not None:
        return _why_line(own[differ], right[differ], differ + 1, case)
    if found["late"] != NO_LINE:
        return ("A line may come late, but at most 2 × `every` steps: somebody is watching. Read the losses back every "
                "`every` steps.")
    if found["early"] != NO_LINE:
        return "A line was logged before the network was called for its step: each batch goes through `model(x)` once."
    return "The lines are right and the trained weights are not: is every batch trained on, in its order?"


_PARTS = re.compile(r"step (?P<number>.*): loss (?P<loss>.*), mean (?P<mean>.*), (?P<high>.*) above (?P<limit>.*)")


def _why_line(own: str, right: str, number: int, case: Case) -> str:
    found, wanted = _PARTS.fullmatch(own), _PARTS.fullmatch(right)
    if found is None or found["limit"] != wanted["limit"]:
        return "The text of a line has to stay as it was, to the last digit."
    if found["number"] != wanted["number"]:
        return "The lines must come in the order of the steps, each with the number of its own step, from step 1."
    if found["loss"] != wanted["loss"] and found["loss"] in ("nan", "0.000000"):
        return ("That is what was in the host's memory before. A copy with `non_blocking=True` returns before it has "
                "happened. Record an event behind the copy, and `synchronize()` the event before you read.")
    if found["loss"] != wanted["loss"] and _nearly(found["loss"], wanted["loss"], 1e-2):
        return ("It is nearly the loss. Is it rounded in the text (six digits are wanted), or kept in half precision on the "
                "way? Keep `loss.detach()` as it is.")
    if found["loss"] != wanted["loss"]:
        rows = case.inputs["x"][0].shape[0]
        if rows > 1 and _nearly(found["loss"], str(rows * float(wanted["loss"])), 1e-4):
            return f"That is {rows} times the loss, and a batch has {rows} rows: the mean is wanted, and that is a sum."
        if number == 1:
            return "Even the first loss is another: is it `F.mse_loss(model(x), y)`, of the first batch, before its update?"
        return (f"The losses before are right, and that of step {number} is not. If it is another step's loss, each needs a "
                "tensor of its own in the list. If it is no step's, the weights differ by now: in each step, "
                "`zero_grad`, the loss, `backward`, `step`, in this order.")
    if found["mean"] != wanted["mean"]:
        why = "The loss is right and the mean is not. It is of all steps so far: their sum, divided by this step's number."
        if _nearly(found["mean"], wanted["mean"]):
            why += (" Only the last digits differ: add up Python numbers, in the order of the steps. A sum kept on the "
                    "device in float32 rounds differently.")
        return why
    why = (f"Loss and mean are right and the count is not: it counts the losses above {case.options['limit']:g} up to this "
           "step, this one included.")
    if found["high"].isdigit() and int(found["high"]) > int(wanted["high"]):
        why += " Yours already contains steps that came after it: count on the host, line by line."
    return why


def _nearly(own: str, right: str, relative: float = 1e-5) -> bool:
    """Whether two numbers, as text, are near: by default as near as float32's rounding may leave them."""
    try:
        return math.isclose(float(own), float(right), rel_tol=relative, abs_tol=2e-6)
    except ValueError:
        return False
