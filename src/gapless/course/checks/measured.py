"""What the checks of a measurement share: whether it counts at all, and that it holds at every size."""

from __future__ import annotations

import statistics
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from ...evidence.report import StepReport
from ...words import counted, origin
from ..check import Check, Found, Look
from ..evidence import Evidence, Measured, Run
from ..exercise import Exercise
from ..faults import error_advice
from ..tolerance import NOISE
from ..verdicts import FAIL, INCONCLUSIVE, PASS

DRIFT = 0.2  # how far the slow function's two runs may lie apart on a real GPU

# At the article's size a function does at least this share of what it does at the trial's, both beside the slow function.
_SHIRKED = 0.5

_ROUNDING = 0.01  # of bytes that have to be copied: a number or two that is read is none of them


@dataclass(frozen=True)
class OfMeasurement(Check):
    """A check of what a measurement shows, at the article's size and on the trial's inputs. It counts once the values are
    right. ``counts``: whether it judges a number of things, the same on every card, and no time."""

    measured = True
    counts = False
    noise: ClassVar[float] = NOISE  # how far the figures of two that do the same may lie apart on a real GPU

    @abstractmethod
    def judge_one(self, look: Look, measured: Measured) -> Found:
        """The outcome of one measurement that counts, and what to say."""

    @abstractmethod
    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """What is judged of a run beside the slow function's, the less the better: a number, and in words."""

    @abstractmethod
    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """Whether ``own`` is better than the slow function's run, by more than noise: at most this ``share`` of it, where it
        is no count."""

    def judge(self, look: Look) -> Found:
        """The outcome at the article's size, and on the trial's inputs too where these can be measured as well."""
        if look.found["values"][0] != PASS:
            return FAIL, "Not counted before the values are right."
        evidence, main = look.evidence, look.evidence.main
        if main is None:
            return FAIL, "Nothing was measured: the run ended before."
        outcome, message = self._judge(look, main)
        if outcome != PASS or main is evidence.trial or not (self.counts or evidence.simulated):
            return outcome, message  # a real GPU cannot be slowed down to suit smaller inputs
        other, why = self._judge(look, evidence.trial)
        if other != PASS:
            return other, ("It meets the target at the article's size, where no values can be checked, but not on smaller "
                           f"inputs, where they are. A function has to do the same at every size. On those: {why}")
        less = shirked(evidence)
        return (FAIL, less) if less is not None else (outcome, message)

    def _judge(self, look: Look, measured: Measured) -> Found:
        found = void(look, measured) or self._beside_the_model(look, measured)
        return found if found[0] != PASS else beside(look.exercise, measured) or found

    def _beside_the_model(self, look: Look, measured: Measured) -> Found:
        """A real GPU is none that the targets were set for: what the model solution reaches on it is enough, and decides
        where a time is too close to its target to tell."""
        found, model, slow = self.judge_one(look, measured), measured.model, measured.before
        if (found[0] == PASS or model is None or read_back(look.exercise, measured) is not None
                or (found[0] == INCONCLUSIVE and drift(look.evidence, measured) is not None)):
            return found
        (own, own_text), (best, best_text) = self.figure(measured.learner, slow), self.figure(model, slow)
        room = max(self.noise, _spread(model)) if self.noise else 0.0
        if own > (1 + room) * best:
            return found
        slow_text = self.figure(slow, slow)[1]
        return PASS, (f"{own_text}, and {best_text} with the model solution (slow: {slow_text}). As good as the model "
                      "solution is enough on a real GPU.")

    def passes_as_handed_out(self, look: Look) -> bool:
        """Whether the slow function passes as well: such as a time that may be a little longer."""
        main = look.evidence.main
        if main is None:
            return False
        return self._beside_the_model(replace(look, cells={}), replace(main, learner=main.before))[0] == PASS


def _spread(run: Run) -> float:
    """How far a run's times lie apart, as a share of them: on a GPU or host that others use too. Not of the learner's run:
    who makes it vary would gain."""
    return (max(run.samples_ms) - min(run.samples_ms)) / run.true_ms


