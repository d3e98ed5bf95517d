"""Lesson 07: the inputs of ``predicted_gain``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....course.evidence import Case

_ROUND = 100_000


def _bytes(rng: np.random.Generator) -> int:
    return 4 * int(rng.integers(1000, 300_000))


def _chain(rng: np.random.Generator, name: str, kernels: list[tuple], outputs: Iterable[str], small: str = "") -> Case:
    """``kernels``: (names read, names written), a letter each or in a list; those of ``small`` are a row that is broadcast,
    and an "o" has no elements."""
    large, row = _bytes(rng), int(rng.integers(1, 64)) * 4
    sizes = {letter: 0 if letter == "o" else row if letter in small else large
             for reads, writes in kernels for letter in reads + writes}
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
    "the last result is not needed": ([("x", "a"), ("x", "b")], "a", ""),
    "outputs name a tensor twice": ([("x", "a"), ("a", "y")], "yy", ""),
    "outputs name an input, which no kernel writes": ([("xz", "a"), ("a", "y")], "yx", ""),
    "names that begin alike": ([(["h1"], ["a"]), (["h"], ["b"]), (["h12", "a", "b"], ["y"])], ["y"], ""),
    "no kernels": ([], "", ""),
    "no elements": ([("o", "o"), ("o", "o")], "o", ""),
    "nothing is read, and nothing is needed afterwards": ([("", "a"), ("a", "b")], "", ""),
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
    outputs = sorted(set(rng.choice([writes for _, writes in kernels], size=rng.integers(1, 4))))
    return _chain(rng, f"{len(kernels)} kernels", kernels, "".join(outputs), small=str(rng.choice(known)))
