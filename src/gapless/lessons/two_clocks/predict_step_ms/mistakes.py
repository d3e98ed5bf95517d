"""Lesson 00: the usual wrong versions of ``predict_step_ms``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ....course.mistakes import Mistake
from .stage import Rates


@dataclass(frozen=True)
class _Step:
    """What a prediction is made of: a list has a number for each entry, in ms."""

    flops: list
    bytes: list
    launches: list
    card: Rates

    @cached_property
    def compute(self) -> list[float]:
        return [1e3 * f / self.card.flops_per_s for f in self.flops]

    @cached_property
    def memory(self) -> list[float]:
        return [1e3 * b / self.card.bytes_per_s for b in self.bytes]

    @cached_property
    def longer(self) -> list[float]:
        return [max(pair) for pair in zip(self.compute, self.memory)]

    def floored(self, each) -> list[float]:
        return [max(ms, self.card.kernel_ms) for ms in each]

    def in_all(self, each) -> float:
        return sum(ms * n for ms, n in zip(each, self.launches))

    def paced(self, each) -> float:
        """The slower of host and device, where the kernels take as long as ``each`` says, but no less than a kernel can."""
        return max(self.in_all(self.floored(each)), self.host_ms)

    @property
    def host_ms(self) -> float:
        return sum(self.launches) * self.card.launch_ms

    @property
    def device_ms(self) -> float:
        return self.in_all(self.floored(self.longer))

    @property
    def totals_ms(self) -> float:
        return max(self.in_all(self.compute), self.in_all(self.memory))


def _each(change: Callable[[float, float], float]) -> Callable[[_Step], float]:
    """Right except for a kernel's time: ``change`` of its ms to compute and to move its bytes."""
    return lambda step: step.paced([change(*both) for both in zip(step.compute, step.memory)])


_TOTALS = ("You compare the totals. A kernel computes while it moves *its own* bytes, not those of the next. Take the "
           "larger time for each kernel, then add up")