def void(look: Look, measured: Measured) -> Found | None:
    """Why a measurement does not count, or None."""
    exercise, evidence = look.exercise, look.evidence
    if measured.error is not None:
        where = "At full size" if measured is evidence.full else "While it was measured"
        return FAIL, f"{where} it raised {measured.error}.{error_advice(measured.error)}"
    if measured.learner is None:
        return FAIL, "Nothing was measured: the run ended before."
    before, after = measured.before, measured.after
    if evidence.simulated and before.fewest_kernels and not measured.learner.fewest_kernels:
        return FAIL, ("A call that is measured launches nothing, where the slow function launches "
                      f"{counted(before.fewest_kernels, 'kernel')}: work that waits until somebody reads the answer "
                      "does not count. Do it when the function is called.")
    missing = _missing(exercise, evidence, measured)
    if missing is not None:
        return FAIL, missing
    if after is None:
        return None
    changed = None
    if sync_count(after) != sync_count(before):
        changed = f"{counted(sync_count(before), 'wait')} a step before and {sync_count(after):g} after"
    elif evidence.simulated and (after.true_ms, after.host_ms) != (before.true_ms, before.host_ms):
        changed = f"{before.true_ms:.3f} ms a step before and {after.true_ms:.3f} ms after"
    if changed is not None:
        return FAIL, (f"The measurement is void: the slow function, measured again after yours, shows {changed}. "
                      "Something in the cell changes PyTorch or the clock for the rest of the process.")
    return None


# As many times what the slow function has done beside the calls that are measured may be done: before, as who warms up for a
# capture and puts everything back needs twice as much, and nothing is known yet of what will be measured; and afterwards,
# where another network than the slow one's may be looked at.
_FEW_BYTES = 64  # of a trial's calls together: a few numbers are no work, and the wait that they cost is counted
_BESIDE = {"aside": ("before them", 2.0), "afterwards": ("after them", 1.25)}
_COUNTED = {"waits": "the host waits {:,} times", "kernels": "{:,} kernels are launched",
            "read_back_bytes": "{:,} bytes are copied to the host", "sent_bytes": "{:,} bytes are copied to the device"}


def beside(exercise: Exercise, measured: Measured) -> Found | None:
    """Why a measurement does not count, where work was done beside the calls that are measured; else None."""
    besides = {"kernels": exercise.measurement.kernels_beside, "read_back_bytes": _FEW_BYTES, "sent_bytes": _FEW_BYTES}
    for part, (when, ratio) in _BESIDE.items():
        own, slow = (getattr(run, part) for run in (measured.learner, measured.before))
        for name, said in _COUNTED.items():
            done, most = getattr(own, name), ratio * getattr(slow, name) + besides.get(name, 0)
            if done > most:
                return FAIL, (f"Work outside the measured calls does not count: {when} {said.format(done)}, with the "
                              f"slow function {getattr(slow, name):,}. Do the work in the call itself, in every call.")
    return None


def _missing(exercise: Exercise, evidence: Evidence, measured: Measured) -> str | None:
    """What every function has to do, and this one does not."""
    own, waits = measured.learner.report, measured.learner.report.syncs_per_step
    wanted = exercise.measurement
    least = wanted.least_bytes_ratio * (measured.best or measured.before).report.bus_bytes
    if own.bus_bytes < (1 - _ROUNDING) * least:
        return (f"Only {megabytes(own.bus_bytes)} go over the bus in {wanted.step_is}, of the {megabytes(least)} that "
                "the device needs: something is not copied, or not in every call, so no time counts.")
    best, done = measured.best, measured.learner
    if best is not None and evidence.simulated and (
            done.fewest_kernels < wanted.least_work_ratio * best.fewest_kernels
            or own.device_busy_ms < wanted.least_work_ratio * best.report.device_busy_ms):
        return (f"The device launches {counted(done.fewest_kernels, 'kernel')} and works for {own.device_busy_ms:.1f} ms in "
                f"{wanted.step_is}, in the model solution {best.fewest_kernels} and {best.report.device_busy_ms:.1f} ms: "
                "work is left out, or done elsewhere, so no time counts.")
    if waits < wanted.own_waits:
        return (f"{exercise.step_capitalised} has {counted(waits, 'wait')}, where it waits "
                f"{counted(wanted.own_waits, 'time')} by itself, whatever the function does: the step itself was "
                "changed, so no time counts.")
    return None


