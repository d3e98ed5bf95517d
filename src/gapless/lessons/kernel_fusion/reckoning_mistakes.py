"""Lesson 07: fusing reckoned wrongly, one part at a time, and what to say of each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ...course.mistakes import Mistake
from .right import NOISE

# -- the gain ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gain:
    """The gain by bytes, with one part reckoned in another way. ``reads(name, made, seen)``: whether a read costs anything;
    ``writes(name, outputs, read later)``: whether a write does; ``once``: a name's bytes count once; ``turned``: after over
    before; ``nothing``: where there is nothing to move; ``counts``: what the bytes before are made of."""

    reads: Callable = lambda name, made, seen: name not in made
    writes: Callable = lambda name, outputs, later: name in outputs
    once: bool = True
    turned: bool = False
    nothing: float = 1.0
    counts: Callable = lambda reads, writes: sum(reads.values()) + sum(writes.values())

    def __call__(self, kernels, outputs):
        before = sum(self.counts(*kernel) for kernel in kernels)
        made, read, written = set(), [], []
        for number, (reads, writes) in enumerate(kernels):
            later = {name for others, _ in kernels[number + 1:] for name in others}
            read += [item for item in reads.items() if self.reads(item[0], made, read)]
            written += [item for item in writes.items() if self.writes(item[0], outputs, later)]
            made.update(writes)
        if self.once:
            read, written = dict(read).items(), dict(written).items()
        after = self.counts(dict(read), dict(written)) if self.once else sum(size for _, size in (*read, *written))
        if not after or not before:
            return self.nothing
        return after / before if self.turned else before / after


def _first_and_last(kernels, outputs):
    """The first kernel's reads and the last one's writes."""
    if not kernels:
        return 1.0
    before = sum(sum(part.values()) for kernel in kernels for part in kernel)
    return before / (sum(kernels[0][0].values()) + sum(kernels[-1][1].values()))


GAIN = (
    Mistake(lambda kernels, outputs: float(len(kernels)), (
        "That is how many kernels there were. Time goes with the bytes: a kernel that reads two tensors takes longer than "
        "one "
        "that reads one, and the fused kernel still has to read what comes in and write what goes out.")),
    Mistake(_Gain(writes=lambda name, outputs, later: True), (
        "A result that only the next kernel reads is not written any more: it stays in a register. Of the writes only "
        "those of "
        "`outputs` remain.")),
    Mistake(_Gain(reads=lambda name, made, seen: True), (
        "What an earlier kernel made is not read from memory any more, once all is one kernel.")),
    Mistake(_Gain(once=False), "A tensor from outside that several kernels read is read once by the fused one: count each "
                               "name once."),
    Mistake(_Gain(writes=lambda name, outputs, later: name not in later), (
        "What nobody reads later need not be an output, and an output may be read later as well: `outputs` says what is "
        "needed afterwards.")),
    Mistake(_Gain(turned=True), "That is the fused kernel's share of the time. The gain is the other way round: before "
                                "over after."),
    Mistake(_Gain(nothing=float("inf")), "Without any bytes there is nothing to gain: 1.0."),
    Mistake(_Gain(nothing=0.0), "Without any bytes there is nothing to gain: 1.0."),
    Mistake(_Gain(counts=lambda reads, writes: len(reads) + len(writes)), (
        "Those are tensors, counted. A row that is broadcast is a tensor too, and hardly any bytes: add up the sizes.")),
    Mistake(_Gain(counts=lambda reads, writes: sum(writes.values())), "Only writes are counted: kernels read, too."),
    Mistake(_Gain(counts=lambda reads, writes: sum(reads.values())), "Only reads are counted: kernels write, too."),
    Mistake(_first_and_last, (
        "Not only the first kernel reads from outside, and not only the last one writes what is needed afterwards: go "
        "through "
        "all of them.")),
)

# -- whether it pays --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Worth:
    """The decision, with one part in another way."""

    before: Callable = statistics.median
    steady: Callable = statistics.median
    of: Callable = lambda compiled: [ms for ms, compiles in compiled if not compiles]
    price: Callable = lambda compiled, steady: compiled[0][0] - steady
    again: Callable = lambda compiled, steady: (
        sum(ms - steady for ms, compiles in compiled[1:] if compiles) / max(1, len(compiled) - 1))
    noise: float = NOISE
    whole: Callable = math.ceil
    pays: Callable = lambda after, steps: after <= steps

    def __call__(self, eager, compiled, steps):
        usual = self.of(compiled)
        if not usual:
            return False, None
        before, steady = self.before(eager), self.steady(usual)
        gain = before - steady - self.again(compiled, steady)
        if gain <= self.noise * before:
            return False, None
        after = max(1, self.whole(self.price(compiled, steady) / gain))
        return self.pays(after, steps), after


def _all_prices(compiled, steady):
    return sum(ms - steady for ms, compiles in compiled if compiles)


def _sign_only(eager, compiled, steps):
    worth, after = _Worth(price=lambda compiled, steady: 0.0)(eager, compiled, steps)
    return worth, after


WORTH = (
    Mistake(lambda eager, compiled, steps: (min(ms for ms, _ in compiled) < min(eager), 1), (
        "The compilation has a price, paid in the first step: it has paid only after so many steps that their gain makes up "
        "for it.")),
    Mistake(_sign_only, "The compilation has a price, paid in the first step: divide it by the gain of a step."),
    Mistake(_Worth(again=lambda compiled, steady: 0.0), (
        "It compiled again after the first step, and will in the steps to come: what that costs on average belongs to each "
        "step's price.")),
    Mistake(_Worth(again=lambda compiled, steady: 0.0, price=_all_prices), (
        "The later compilations are no price paid once: they came in the steps measured, and will come in the steps after. "
        "Spread them over the later steps.")),
    Mistake(_Worth(of=lambda compiled: [ms for ms, _ in compiled]), (
        "The usual time of a compiled step is that of those which did not compile.")),
    Mistake(_Worth(before=statistics.mean), (
        "The first eager step is slow, as it warms up, and pulls the mean up. The median does not mind.")),
    Mistake(_Worth(before=min, steady=min), "The fastest step is luck: medians are asked for."),
    Mistake(_Worth(price=lambda compiled, steady: compiled[0][0]), (
        "The first step did its work as well: what the compilation cost is its time less that of a usual step.")),
    Mistake(_Worth(price=lambda compiled, steady: compiled[0][0], again=lambda compiled, steady: 0.0), (
        "The first step did its work as well, and later compilations cost too.")),
    Mistake(_Worth(noise=0.0), "A gain of 5 % or less is within the noise: False, None."),
    Mistake(_Worth(whole=math.floor), "After that many steps it has not quite paid: round up."),
    Mistake(_Worth(whole=lambda steps: steps), "Steps are whole: round up."),
    Mistake(_Worth(pays=lambda after, steps: after < steps), "If it has paid at the last step, it has paid: at most "
                                                             "`steps`."),
    Mistake(_Worth(pays=lambda after, steps: True), "It would pay some day, but there are not so many steps to come."),
)
