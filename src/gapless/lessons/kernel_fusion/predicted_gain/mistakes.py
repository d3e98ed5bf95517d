"""Lesson 07: the usual wrong versions of ``predicted_gain``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....course.mistakes import Mistake


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
