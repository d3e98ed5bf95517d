"""Lesson 07: the usual wrong versions of ``worth_compiling``, and what to say of each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ....course.mistakes import Mistake
from .right import NOISE


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
