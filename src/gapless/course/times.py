"""How long a step takes, judged: the checks of time, and what they ask of a measurement."""

from __future__ import annotations

import statistics
from dataclasses import replace

from ..evidence.report import StepReport
from .checks import FAIL, INCONCLUSIVE, PASS
from .evidence import Evidence, Measured, Run
from .exercise import Exercise
from .faults import NOISE

_SEE_WAITS = "It still waits for the device: see the waits above."


def sync_count(run: Run) -> float:
    """Of a call: of those profiled, and of the others."""
    return max(run.report.syncs_per_step, run.most_waits)


def read_back(exercise: Exercise, measured: Measured) -> str | None:
    """What is copied to the host, where that is too much to be a number or two."""
    report = measured.learner.report
    nbytes = sum(copy.bytes for copy in report.copies if copy.direction == "DtoH" and copy.step is not None)
    nbytes /= max(report.steps, 1)
    if nbytes <= exercise.max_read_back_bytes:
        return None
    return (f"{nbytes / 1e6:.3g} MB a step are copied from the device to the host. The work has to stay on the "
            "device; what the host computes, or keeps, is in no figure that is measured here.")


def operators(report: StepReport) -> list[str]:
    """The names of what waits, in their order."""
    return sorted(sync.op or sync.name for sync in report.syncs_in_steps)


def _names(report: StepReport) -> str:
    """What waits."""
    return ", ".join(f"`{name.removeprefix('aten::')}`" for name in dict.fromkeys(operators(report))) or "some calls"


def host_time(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str]:
    """Whether the host is free again soon enough."""
    waits = sync_count(measured.learner) > exercise.max_syncs
    next_step = (_SEE_WAITS if waits and "syncs" in exercise.points else
                 f"It waits for the device, in {_names(measured.learner.report)}." if waits else
                 exercise.advice.get("host_time", "It does not wait: it calls too much. What could one call do for all?"))
    return _time(exercise, evidence, measured, "host_time", "host_ms", "The host is free again after", next_step)


def step_time(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str]:
    """Whether a step takes little enough."""
    if "syncs" in exercise.points and sync_count(measured.learner) > exercise.max_syncs:
        next_step = _SEE_WAITS
    elif "syncs" in exercise.points:
        next_step = exercise.advice.get(
            "step_time", "It is not only the waits: the device has to do less work. Which of it would nobody miss?")
    else:
        next_step = exercise.advice.get(
            "step_time", "No wait is to blame: count the multiplications, and ask for whom they are made.")
    return _time(exercise, evidence, measured, "step_time", "true_ms",
                 f"{exercise.step_capitalised} takes", next_step)


def speed_up(exercise: Exercise, evidence: Evidence, measured: Measured, check: str) -> tuple[str, str]:
    """Whether so large a share of the model solution's speed-up is reached."""
    share = exercise.speed_up_shares[check]
    most = measured.before.true_ms / measured.best.true_ms
    wanted = 1 + share * (most - 1)
    exercise = replace(exercise, max_time_ratio={check: 1 / wanted})
    outcome, facts = _time(exercise, evidence, measured, check, "true_ms", f"{exercise.step_capitalised} takes",
                           exercise.advice.get("step_time", "What costs most now? Profile it again."))
    own = measured.before.true_ms / measured.learner.true_ms
    return outcome, (f"{own:.2f}× as fast as the slow program; {wanted:.2f}× is wanted here, the model solution reaches "
                     f"{most:.2f}×. {facts}")


def _time(exercise: Exercise, evidence: Evidence, measured: Measured, check: str, key: str, phrase: str, next_step: str
          ) -> tuple[str, str]:
    copied = read_back(exercise, measured)
    if copied is not None:
        return FAIL, copied
    slow = [getattr(run, key) for run in (measured.before, measured.after) if run is not None]
    slow_ms, own_ms = statistics.mean(slow), getattr(measured.learner, key)
    limit = exercise.max_time_ratio[check]
    ratio = own_ms / slow_ms
    kind = f"simulated {evidence.device_name}" if evidence.simulated else f"measured on {evidence.device_name}"
    if evidence.simulated and measured is not evidence.main:
        kind += ", slowed down to suit the smaller inputs"
    facts = f"{phrase} {own_ms:.2f} ms (slow: {slow_ms:.2f} ms; wanted: at most {limit * slow_ms:.2f} ms; {kind})."
    if not evidence.simulated and abs(ratio - limit) < NOISE * limit:
        return INCONCLUSIVE, facts + " That is too close to the target to tell from noise: run it again."
    return (PASS, facts) if ratio <= limit else (FAIL, f"{facts} {next_step}")
