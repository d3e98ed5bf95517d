"""Lesson 09: the runs whose traces ``find_straggler`` gets, and what is said of a wrong finding.

Each is played from a plan (:mod:`.rank_traces`), so that it is known who is late, and by how much.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....course.evidence import Case
from ....evidence.ranks.straggler import straggler
from ....evidence.traces.trace import Trace
from .stage import RANK, WHY
from .traces import LOADER_WITHOUT_WORKERS, Plan, even_plan, simulate

# Name → (plan of an even run, rank) → the plan with what slows that rank, or only seems to.
SLOWED = {
    "slower kernels": lambda plan, rank: _more(plan, "kernel", rank, 1.4),
    "a slow loader": lambda plan, rank: _more(plan, "load", rank, 1.0, plus=1.5 * _step_us(plan)),
    "even": lambda plan, rank: plan,
    # Near the three borders, on both sides: a twentieth, a fifth, 1.3 times.
    "kernels slower by less than counts, and a slow loader on all": lambda plan, rank: _more(
        replace(plan, load=plan.load + 2 * _step_us(plan)), "kernel", rank, 1.1),
    "kernels slower by a little": lambda plan, rank: _clock_ahead(_more(plan, "kernel", rank, 1.09), rank),
    "a network that is just slow": lambda plan, rank: _clock_ahead(_network(plan, 0.76), rank),
    "one rank's link is slower by less than counts": lambda plan, rank: _slow_link(plan, rank, 1.2),
    "one rank's link is slower by a little": lambda plan, rank: _slow_link(plan, rank, 1.4),
    "a network that is nearly slow": lambda plan, rank: _network(plan, 0.54),  # steps 8 to 11
    "many small kernels on one rank": lambda plan, rank: _more(plan, "parts", rank, 3),
    "kernels on a stream beside on one rank": lambda plan, rank: _more(plan, "beside", rank, 0, plus=4),
    "a loader that the queue hides": lambda plan, rank: _more(
        plan, "load", rank, 1.0, plus=0.3 * _step_us(plan) * (np.arange(plan.steps) > 0)),  # the first finds no queue
    "a slow network for all": lambda plan, rank: replace(plan, rate=np.full(plan.world, _slow_rate(plan))),
    "much communication, nearly all of it beside kernels": lambda plan, rank: replace(
        plan, buckets=6, rate=np.full(plan.world, plan.layers * plan.elements / (0.4 * _step_us(plan)))),
    "one rank's link is slow": lambda plan, rank: _more(  # beside a group that has nothing to be compared with
        replace(plan, grid=2, small={tuple(range(plan.world)): 1}), "rate", rank, 0.0, plus=_slow_rate(plan)),
    "slower kernels, and another's small ones": lambda plan, rank: _more(
        _more(plan, "kernel", rank, 1.35), "parts", (rank + 1) % plan.world, 4),
    "slower kernels, and another's clock is ahead": lambda plan, rank: _clock_ahead(
        _more(plan, "kernel", rank, 1.35), rank + 1),
    "a slow loader, kernels a little slower, and another's small kernels": lambda plan, rank: _more(
        _more(_more(plan, "load", rank, 1.0, plus=1.3 * _step_us(plan)), "kernel", rank, 1.15),
        "parts", (rank + 1) % plan.world, 4),
    "slower kernels, and a loader that the queue hides": lambda plan, rank: _more(
        _more(plan, "kernel", rank, 1.3), "load", rank, 1.0, plus=0.6 * _step_us(plan) * (np.arange(plan.steps) > 0)),
    "slower kernels, and a loader beside a copy": lambda plan, rank: _more(
        _more(replace(plan, copy=0.5 * _step_us(plan)), "kernel", rank, 1.3), "load", rank, 1.0, plus=0.4 * _step_us(plan)),
    "slower kernels, and a loader a little slower": lambda plan, rank: _more(
        _more(plan, "kernel", rank, 1.4), "load", rank, 1.0, plus=0.1 * _step_us(plan)),
    "a slow loader, and kernels on a stream beside": lambda plan, rank: _more(
        _more(plan, "load", rank, 1.0, plus=0.5 * _step_us(plan)), "beside", rank, 0, plus=4),
    "slower kernels, under a slow network": lambda plan, rank: _more(
        replace(plan, rate=plan.rate * 0.3), "kernel", rank, 1.6),
    # Who is not late: the others' median tells it, not their mean or their longest.
    "fewer kernels on one rank of four": lambda plan, rank: _more(plan, "kernel", rank, 0.6),
    "a few kernels fewer on one rank of three": lambda plan, rank: _more(plan, "kernel", rank, 0.91),
    "fewer kernels on one rank of four, and a network that is nearly slow": lambda plan, rank: _more(
        _network(plan, 0.5), "kernel", rank, 0.5),
    "a slow loader, and fewer kernels on another rank of four": lambda plan, rank: _more(
        _more(plan, "load", rank, 1.0, plus=0.5 * _step_us(plan)), "kernel", (rank + 1) % plan.world, 0.3),
    "a slow loader without workers": lambda plan, rank: _more(
        replace(plan, loader=LOADER_WITHOUT_WORKERS), "load", rank, 1.0, plus=1.5 * _step_us(plan)),
    "slower kernels, and a loader while memory is set": lambda plan, rank: _more(
        _more(replace(plan, copy=0.5 * _step_us(plan), fills=True), "kernel", rank, 1.3), "load", rank, 1.0,
        plus=0.4 * _step_us(plan)),
    "slower kernels, and copies beside the communication": lambda plan, rank: _more(
        replace(plan, copies=True), "kernel", rank, 1.4),
    "the links of two neighbours are slow": lambda plan, rank: _slow_link(_slow_link(plan, rank, 2), rank ^ 1, 2),
    "one rank's link is slow, of twelve ranks": lambda plan, rank: replace(
        _slow_link(plan, rank % 2, 2), grid=3),  # 10 and 11 have these digits too
    # Collectives that a median over equal ones leaves out, in groups of four ranks: [0, 1], [2, 3], [0, 2], [1, 3].
    "one rank's link is slow, but each of its groups is quick once, and another slow": lambda plan, rank: replace(
        _slow_link(plan, 1, 2), once={(0, 1): 0.1, (1, 3): 0.1, (2, 3): 12.0}),
    "a slow network, over whose links two groups reduce some numbers too": lambda plan, rank: replace(
        _slow_link(plan, rank, 1), small={(0, 1): 1, (2, 3): 6, (0, 2): 1, (1, 3): 6}),
    "the links of one rank are slow, but not in a group that reduces some numbers": lambda plan, rank: replace(
        _slow_link(plan, 0, 2), small={(0, 3): 2, (1, 2): 2}),
}


def _step_us(plan: Plan) -> float:
    """The kernels of a step."""
    return 3 * plan.layers * float(plan.kernel.mean())


def _slow_rate(plan: Plan, times: float = 1.5) -> float:
    """Elements a µs with which a step's gradients take so many times as long as its kernels."""
    return plan.layers * plan.elements / (times * _step_us(plan))


