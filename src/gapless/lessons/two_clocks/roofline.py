"""Lesson 00, third exercise: what a step will take, by hand, from FLOPs, bytes and launches.

The card's figures are the virtual GPU's, and so is the clock that a prediction is held against: on a real GPU too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ... import vgpu
from ...course.evidence import Case
from ...course.exercise import Exercise
from ...vgpu.hardware.costs import Kernel

FLOAT_BYTES = 4
SMALL = 1000  # elements of a kernel that is as short as a kernel can be
LONG_RUN = 100  # steps


@dataclass(frozen=True)
class Rates:
    """What a card and its host reach. ``flops_per_s``: float32 matrix products; ``bytes_per_s``: reading and writing the
    card's memory; ``kernel_ms``: the shortest kernel; ``launch_ms``: what one operator costs the host."""

    key: str
    name: str
    flops_per_s: float
    bytes_per_s: float
    kernel_ms: float
    launch_ms: float


def card_for(device: torch.device) -> vgpu.Card:
    """The card that is modelled: the virtual GPU's; beside a real GPU the card of its name, else the course's default."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return next((card for card in vgpu.CARDS.values() if card.name == name), vgpu.find_card("a10g"))
    return vgpu.card()


def rates_of(device: torch.device) -> Rates:
    """The figures to predict with: the data sheet's, times the share of them that the virtual GPU takes kernels to reach."""
    card = card_for(device)
    return Rates(card.key, card.name, card.peak_flops["float32"] * card.math_share("matmul", "float32"),
                 card.bandwidth_bytes_per_s * card.memory_share("pointwise"), card.kernel_floor_ns / 1e6,
                 (card.host.op_ns + card.host.launch_ns) / 1e6)


# -- programs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """``times`` calls of one operator on float32: ``matmul`` of a ``size``×``inner`` with an ``inner``×``size`` matrix
    (``inner`` None: square), or ``add`` of two vectors of ``size`` numbers."""

    name: str
    size: int
    times: int
    inner: int | None = None

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the two inputs."""
        if self.name == "add":
            return (self.size,), (self.size,)
        inner = self.inner or self.size
        return (self.size, inner), (inner, self.size)

    @property
    def flops(self) -> float:
        """Of one call. A product of matrices takes ``inner`` multiply-adds for each number of its result."""
        return 2.0 * self.size**2 * (self.inner or self.size) if self.name == "matmul" else float(self.size)

    @property
    def bytes(self) -> float:
        """Of one call: two inputs read, one result written."""
        result = self.size**2 if self.name == "matmul" else self.size
        return float(FLOAT_BYTES) * (sum(math.prod(shape) for shape in self.shapes) + result)


def numbers(program: list[Operator]) -> dict[str, list]:
    """The program as ``predict_step_ms`` is told of it: an entry for each operator."""
    return {"flops": [o.flops for o in program], "bytes": [o.bytes for o in program], "launches": [o.times for o in program]}


def step_of(program: list[Operator], device: torch.device) -> Callable[[], None]:
    """The program as a step on ``device``."""
    data = [[torch.empty(shape, device=device) for shape in operator.shapes] for operator in program]

    def step():
        for operator, (a, b) in zip(program, data):
            run = torch.mm if operator.name == "matmul" else torch.add
            for _ in range(operator.times):
                run(a, b)

    return step


def example_program(rates: Rates) -> list[Operator]:
    """A step with something of everything, sized for the card."""
    return [product_of(2.0, 2, rates), sum_of(1.0, 3, rates), Operator("add", SMALL, 100)]


def product_of(ms: float, times: int, rates: Rates) -> Operator:
    """A matrix product that takes about ``ms`` on the card."""
    return Operator("matmul", round((ms * 1e-3 * rates.flops_per_s / 2) ** (1 / 3)), times)


def thin_product_of(ms: float, times: int, rates: Rates) -> Operator:
    """A matrix product that takes about ``ms`` to compute and about ``ms`` to move its bytes."""
    inner = max(2, round(2 * rates.flops_per_s / rates.bytes_per_s))  # FLOPs ÷ bytes is about half of it
    return Operator("matmul", round((ms * 1e-3 * rates.flops_per_s / (2 * inner)) ** 0.5), times, inner)


def sum_of(ms: float, times: int, rates: Rates) -> Operator:
    """A sum of two vectors that takes about ``ms`` on the card."""
    return Operator("add", round(ms * 1e-3 * rates.bytes_per_s / (3 * FLOAT_BYTES)), times)


# -- what the clock says --------------------------------------------------------------------------


def right_step_ms(flops, bytes, launches, card):
    """The virtual GPU's clock for a step of such kernels, in a long run: nothing of the roofline is in it."""
    modelled = vgpu.card() if vgpu.card().key == card.key else vgpu.find_card(card.key)
    timeline = vgpu.Timeline(modelled)
    durations = [Kernel("kernel", "matmul" if f > b else "pointwise", b, f if f > b else 0.0).duration_ns(modelled)
                 for f, b in zip(flops, bytes)]

    def step():
        for duration_ns, count in zip(durations, launches):
            for _ in range(count):
                timeline.begin_op("operator")
                timeline.launch("kernel", duration_ns)
                timeline.end_op()

    step()
    timeline.synchronize_device()
    start_ns = timeline.host_ns
    for _ in range(LONG_RUN):
        step()
    timeline.synchronize_device()
    return (timeline.host_ns - start_ns) / LONG_RUN / 1e6


