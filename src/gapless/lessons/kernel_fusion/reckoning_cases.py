"""Lesson 07: chains of kernels whose fusing is to be reckoned, and measured steps for which to decide."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case

_ROUND = 100_000


def _bytes(rng: np.random.Generator) -> int:
    return 4 * int(rng.integers(1000, 300_000))


def _chain(rng: np.random.Generator, name: str, kernels: list[tuple[str, str]], outputs: str, small: str = "") -> Case:
    """``kernels``: (names read, names written), a letter each; those of ``small`` are a row that is broadcast."""
    large, row = _bytes(rng), int(rng.integers(1, 64)) * 4
    sizes = {letter: row if letter in small else large for reads, writes in kernels for letter in reads + writes}
    sized = [[{letter: sizes[letter] for letter in part} for part in kernel] for kernel in kernels]
    return Case(name, {}, {"kernels": sized, "outputs": list(outputs)})


# Name → kernels, what is needed afterwards, what is a row.
_CHAINS = {
    "GELU, five kernels": ([("x", "a"), ("x", "b"), ("b", "c"), ("c", "d"), ("ad", "y")], "y", ""),
    "one kernel": ([("x", "y")], "y", ""),
    "a chain of three": ([("x", "a"), ("a", "b"), ("b", "y")], "y", ""),
    "a step between is needed too": ([("x", "a"), ("a", "b"), ("b", "y")], "ya", ""),
    "everything is needed": ([("x", "a"), ("a", "b"), ("b", "y")], "yab", ""),
    "two inputs, one of them used twice": ([("xz", "a"), ("az", "b"), ("b", "y")], "y", ""),
    "a row is broadcast": ([("xr", "a"), ("as", "b"), ("b", "y")], "y", "rs"),
    "a result is a row": ([("x", "a"), ("a", "m"), ("am", "y")], "y", "m"),
    "nothing to gain: no kernel reads what another wrote": ([("x", "a"), ("z", "b")], "ab", ""),
    "two kernels read the same": ([("x", "a"), ("x", "b")], "ab", ""),
    "in place": ([("x", "x"), ("x", "x"), ("x", "x")], "x", ""),
    "a result that nobody needs": ([("x", "a"), ("x", "y")], "y", ""),
    "no kernels": ([], "", ""),
}


def gain_cases(seed: int) -> list[Case]:
    """Every kind of chain, its sizes drawn, and some chains drawn wholly."""
    rng = np.random.default_rng(seed)
    return [_chain(rng, name, *chain) for name, chain in _CHAINS.items()] + [_drawn(rng) for _ in range(12)]


def _drawn(rng: np.random.Generator) -> Case:
    letters = "abcdefgh"
    known, kernels = list("xz"), []
    for letter in letters[:rng.integers(2, len(letters))]:
        reads = "".join(sorted(set(rng.choice(known, size=rng.integers(1, 4)))))
        kernels.append((reads, letter))
        known.append(letter)
    made = [writes for _, writes in kernels]
    outputs = sorted({made[-1], *rng.choice(made, size=rng.integers(1, 3))})
    return _chain(rng, f"{len(kernels)} kernels", kernels, "".join(outputs), small=str(rng.choice(known)))


# -- whether it pays --------------------------------------------------------------------------------


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
    return found
