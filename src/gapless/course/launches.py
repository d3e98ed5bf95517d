"""The check of what a step launches: fewer kernels than the slow function, and none of a kind that nobody needs."""

from __future__ import annotations

import re
from collections import Counter

from ..evidence.report import StepReport
from ..evidence.steps import Steps, launches_by_correlation, work_in_steps
from .checks import FAIL, PASS
from .evidence import Evidence, Measured
from .exercise import Exercise

_MOST_NAMES = 4


def kernels_check(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str]:
    """The outcome of the check ``kernels``, and what to say."""
    slow, own = kernels_of(measured.before.report), kernels_of(measured.learner.report)
    count, before = own.total(), slow.total()
    facts = f"{exercise.step_capitalised} launches {count:g} kernels, {before:g} in the slow function"
    if exercise.unwanted_kernels:
        left = {name: number for name, number in own.items() if re.search(exercise.unwanted_kernels, name)}
        if left:
            return FAIL, f"{facts}. Among them are still: {_listed(left)}. {exercise.advice.get('kernels', '')}".rstrip()
    if count > before - exercise.fewer_kernels:
        return FAIL, (f"{facts}; at most {before - exercise.fewer_kernels:g} are wanted. As often as before, or more often: "
                      f"{_listed({name: number for name, number in own.items() if number >= slow[name]})}. "
                      f"{exercise.advice.get('kernels', '')}").rstrip()
    gone = {name: number - own[name] for name, number in slow.items() if number > own[name]}
    return PASS, f"{facts}. Fewer by: {_listed(gone)}."


def kernels_of(report: StepReport) -> Counter:
    """Name → how often a step launches that kernel, on average."""
    spans = report.trace.spans
    work = work_in_steps(spans, Steps(spans), launches_by_correlation(spans))
    counts = Counter(span.name for span in work if span.category == "kernel")
    return Counter({name: number / max(report.steps, 1) for name, number in counts.items()})


def _listed(kernels: dict[str, float]) -> str:
    most = sorted(kernels.items(), key=lambda item: -item[1])
    rest = f", and {len(most) - _MOST_NAMES} kinds more" if len(most) > _MOST_NAMES else ""
    return (", ".join(f"{number:g} × `{name[:60]}`" for name, number in most[:_MOST_NAMES]) or "none") + rest