def _network(plan: Plan, times: float) -> Plan:
    """One that takes so many times as long as the kernels, which hide the same share of it whatever was drawn."""
    plan = replace(plan, layers=9, buckets=3)
    return replace(plan, rate=np.full(plan.world, _slow_rate(plan, times)))


def _slow_link(plan: Plan, rank: int, times: float) -> Plan:
    """A slow network, in which one rank's link is so many times as slow as it would be."""
    rate = plan.rate if plan.grid > 1 else np.full(plan.world, _slow_rate(plan))
    return _more(replace(plan, grid=2, rate=rate), "rate", rank, 1 / times)


def _clock_ahead(plan: Plan, rank: int) -> Plan:
    return replace(plan, skew=80_000.0 * np.eye(plan.world)[rank % plan.world])


def _more(plan: Plan, name: str, rank: int, times: float, plus: float | np.ndarray = 0.0) -> Plan:
    """The plan with ``name`` so many times as large on one rank, and ``plus`` more."""
    values = getattr(plan, name).copy()
    values[..., rank] = values[..., rank] * times + plus
    return replace(plan, **{name: values})


# What is in a name → of how many ranks it is. Of two ranks the median of both is halfway to the one that is late.
_WORLDS = {"twelve": 12, "link": 4, "of four": 4, "of three": 3, "by a little": 2}


def naming_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    found = []
    for slow, change in SLOWED.items():
        named = next((count for word, count in _WORLDS.items() if word in slow), None)
        world = named or int(rng.choice((2, 3, 4, 4)))
        rank = int(rng.integers(world))
        even = even_plan(rng, world, steps=4, waits=bool(rng.random() < 0.5), older=bool(rng.random() < 0.3),
                         first=len(found))
        even = replace(even, waits="hides" not in slow) if "loader" in slow else even
        traces = [trace.events for trace in simulate(change(even, rank))]
        found.append(Case(f"{slow}, {world} ranks", {}, {"traces": traces}))
    return found


def explain_naming(case: Case, found, wanted) -> str | None:
    """What the traces show, rank by rank."""
    shown = straggler(dict(enumerate(map(Trace, case.options["traces"]))))
    rows = "; ".join(f"rank {pace.rank}: {pace.computing_us / 1e3:.2f} ms of kernels, {pace.input_us / 1e3:.2f} ms idle "
                     f"inside "
                     f"the loader's block, {pace.exposed_us / 1e3:.2f} ms of communication while nothing computes"
                     for pace in shown.ranks)
    if not isinstance(found, dict):
        return None
    if found[RANK] == wanted[RANK]:
        words = f"The rank is right, but the reason is not: {found[WHY]!r}."
    elif wanted[RANK] is None and wanted[WHY] == "network":
        words = ("The network sets the pace, but no rank is in every slow group and in no other. A group is slow if equal "
                 "collectives take over 1.3 times as long in it as in the fastest group, by their median.")
    elif wanted[RANK] is None:
        words = "No rank makes the others wait for a twentieth of the time."
    elif wanted[WHY] == "network":
        words = (f"Here the ranks communicate in several groups. Of those that can be compared, the slow ones are those "
                 f"with rank {wanted[RANK]} (`span.args[\"Process Group Ranks\"]`, numbers), by the median of equal "
                 "collectives.")
    else:
        words = "The rank that the others wait for waits least itself."
    return f"{words} A step of this run: {rows}."
