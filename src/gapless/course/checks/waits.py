"""The check of waits: how often the host waits for the device, in which operators, at which lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...evidence.quote import quoted
from ...words import counted
from ..check import Found, Look
from ..evidence import Measured, Run
from ..exercise import Exercise
from ..verdicts import FAIL, PASS
from .measured import OfMeasurement, operators, read_back, sync_count

SEE_WAITS = "It still waits for the device: see the waits above."

# Operator → why it waits and what to try; an exercise may know better (Waits.advice). A copy's reason depends on its
# direction: see Waits._reason.
ADVICE = {
    "nonzero": "the size of its result is the number of true elements, which only the device knows; indexing with a mask "
               "counts it in the same way. Use an operation whose result is as large as its input",
    "item": "a Python number, `if`, `print`, `float()` or indexing with a single truth value (`x[mask]`, `mask` a scalar) "
            "needs the value on the host. If you only log or count it, read it later, many at once. Otherwise keep it a "
            "tensor: divide by the tensor itself, choose with `torch.where`",
    "_unique2": "the size of its result is the number of distinct values, which only the device knows. Ask for something of "
                "fixed size instead: a smallest, a largest, a count",
    "equal": "it answers with a Python bool. Compare element by element, and keep the result a tensor",
    "bincount": "its length is the largest value. `scatter_add_` into a tensor of known length does not wait",
    "repeat_interleave": "pass `output_size`, if the host knows it",
}
ADVICE["cudaStreamSynchronize"] = ADVICE["cudaEventSynchronize"] = (
    "`synchronize()` of a stream or an event makes the host wait until the device has come that far. Make a stream wait "
    "for the event (`stream.wait_event(event)`), or wait later, when the device has long passed it")
ADVICE["index"] = ADVICE["masked_select"] = ADVICE["nonzero"]
ADVICE["is_nonzero"] = ADVICE["item"]
ADVICE["allclose"] = ADVICE["equal"]
ADVICE["unique_consecutive"] = ADVICE["unique_dim"] = ADVICE["_unique2"]
_COPIES = ("to", "_to_copy", "copy_")
READ_BACK = "`print`, `.cpu()`, `.tolist()` and `.numpy()` bring the values to the host. Keep them on the device"
FROM_HOST = ("a value made on the host is copied to the device. Make it there (`torch.full`), or give a plain number to the "
             "operator itself. With an integer or a tensor as index, `x[i] = 0` copies its number; `x[i].fill_(0)` and "
             "`x.index_fill_(0, i, 0)` do not")


@dataclass(frozen=True)
class Waits(OfMeasurement):
    """A step waits at most so often, and so does a call on each of the inputs (``Case.most_waits``). ``advice``: operator
    (``item``) → why it waits here and what to try, in place of :data:`ADVICE`."""

    at_most: float = 0
    advice: dict[str, str] = field(default_factory=dict)

    name = "syncs"
    counts = True
    noise = 0.0
    in_cases = True  # whether it is asked of each input, too

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether every call waits seldom enough; else where it waits, and why."""
        report = measured.learner.report
        before = sync_count(measured.before)
        allowed, most = self._allowed(before), sync_count(measured.learner)
        if report.syncs_per_step <= allowed < most:
            return FAIL, (f"It waits {report.syncs_per_step:g} times in the calls that are profiled and {most:g} times in "
                          "others: every call counts.")
        if report.syncs_per_step <= allowed:
            copied = read_back(look.exercise, measured)
            if copied is not None:
                return FAIL, copied
            if (rare := self._on_an_input(look)) is not None:
                return FAIL, rare
            left = "No wait is left" if not report.syncs_per_step else f"At most {allowed:g} may be left"
            return PASS, f"{left}: {before:g} in {look.exercise.measurement.step_is} before, {report.syncs_per_step:g} now."
        left = [sync for sync in report.syncs_in_steps if sync.step == report.syncs_in_steps[-1].step]
        may = f", and {allowed:g} may stay" if allowed > before else ""
        lines = [f"{len(left)} {'wait is' if len(left) == 1 else 'waits are'} left in {look.exercise.measurement.step_is} "
                 f"({before:g} in the slow function{may}):"]
        if operators(report) == operators(measured.before.report):
            lines.insert(0, "Your version waits exactly as often as the slow one, and in the same operators.")
        # By reason, so that each is explained once.
        reasons: dict[str | None, list[str]] = {}
        for (operator, kind, location), times_ms in _alike(left).items():
            where = f" at {location}{quoted(location, look.cells)}" if location else ""
            often = f"{len(times_ms)} × " if len(times_ms) > 1 else ""
            wait = f"{often}`{operator}`{where} ({sum(times_ms):.1f} ms)"
            reasons.setdefault(self._reason(operator, kind), []).append(wait)
        for reason, waits in reasons.items():
            lines.append(f"- {'; '.join(waits)}" + (f". Why: {reason}." if reason else "."))
        return FAIL, "\n".join(lines)

    def _on_an_input(self, look: Look) -> str | None:
        """What to say where a call on one of the inputs waits more often than it may."""
        for case, found in zip(look.plan.cases, look.evidence.answers) if self.in_cases else ():
            allowed = self.at_most if case.most_waits is None else case.most_waits
            if len(found.waits) > allowed:
                operator, location = found.waits[-1]
                where = f" at {location}{quoted(location, look.cells)}" if location else ""
                may = f"at most {allowed:g} may be" if allowed else "none may be"
                reason = self._reason(operator, "")
                return (f"While it is measured it waits seldom enough. But on the input \"{case.name}\" there "
                        f"{'is 1 wait' if len(found.waits) == 1 else f'are {len(found.waits)} waits'}, and {may}: such as "
                        f"`{operator}`{where}." + (f" Why: {reason}." if reason else ""))
        return None

    def _allowed(self, before: float) -> float:
        """How often a step may wait where the slow function's waits so often."""
        return self.at_most

    def _reason(self, operator: str, kind: str) -> str | None:
        known = self.advice.get(operator, ADVICE.get(operator))
        if known is not None and not (kind == "read-back" and operator in _COPIES):  # advice for the other direction
            return known
        return {"read-back": READ_BACK, "copy": FROM_HOST}.get(kind)

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """Their number."""
        return sync_count(run), counted(sync_count(run), "wait")

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By their number, of which a first call may have more: what a library keeps from then on."""
        return sync_count(own) < slow.report.syncs_per_step


class NoMoreWaits(Waits):
    """A step waits no more often than the slow function's, or than ``at_most``: what every exercise that is measured asks,
    where it has no check of waits."""

    in_cases = False

    def _allowed(self, before: float) -> float:
        return max(self.at_most, before)


def are_checked(exercise: Exercise) -> bool:
    """Whether the exercise has a check of waits."""
    return exercise.check_of(Waits) is not None


def allowed_waits(exercise: Exercise) -> float:
    """How often a step may wait."""
    check = exercise.check_of(Waits)
    return 0 if check is None else check.at_most


def _alike(waits) -> dict[tuple, list[float]]:
    """(operator, kind, location) → the milliseconds of the waits there."""
    found: dict[tuple, list[float]] = {}
    for sync in waits:
        operator = (sync.op or sync.name).removeprefix("aten::")
        found.setdefault((operator, sync.kind, sync.location), []).append(sync.wait_ms)
    return found
