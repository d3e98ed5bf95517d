"""Made-up runs of several ranks in which it is known who sets the pace, and why.

One thing slows each run, or nothing; around it are things that look like it and cost nothing: a rank whose warm-up is
long, one with more kernels (shorter ones, or on a stream beside), one whose loader is slow while its GPU has work enough,
clocks that disagree, traces in any order. That they cost nothing, and that the one thing does, follows from playing the plan
again without them (the tests do).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

import numpy as np

from gapless.evidence.traces.trace import Trace
from gapless.lessons.data_parallel.find_straggler.traces import Plan, even_plan, simulate

COMPUTE, INPUT, NETWORK = "compute", "input", "network"
WORLDS = (2, 3, 4, 6, 8)


@dataclass(frozen=True)
class RankRun:
    """One run. ``rank`` and ``cause`` are the truth: (None, "network") where all links are slow alike, or there is but one
    group; (None, None) where the ranks are even. ``plan`` is what was played, ``without`` the same without what slows it."""

    name: str
    rank: int | None
    cause: str | None
    plan: Plan = field(repr=False)
    without: Plan = field(repr=False)
    shuffled: tuple[int, ...] = field(repr=False)

    @property
    def traces(self) -> list[Trace]:
        """The ranks' traces, in no order."""
        made = simulate(self.plan)
        return [made[rank] for rank in self.shuffled]


def rank_run(rng: np.random.Generator, cause: str | None, *, world: int | None = None, waits: bool | None = None,
             grid: int | None = None, distracted: bool = True, **more) -> RankRun:
    """A run that ``cause`` slows, on a rank drawn by chance. ``waits``: the host reads the loss each step; ``grid``: rows of
    ranks that are process groups, 1 for one group of all; each drawn where None. ``more``: fields of :class:`Plan`."""
    world = int(rng.choice(WORLDS)) if world is None else world
    waits = bool(rng.random() < 0.5) if waits is None else waits
    if grid is None:
        grid = int(rng.choice([rows for rows in (1, 2) if (world % rows == 0 and world // rows > 1) or rows == 1]))
    plan = even_plan(rng, world, steps=int(rng.integers(5, 7)), **{"waits": waits, "grid": grid, **more})
    rank = int(rng.integers(world)) if cause is not None else None
    distractions = _distractions(rng, plan, rank, cause) if distracted else {}
    plan = replace(plan, **{name: value for fields in distractions.values() for name, value in fields.items()})
    slowed = _slowed(rng, plan, rank, cause)
    blamed = rank if cause != NETWORK or grid > 1 else None
    words = ", ".join([f"{world} ranks", *(["two kinds of groups"] if grid > 1 else []),
                       *(["the loss is read"] if waits else []), *distractions])
    return RankRun(words, blamed, cause, slowed, plan, tuple(rng.permutation(world).tolist()))


def rank_runs(seed: int) -> list[RankRun]:
    """One run of each kind; what else is in it is drawn from ``seed``. The first is the plainest."""
    rng = np.random.default_rng(seed)
    return [rank_run(rng, COMPUTE, world=4, waits=True, grid=1, distracted=False),
            rank_run(rng, COMPUTE, waits=False), rank_run(rng, COMPUTE, world=int(rng.choice([4, 6, 8])), grid=2),
            rank_run(rng, INPUT, waits=True), rank_run(rng, INPUT, waits=False),
            rank_run(rng, NETWORK, world=int(rng.choice([4, 6, 8])), grid=2), rank_run(rng, NETWORK, grid=1),
            rank_run(rng, None, waits=False), rank_run(rng, None, waits=True)]


def _step_us(plan: Plan) -> float:
    """About what a step of even ranks takes."""
    return float(3 * plan.layers * np.median(plan.kernel))


def _slowed(rng: np.random.Generator, plan: Plan, rank: int | None, cause: str | None) -> Plan:
    if cause == COMPUTE:
        kernel = plan.kernel.copy()
        kernel[:, rank] *= rng.uniform(1.2, 1.6)
        return replace(plan, kernel=kernel)
    if cause == INPUT:
        load = plan.load.copy()
        # A host that runs ahead hides a loader that is faster than the step.
        load[:, rank] = _step_us(plan) * (rng.uniform(0.2, 0.6) if plan.waits else rng.uniform(1.25, 1.6))
        return replace(plan, load=load)
    if cause == NETWORK:
        rate = plan.rate.copy()
        # So slow that what the network needs for a step's gradients is about as long as the backward pass, or longer.
        rate[rank] = plan.elements * plan.layers / (_step_us(plan) * rng.uniform(0.9, 1.4))
        return replace(plan, rate=rate)
    return plan


def _distractions(rng: np.random.Generator, plan: Plan, rank: int | None, cause: str | None) -> dict[str, dict]:
    """In words, and the fields of the plan that it changes: about half of those that there are."""
    others = [each for each in range(plan.world) if each != rank]

    def another() -> int:
        return int(rng.choice(others))

    found = {}
    # Behind a long warm-up a host that runs ahead hides even a slow loader for some steps: then nothing would be known.
    if rng.random() < 0.6 and (cause != INPUT or plan.waits):
        kernel, slow = plan.kernel.copy(), another()
        kernel[0, slow] *= rng.uniform(2.5, 4)
        found["a long warm-up"] = {"kernel": kernel}
    if rng.random() < 0.5:
        parts = plan.parts.copy()
        parts[another()] = 3
        found["shorter kernels"] = {"parts": parts}
    if rng.random() < 0.5:
        beside = plan.beside.copy()
        beside[another()] = int(rng.integers(3, 9))
        found["kernels beside"] = {"beside": beside}
    if not plan.waits and rng.random() < 0.6:
        load = plan.load.copy()
        load[:, another()] = _step_us(plan) * rng.uniform(0.4, 0.7)
        found["a loader that is hidden"] = {"load": load}
    if rng.random() < 0.5:
        found["clocks that disagree"] = {"skew": rng.uniform(-2e5, 2e5, plan.world)}
    if rng.random() < 0.3:
        found["older names"] = {"older": True}
    return found


def main(seeds: int) -> None:
    """How often the view finds the truth, over ``seeds`` times nine runs."""
    from gapless.evidence.ranks.straggler import straggler

    right = total = 0
    for seed in range(seeds):
        for run in rank_runs(seed):
            found = straggler(run.traces)
            total += 1
            right += (found.rank, found.cause) == (run.rank, run.cause)
            if (found.rank, found.cause) != (run.rank, run.cause):
                print(f"seed {seed}: {run}\n{found}")
    print(f"{right} of {total}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
