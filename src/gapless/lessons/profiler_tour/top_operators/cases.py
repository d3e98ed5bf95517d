"""Lesson 01: the inputs of ``top_operators``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....course.evidence import Case
from ....evidence import views
from ....evidence.traces.trace import Trace
from ..cases import EARLIER, REAL, trace_case, trapped_cases
from ..disturbances import before_the_steps, nested
from ..real import real_step
from ..traces import USER_LINES, Traps, training_trace


def _launching(events: list[dict]) -> int:
    """How many operators' names launched something: among the others the order is nobody's business."""
    return sum(row.device_self_us > 0 for row in views.top_operators(Trace(events), None))


def _one_launches_nothing(events: list[dict]) -> Case:
    """All rows are asked for. Of the operators that launch nothing themselves one alone is left: the last row is its."""
    idle = {row.name for row in views.top_operators(Trace(events), None) if not row.device_self_us}
    kept = [event for event in events if event.get("cat") != "cpu_op" or event["name"] not in idle]
    kept.append({**next(event for event in kept if event.get("cat") == "cpu_op"), "name": "aten::empty", "dur": 0.0})
    return trace_case("an operator that launches nothing", kept, k=_launching(kept) + 1)


def operator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, events: list[dict], k: int | None = None) -> Case:
        launching = _launching(events)
        return trace_case(name, events, k=min(k or launching, launching))

    def make() -> list[dict]:
        return training_trace(rng, Traps(copies=True, own_thread_busy=rng.random() < 0.5), int(rng.integers(1, 3)))

    all_rows = _one_launches_nothing(training_trace(rng, Traps(copies=True)))
    return [
        case("forward only", training_trace(rng, Traps(backward=False)), 3),
        case("forward and backward", training_trace(rng, Traps()), 6),
        case("with copies and memsets", training_trace(rng, Traps(copies=True, in_flight=True))),
        case("the main thread is busy while the backward thread launches",
             training_trace(rng, Traps(own_thread_busy=True, copies=True))),
        case("a labelled block launches something itself", training_trace(rng, Traps(outside=True))),
        # An operator and the one inside it would share a rank: which comes first, the task does not say.
        *(case(name, events) for name, events in trapped_cases(rng, make, without=(nested,))),
        all_rows,
        case(REAL, real_step(), 8),
        case(EARLIER, before_the_steps(training_trace(rng, Traps()), USER_LINES[0])),
        replace(all_rows, name="more rows are asked for than there are", options={**all_rows.options, "k": 1000}),
    ]