def shirked(evidence: Evidence) -> str | None:
    """At the article's size it must do what it does where its values are checked: compared by what the slow function
    does."""
    full, trial = evidence.full, evidence.trial
    shares = [measured.learner.report.device_busy_ms / max(measured.before.report.device_busy_ms, 1e-9)
              for measured in (full, trial)]
    launched = [measured.learner.fewest_kernels / max(measured.before.fewest_kernels, 1) for measured in (full, trial)]
    if not evidence.simulated or (shares[0] > _SHIRKED * shares[1] and launched[0] >= _SHIRKED * launched[1]):
        return None
    what, found = ("device time", shares) if shares[0] <= _SHIRKED * shares[1] else ("kernels", launched)
    return (f"At the article's size it does less than where its values are checked: {found[0]:.0%} of the slow function's "
            f"{what} there, {found[1]:.0%} on the smaller inputs. A function has to do the same at every size. "
            "Does an `if` depend on a value? Nothing has values at that size, so it goes one way: use `torch.where`.")


def sync_count(run: Run) -> float:
    """Of a call: of those profiled, and of the others."""
    return max(run.report.syncs_per_step, run.most_waits)


def read_back(exercise: Exercise, measured: Measured) -> str | None:
    """What is copied to the host, where that is too much to be a number or two."""
    report = measured.learner.report
    nbytes = sum(copy.bytes for copy in report.copies if copy.direction == "DtoH" and copy.step is not None)
    nbytes /= max(report.steps, 1)
    if nbytes <= exercise.measurement.max_read_back_bytes:
        return None
    return (f"{nbytes / 1e6:.3g} MB a step are copied from the device to the host. The work has to stay on the device: "
            "no figure measured here includes what the host computes or keeps.")


def operators(report: StepReport) -> list[str]:
    """The names of what waits, in their order."""
    return sorted(sync.op or sync.name for sync in report.syncs_in_steps)


def names_of_waits(report: StepReport) -> str:
    """What waits."""
    return ", ".join(f"`{name.removeprefix('aten::')}`" for name in dict.fromkeys(operators(report))) or "some calls"


def drift(evidence: Evidence, measured: Measured) -> str | None:
    """That a real GPU's speed has changed too much between the slow function's two runs for a time to count."""
    slow = [run.true_ms for run in (measured.before, measured.after) if run is not None]
    if evidence.simulated or max(slow) <= (1 + DRIFT) * min(slow):
        return None
    return (f"The GPU's speed drifted while it was measured: the slow function took {slow[0]:.2f} ms before and "
            f"{slow[-1]:.2f} ms after yours. Run it again.")


def judge_time(look: Look, measured: Measured, limit: float, key: str, phrase: str, next_step: str) -> Found:
    """Whether the run's ``key`` is at most this share of the slow function's."""
    exercise, evidence = look.exercise, look.evidence
    copied = read_back(exercise, measured)
    if copied is not None:
        return FAIL, copied
    drifted = drift(evidence, measured)
    if drifted is not None:
        return INCONCLUSIVE, drifted
    slow = [getattr(run, key) for run in (measured.before, measured.after) if run is not None]
    slow_ms, own_ms = statistics.mean(slow), getattr(measured.learner, key)
    ratio = own_ms / slow_ms
    kind = origin(evidence.simulated, evidence.device_name)
    if evidence.simulated and measured is not evidence.main:
        kind += ", slowed down to suit the smaller inputs"
    facts = f"{phrase} {own_ms:.2f} ms (slow: {slow_ms:.2f} ms; target: at most {limit * slow_ms:.2f} ms; {kind})."
    if not evidence.simulated and abs(ratio - limit) < NOISE * limit:
        return INCONCLUSIVE, facts + " That is too close to the target to tell from noise: run it again."
    return (PASS, facts) if ratio <= limit else (FAIL, f"{facts} {next_step}")


def takes_less(own: Run, slow: Run, share: float, key: str) -> bool:
    """Whether ``own``'s time ``key`` is less than this share of the slow function's, and so is something that the device
    had to do in a call. The host's time alone proves nothing: its Python is counted in the learner's own process."""
    return (getattr(own, key) < share * getattr(slow, key)
            and any(less < share * more for less, more in zip(_device_work(own), _device_work(slow))))


def _device_work(run: Run) -> tuple[float, ...]:
    """What the device had to do in a call."""
    return run.report.kernels, run.report.bus_bytes, run.report.device_busy_ms, run.report.syncs_per_step


def megabytes(nbytes: float) -> str:
    """Such as "12.6 MB"."""
    return f"{nbytes / 1e6:.3g} MB"