_BOTH = "Within a kernel, computing and moving bytes happen at the same time: take the larger of the two times, not "
_LONGEST = "That is the longest {} alone. Kernels run one after another: add them up"
_TIMES = "Each entry stands for `launches[i]` kernels: multiply by it"
_FORMULAS: tuple[tuple[Callable[[_Step], float], str], ...] = (  # in ms, the most common first
    (_each(lambda compute, memory: max(compute, memory) / 1e3),
     "That is in seconds: return milliseconds. `f / card.flops_per_s` and `b / card.bytes_per_s` are seconds, "
     "`card.kernel_ms` and `card.launch_ms` are milliseconds"),
    (lambda step: step.totals_ms, _TOTALS),
    (lambda step: max(step.totals_ms, step.host_ms), _TOTALS),
    (lambda step: step.in_all(step.compute),
     "That is the arithmetic alone. A kernel also has to move its bytes, and the host has to launch it"),
    (lambda step: step.in_all(step.memory),
     "That is the bytes alone. A kernel also has to compute, and the host has to launch it"),
    (lambda step: step.host_ms + step.device_ms,
     "That is the host's time plus the device's. They work at the same time: the slower of the two sets the pace"),
    (lambda step: max(step.in_all(step.longer), step.host_ms),
     "No kernel is shorter than `card.kernel_ms`, however little it does"),
    (lambda step: step.in_all(step.longer),
     "The host has to launch each kernel (`card.launch_ms`), and no kernel is shorter than `card.kernel_ms`"),
    (lambda step: step.device_ms,
     "That is the device's time. The host needs `card.launch_ms` for each launch, and is the slower one here"),
    (lambda step: step.host_ms, "That is the host's time. The device needs longer here"),
    (lambda step: max(step.device_ms, max(step.launches) * step.card.launch_ms),
     "You count the launches of one entry. The host launches the kernels of all entries"),
    (lambda step: (step.host_ms + step.device_ms) / 2,
     "That is the mean of the two workers' times, but the slower worker sets the pace"),
    (lambda step: 1e3 * max(step.in_all([max(ms / 1e3, step.card.kernel_ms) for ms in step.longer]), step.host_ms / 1e3),
     "`card.kernel_ms` is in milliseconds, and you compare it with seconds"),
    (lambda step: step.totals_ms + step.host_ms,
     "You compare the totals, and add the host's time. Take the larger of the two for each kernel. And the host launches "
     "while the device works, so the slower of the two sets the pace"),
    (lambda step: max(step.host_ms, *(ms * n for ms, n in zip(step.floored(step.longer), step.launches))),
     _LONGEST.format("entry")),
    (lambda step: max(step.floored(step.longer)), _LONGEST.format("kernel")),
    (lambda step: max(step.host_ms, step.in_all([ms if f else 0.0 for f, ms in zip(step.flops, step.floored(step.longer))])),
     "You left out a kernel without FLOPs. It computes nothing, but it still has to move its bytes"),
    (lambda step: step.device_ms + len(step.launches) * step.card.launch_ms,
     "The host launches each of the `launches[i]` kernels separately, while the device works: the larger of the two totals "
     "counts"),
    (lambda step: min(step.host_ms, step.device_ms),
     "That is the smaller of the two totals, but the slower worker sets the pace"),
    (_each(lambda compute, memory: compute + memory), f"{_BOTH}their sum"),
    (lambda step: step.in_all(step.compute) + step.in_all(step.memory) + step.host_ms,
     f"{_BOTH}their sum. And the host launches while the device works"),
    (_each(min), f"{_BOTH}the smaller"),
    (_each(lambda compute, memory: max(compute, memory / 1e3)),
     "`b / card.bytes_per_s` is in seconds, like `f / card.flops_per_s`: multiply both by 1000"),
    (_each(lambda compute, memory: max(compute / 1e3, memory)),
     "`f / card.flops_per_s` is in seconds, like `b / card.bytes_per_s`: multiply both by 1000"),
    *((_each(lambda compute, memory, factor=factor: max(factor * compute, memory)),
       f"You took the FLOPs {words}: an addition and a multiplication already count as two") for factor, words in (
          (2.0, "twice"), (0.5, "half"))),
    (_each(lambda compute, memory: max(compute, 4 * memory)), "You multiplied the bytes by 4: they are bytes already"),
    (_each(lambda compute, memory: max(compute, 2 * memory)),
     "You took the bytes twice: they count what is read and what is written already"),
    (_each(lambda compute, memory: compute), "A kernel also has to move its bytes: the larger of its two times counts"),
    (_each(lambda compute, memory: memory), "A kernel also has to compute: the larger of its two times counts"),
    (lambda step: _Step(step.bytes, step.flops, step.launches, step.card).device_ms,
     "The rates are swapped: divide FLOPs by `card.flops_per_s`, bytes by `card.bytes_per_s`"),
    (lambda step: max(sum(step.floored(step.longer)), len(step.launches) * step.card.launch_ms), _TIMES),
    (lambda step: sum(step.floored(step.longer)), _TIMES),
    (lambda step: max(step.device_ms / sum(step.launches), step.card.launch_ms),
     "You divided by the number of launches, but a step is all of them together"),
    (lambda step: step.in_all([max(ms, step.card.launch_ms) for ms in step.floored(step.longer)]),
     "You make each kernel wait for its own launch. But the host runs ahead: compare the host's time for the *whole step* "
     "with the device's"),
)
_UNITS = ((1.0, ""), (1e-3, " And it is in seconds: return milliseconds."))


def _predicted(formula: Callable[[_Step], float], unit: float) -> Callable:
    return lambda flops, bytes, launches, card: unit * formula(_Step(flops, bytes, launches, card))


PREDICTION = tuple(Mistake(_predicted(formula, unit), f"{why}.{remark}") for unit, remark in _UNITS
                   for formula, why in _FORMULAS)