def predict_step_ms(flops, bytes, launches, card):
    """As it is often done: FLOPs ÷ FLOP/s."""
    total = sum(f * n for f, n in zip(flops, launches))
    return 1000 * total / card.flops_per_s


# -- the exercise ---------------------------------------------------------------------------------


def cases(seed: int) -> list[Case]:
    """Programs in words that any card can fill: rows of (operator, how long, how often). A length in ms; or, as a
    "share", in parts of the time that the host needs for the step; as "shortest", in times that of the shortest kernel; None
    for a kernel that does hardly anything."""
    rng = np.random.default_rng(seed)

    def case(name: str, *rows) -> Case:
        return Case(name, {}, {"rows": [list(row) for row in rows]})

    def ms(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 3)

    def count(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return [
        # So long that the time is more than a launch takes even where somebody takes its seconds for milliseconds.
        case("long matrix products", ("matmul", ms(16, 25), count(2, 5))),
        case("long sums", ("add", ms(1, 3), count(3, 7))),
        case("products and sums", ("matmul", ms(1.5, 2.5), 2), ("add", ms(1, 1.5), 3)),
        case("thin products, as long to compute as to move", ("thin", ms(1, 2), count(2, 5))),
        case("many short kernels", ("add", None, count(150, 400))),
        case("many short kernels and a long product, the host is slower",
             ("add", None, count(200, 300)), ("matmul", "0.5 share", 1)),
        case("many short kernels and a long product, the device is slower",
             ("add", None, count(200, 300)), ("matmul", "1.05 share", 1)),
        case("many kernels half as long again as the shortest, and a long product, the device is slower",
             ("add", "1.5 shortest", count(200, 300)), ("matmul", "0.8 share", 1)),
        case("products, sums and short kernels", ("matmul", ms(1, 2), count(2, 4)), ("add", ms(0.5, 1), count(2, 6)),
             ("add", None, count(100, 200))),
    ]


def program_of(case: Case, rates: Rates) -> list[Operator]:
    """The case's program, sized for the card."""
    rows = case.options["rows"]
    host_ms = rates.launch_ms * sum(times for *_, times in rows)
    program = []
    for name, length, times in rows:
        if length is None:
            program.append(Operator(name, SMALL, times))
            continue
        if isinstance(length, str):
            number, unit = length.split()
            ms = float(number) * {"share": host_ms, "shortest": rates.kernel_ms}[unit]
        else:
            ms = length
        program.append({"matmul": product_of, "thin": thin_product_of, "add": sum_of}[name](ms, times, rates))
    return program


def ask(function: Callable, case: Case, device: torch.device) -> dict:
    """What ``function`` predicts for the case's program on the device's card."""
    rates = rates_of(device)
    return {ANSWER: function(**numbers(program_of(case, rates)), card=rates), "device": str(device)}


ANSWER = "ms a step"


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
    both = [max(c + m, card.kernel_ms) for c, m in zip(compute, memory)]
    yield max(in_all(both), host_ms), ("Within a kernel, computing and moving bytes happen at the same time: take the "
                                       "larger of the two times, not their sum")
    yield max(in_all([ms + card.kernel_ms for ms in longer]), host_ms), (
        "`card.kernel_ms` does not come on top: it is the least that a kernel takes, so take the largest of the three times")
    yield max(sum(floored), len(rows) * card.launch_ms), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield sum(floored), "Each entry stands for `launches[i]` kernels: multiply by it"
    yield in_all([max(ms, card.launch_ms) for ms in floored]), (
        "You let each kernel wait for its own launch. The host runs ahead: compare the host's time for the *whole step* "
        "with the device's")


def explain(case: Case, found: dict, wanted: dict) -> str | None:
    """Which wrong formula gives the number that was found."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return "Return one number: the milliseconds that a step takes."
    if math.isclose(own, true / 1e3, rel_tol=0.1):
        return ("That is in seconds: milliseconds are wanted. `f / card.flops_per_s` and `b / card.bytes_per_s` are "
                "seconds, `card.kernel_ms` and `card.launch_ms` are milliseconds.")
    rates = rates_of(torch.device(wanted["device"]))
    made = list(_mistakes(**numbers(program_of(case, rates)), card=rates))
    for unit, remark in ((1.0, ""), (1e-3, " And it is in seconds: milliseconds are wanted.")):
        near = [(round(abs(own - ms * unit), 9), why) for ms, why in made if math.isclose(own, ms * unit, rel_tol=1e-3)]
        if near:
            return f"{min(near, key=lambda pair: pair[0])[1]}.{remark}"  # the nearest, of equals the first
    return "Work out one kernel at a time: how long to compute, how long to move its bytes? And how long does the host need?"


EXERCISE = Exercise(
    name="predict_step_ms",
    slow=predict_step_ms,
    right=right_step_ms,
    truth_on_device=True,
    cases=cases,
    ask=ask,
    explain=explain,
    relative_tolerance=0.1,
    points={"values": 5},
    hints=(
        "Three things can be the slowest: the arithmetic, the memory, or the host that launches the kernels. Which of them "
        "happen at the same time, and which one after the other?",
        "Within one kernel the arithmetic and the memory traffic overlap: the larger time counts, and never less than "
        "`card.kernel_ms`. Kernels run one after the other: add them up, each `launches[i]` times. The host launches while "
        "the device works: again the larger counts, of the two totals.",
        "For each entry: `ms = max(1000 * f / card.flops_per_s, 1000 * b / card.bytes_per_s, card.kernel_ms)`. The device "
        "needs the sum of `n * ms`, the host `sum(launches) * card.launch_ms`. Return the larger of the two.",
    ),
)
