"""Lesson 07: the inputs of ``worth_compiling``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def _measured(rng: np.random.Generator, name: str, eager_ms: float, compiled_ms: float, compiling_ms: float, steps: int,
              again: float = 0.0, calls: int = 12) -> Case:
    """``again``: the share of steps after the first that compile again."""

    def noisy(ms: float) -> float:
        return round(ms * float(rng.uniform(0.995, 1.005)), 4)

    eager = [noisy(3 * eager_ms), *(noisy(eager_ms) for _ in range(calls))]  # the first warms up
    often = set(1 + rng.permutation(calls)[:round(again * calls)])
    compiles = [number == 0 or number in often for number in range(calls + 1)]
    compiled = [[noisy(compiled_ms + compiling_ms * each), each] for each in compiles]
    return Case(name, {}, {"eager": eager, "compiled": compiled, "steps": steps})


def worth_cases(seed: int) -> list[Case]:
    """A gain or none, early or late, once and again and again."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(3):
        ms = float(rng.uniform(2, 40))
        gain = float(rng.uniform(0.2, 0.5))
        compiling_ms = float(rng.uniform(2_000, 60_000))
        pays_after = compiling_ms / (gain * ms)
        found += [
            _measured(rng, "many steps to come", ms, ms * (1 - gain), compiling_ms, int(pays_after * rng.uniform(1.3, 9))),
            _measured(rng, "few steps to come", ms, ms * (1 - gain), compiling_ms, int(pays_after * rng.uniform(0.1, 0.8))),
            _measured(rng, "hardly any gain", ms, ms * float(rng.uniform(0.975, 0.985)), compiling_ms, 10**9),
            _measured(rng, "slower than before", ms, ms * float(rng.uniform(1.1, 1.3)), compiling_ms, 10**9),
            _measured(rng, "compiles in every step", ms, ms * (1 - gain), compiling_ms, 10**7, again=1.0),
            _measured(rng, "compiles again and again", ms, ms * (1 - gain), compiling_ms, 10**7, again=0.25),
            _measured(rng, "compiles a little at times", ms, ms * 0.5, ms, int(rng.integers(1, 20)), again=0.25),
        ]
    found.append(_measured(rng, "one step to come", 10.0, 1.0, 5.0, 1))
    found.append(_measured(rng, "one step was measured", 10.0, 1.0, 5000.0, 10**6, calls=0))
    # Powers of two and whole numbers, of which nothing is rounded.
    ms = float(2 ** rng.integers(0, 4))
    found += [
        _exact("a gain of exactly 5 %", 20 * ms, 19 * ms, 100 * ms, 10**6),
        _exact("a gain of a little more than 5 %", 20 * ms, 18.995 * ms, 100 * ms, 10**6),
        _exact("a gain of a little less than 5 %", 20 * ms, 19.005 * ms, 100 * ms, 10**6),
        _exact("it pays in the very last step", 20 * ms, 16 * ms, 416 * ms, 100),
        _exact("one step short of paying", 20 * ms, 16 * ms, 416 * ms, 99),
        _exact("it pays after a very long time", 20 * ms, 16 * ms, (16 + 4 * 250_000) * ms, 10**6),
        _exact("the first step costs nothing more", 20 * ms, 16 * ms, 16 * ms, 10),
        _exact("the first step is the fastest: it was compiled before", 20 * ms, 16 * ms, 12 * ms, 10),
        _exact("a later compilation took longer", 20 * ms, 8 * ms, 48 * ms, 18, again_ms=56 * ms),
        _exact("a later compilation took less than a usual step", 20 * ms, 16 * ms, 416 * ms, 99, again_ms=11 * ms),
        _exact("later compilations leave less than 5 %", 20 * ms, 12 * ms, 100 * ms, 10**6, again_ms=48.25 * ms),
        # The median is 24 with the first step and 20 without it, so that it pays from step 19 or 15 on.
        Case("the first step was slow and did not compile, a later one did", {}, {
            "eager": [44 * ms] * 5, "compiled": [*([ms * each, False] for each in (208, 24, 16)), [54 * ms, True]],
            "steps": 18}),
        Case("one step was measured, and it did not compile", {}, {
            "eager": [20 * ms] * 3, "compiled": [[16 * ms, False]], "steps": 1}),
    ]
    # The medians are 20 and 8, between the middle two, so that it pays from step 10 on.
    even = {"eager": [each * ms for each in (24, 24, 16, 16)],
            "compiled": [[128 * ms, True], *([each * ms, False] for each in (12, 12, 4, 4))]}
    found += [Case("an even number of times, and it pays", {}, {**even, "steps": 10}),
              Case("an even number of times, and it does not pay", {}, {**even, "steps": 9})]
    return found


def _exact(name: str, eager_ms: float, compiled_ms: float, first_ms: float, steps: int, again_ms: float | None = None
           ) -> Case:
    """``again_ms``: of a later step that compiles again."""
    later = [] if again_ms is None else [[again_ms, True]]
    return Case(name, {}, {"eager": [2 * eager_ms, *[eager_ms] * 4],
                           "compiled": [[first_ms, True], *[[compiled_ms, False]] * 4, *later], "steps": steps})
