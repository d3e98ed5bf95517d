"""Evidence → verdicts, in words that say what, why and what next. Runs no learner's code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from .. import vgpu
from ..evidence.quote import quoted
from ..evidence.report import BUS
from ..incoming import clean_text
from ..marker import parts
from ..measure.device import device as choose_device
from .causes import MadeAgain
from .checks import FAIL, INCONCLUSIVE, PASS, Verdict
from .evidence import Answer, Case, Evidence, Measured, Plan
from .exercise import Exercise
from .faults import Fault, error_advice, fault_of
from .gather import answer, precision_of
from .launches import kernels_check
from .peaks import peak_check
from .stage import LocalStage
from .times import host_time, operators, read_back, speed_up, step_time, sync_count

DRIFT = 0.2  # how far the slow function's two runs may lie apart on a real GPU

_WANTED_LESS = "waits less often, or takes less time or less memory"

# On the virtual GPU: the share of its time that a function has to save to be better than the slow one.
_GAIN = 0.02

# At the article's size a function does at least this share of what it does at the trial's, both beside the slow function.
_SHIRKED = 0.5

_ROUNDING = 0.01  # of bytes that have to be copied: a number or two that is read is none of them

_LONGEST_MESSAGE = 6000  # characters

# Exercises are judged in threads of one process, which has one virtual GPU with one clock, and at most one process group.
_ONE_AT_A_TIME = threading.RLock()

# Operator → why it waits and what to try; an exercise may know better (Exercise.advice). A copy's reason depends on its
# direction: see _reason.
ADVICE = {
    "nonzero": "the size of its result is the number of true elements, which only the device knows; indexing with a mask "
               "counts it in the same way. Use an operation whose result is as large as its input",
    "item": "a Python number, `if`, `print`, `float()` or indexing with a single truth value (`x[mask]`, `mask` a scalar) "
            "needs the value on the host. What is only logged or counted can be read later, many at once. Else keep it a "
            "tensor: divide by the tensor itself, choose with `torch.where`",
    "_unique2": "the size of its result is the number of distinct values, which only the device knows. Ask for something of "
                "fixed size instead: a smallest, a largest, a count",
    "equal": "it answers with a Python bool. Compare element by element, and keep the result a tensor",
    "bincount": "its length is the largest value. `scatter_add_` into a tensor of known length does not wait",
    "repeat_interleave": "pass `output_size`, if the host knows it",
}
ADVICE["index"] = ADVICE["masked_select"] = ADVICE["nonzero"]
ADVICE["is_nonzero"] = ADVICE["item"]
ADVICE["allclose"] = ADVICE["equal"]
ADVICE["unique_consecutive"] = ADVICE["unique_dim"] = ADVICE["_unique2"]
READ_BACK = "`print`, `.cpu()`, `.tolist()` and `.numpy()` bring the values to the host. Keep them on the device"
FROM_HOST = ("a value made on the host is copied to the device. Make it there (`torch.full`), or give the operator "
             "itself the plain Python number: it needs no copy")


class Truth:
    """What is right on an exercise's inputs, on the device of that name: found out once for each, and kept."""

    def __init__(self, exercise: Exercise, device: str):
        self._exercise, self._device = exercise, device
        self._found: dict[int, tuple[Case, Answer]] = {}
        self._made: MadeAgain | None = None

    def of(self, case: Case) -> Answer:
        """The expected answer. Raises RuntimeError where it cannot be found out."""
        with _ONE_AT_A_TIME:
            if id(case) not in self._found:  # its case is kept, so that no other gets that number
                self._found[id(case)] = case, expected_answer(self._exercise, case, self._device)
            return self._found[id(case)][1]

    def of_all(self, plan: Plan) -> None:
        """Find out what is right on all of a plan's inputs. Raises RuntimeError."""
        for case in (*plan.cases, *plan.trial):
            self.of(case)

    def cause(self, plan: Plan, evidence: Evidence, case: Case, found: Answer) -> str | None:
        """What a known mistake says of a wrong answer to ``case``."""
        if not self._exercise.mistakes or (self._exercise.truth_on_device and not evidence.simulated):
            return None  # a real clock never says the same twice
        others = [(other, own) for other, own in zip(plan.cases, evidence.answers)
                  if other is not case and own.error is None and own.unusable is None]
        with _ONE_AT_A_TIME:
            target = choose_device(self._device) if self._exercise.truth_on_device else torch.device("cpu")
            self._made = self._made or MadeAgain(self._exercise, target)
            return self._made.cause(case, found, others)


def judge(exercise: Exercise, plan: Plan, evidence: Evidence, truth: Truth | None = None, source: str | None = None
          ) -> list[Verdict]:
    """One verdict for each check in ``exercise.points``, in that order. ``truth``: of this exercise and device, where some
    of it is known already. ``source``: the text of the cell, whose lines are quoted.

    Waits and times count only once the values are right: what does nothing is fast. Where the function as handed out is
    right, values count only once something else is better than there.
    """
    if exercise.judged is not None:
        with _ONE_AT_A_TIME:
            return _verdicts(exercise, exercise.judged(exercise, plan, evidence))
    truth = truth or Truth(exercise, evidence.device)
    with _ONE_AT_A_TIME, precision_of(exercise):  # an explanation works out anew what the card reaches
        right, values = ((FAIL, _upper(evidence.error)) if evidence.error is not None
                         else _values(exercise, plan, evidence, truth))
    cells = {} if source is None else {exercise.name: source, **parts(source)}
    found = {"values": (right, values)}
    for check in exercise.points:
        if check != "values":
            found[check] = (_measured(exercise, evidence, check, cells) if right == PASS
                            else (FAIL, "Not counted before the values are right."))
    if right == PASS and exercise.right is None and not _better(exercise, evidence, found):
        found["values"] = FAIL, (f"{values} The function that was handed out has them right too: these points count once "
                                 f"yours {_WANTED_LESS}, than that one.")
        found |= {check: (FAIL, f"Not counted before yours {_WANTED_LESS}: {message}")
                  for check, (outcome, message) in found.items() if outcome != FAIL}
    return _verdicts(exercise, found)


def _verdicts(exercise: Exercise, found: dict[str, tuple[str, str]]) -> list[Verdict]:
    verdicts = []
    for check, points in exercise.points.items():
        outcome, message = found[check]
        message = clean_text(message, _LONGEST_MESSAGE)  # it quotes what the learner's function said and answered
        verdicts.append(Verdict(f"{exercise.name}.{check}", exercise.name, points, outcome, message))
    return verdicts


def _better(exercise: Exercise, evidence: Evidence, found: dict[str, tuple[str, str]]) -> bool:
    """Whether anything but the values is better than in the slow function; where there is nothing else, all is."""
    others = [check for check in exercise.points if check != "values"]
    if not others or any(found[check][0] != FAIL and not _passed_by_slow(exercise, evidence, check) for check in others):
        return True
    sizes = [measured for measured in (evidence.full, evidence.trial) if measured is not None]
    if not sizes or any(_void(exercise, evidence, measured) is not None for measured in sizes):
        return False
    if len(sizes) == 2 and _shirked(evidence) is not None:
        return False
    if any(read_back(exercise, size) and not read_back(exercise, replace(size, learner=size.before)) for size in sizes):
        return False
    least = 1 - (_GAIN if evidence.simulated else DRIFT)
    better = {
        "syncs": lambda size: sync_count(size.learner) < sync_count(size.before),
        "host_time": lambda size: size.learner.host_ms < least * size.before.host_ms,
        "step_time": lambda size: size.learner.true_ms < least * size.before.true_ms,
        "kernels": lambda size: size.learner.report.kernels < size.before.report.kernels,
        "peak_bytes": lambda size: size.learner.peak_bytes < least * size.before.peak_bytes,
        "bus_bytes": lambda size: size.learner.report.bus_bytes < least * size.before.report.bus_bytes,
    }
    return any(all(better[_kind(check)](measured) for measured in sizes) for check in others)


def _kind(check: str) -> str:
    """What a check looks at: several may look at a step's time, each with a target of its own."""
    return "step_time" if check.startswith("speed_up_") else check


def _passed_by_slow(exercise: Exercise, evidence: Evidence, check: str) -> bool:
    """Whether the slow function passes a check as well, such as one of a time that may be a little longer."""
    slow = evidence.main and replace(evidence.main, learner=evidence.main.before)
    return slow is not None and _judged(check, {})(exercise, evidence, slow)[0] != FAIL


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


# -- values ---------------------------------------------------------------------------------------


def expected_answer(exercise: Exercise, case: Case, device: str) -> Answer:
    """What is right: the answer of ``right``, else of the slow function, on the CPU or, where the exercise says so, on
    the device of that name. Raises RuntimeError where that function fails."""
    if exercise.wanted is not None:
        return Answer(case.name, plain=exercise.wanted(case))
    function = exercise.slow if exercise.right is None else exercise.right
    target = choose_device(device) if exercise.truth_on_device else torch.device("cpu")
    try:
        found = answer(exercise, LocalStage(function, target, exercise.ask), case, target)
    finally:
        if target.type == "vgpu":
            vgpu.timeline().reset()
    if found.error is not None or found.unusable is not None:
        raise RuntimeError(f"what is right cannot be found out on the input {case.name!r}: {found.error or found.unusable}")
    return found


def _values(exercise: Exercise, plan: Plan, evidence: Evidence, truth: Truth) -> tuple[str, str]:
    if len(evidence.answers) != len(plan.cases):
        return FAIL, f"Only {len(evidence.answers)} of {len(plan.cases)} inputs were answered."
    for case, found in zip(plan.cases, evidence.answers):
        fault = _fault(exercise, case, found, evidence, truth)
        if fault is not None:
            text = _explained(fault, exercise, plan, case, found, evidence, truth)
            return FAIL, f"On the input \"{case.name}\" {_shapes(case)}{text}"
    fault = _trial_fault(exercise, plan, evidence, truth) if plan.trial else None
    if fault is not None:
        return FAIL, fault
    count = f"{len(plan.cases)} inputs, the edge cases included" if len(plan.cases) > 1 else "the one input there is"
    count += f", and on {len(plan.trial)} larger ones, while it was measured" if plan.trial else ""
    if exercise.right is not None:
        return PASS, f"Right on {count}."
    what = ("answer" if exercise.ask is not None
            else "value and gradient" if any(c.needs_grad for c in plan.cases) else "value")
    return PASS, f"Same {what} as the slow function on {count}."


def _fault(exercise: Exercise, case: Case, found: Answer, evidence: Evidence, truth: Truth) -> Fault | None:
    return fault_of(exercise, case, found, lambda: truth.of(case), evidence.device.partition(":")[0], evidence.simulated)


def _explained(fault: Fault, exercise: Exercise, plan: Plan, case: Case, found: Answer, evidence: Evidence, truth: Truth
               ) -> str:
    """The fault, and what is known of its cause: a mistake made before, else what the lesson or the numbers say."""
    known = truth.cause(plan, evidence, case, found) if fault.of_value else None
    return f"{fault.text} {known}" if known is not None else str(fault)


def _trial_fault(exercise: Exercise, plan: Plan, evidence: Evidence, truth: Truth) -> str | None:
    """What is wrong with the answers that were timed too."""
    where = "larger inputs, on which it is measured too"
    if evidence.trial is not None and evidence.trial.error is not None:
        error = evidence.trial.error
        return f"On {where} {_shapes(plan.trial[0])}it raised {error}.{error_advice(error)}"
    if len(evidence.trial_answers) != len(plan.trial):
        return f"Only {len(evidence.trial_answers)} of {len(plan.trial)} calls on {where} were answered."
    for number, (case, found) in enumerate(zip(plan.trial, evidence.trial_answers), start=1):
        fault = _fault(exercise, case, found, evidence, truth)
        if fault is None:
            continue
        earlier = next((i for i, other in enumerate(plan.trial[:number - 1], start=1)
                        if _fault(exercise, other, found, evidence, truth) is None), None)
        if earlier is not None:
            return (f"On {where} {_shapes(case)}call {number} gave the answer of call {earlier}, whose input was another: "
                    "something is remembered from one call to the next. Compute it anew from what the function is given.")
        why = _explained(fault, exercise, plan, case, found, evidence, truth)
        return (f"On the {len(plan.cases)} small inputs the answers are right, and on {where} {_shapes(case)}they are not, "
                f"from call {number}: {why} A function that goes by the size of its input, or counts its calls, is wrong.")
    return None


def _shapes(case: Case) -> str:
    def shape(value) -> str:
        if isinstance(value, list):
            return f"{len(value)} × {shape(value[0])}" if value else "nothing"
        return "×".join(map(str, value.shape)) or "scalar"

    shapes = ", ".join(f"{name} {shape(value)}" for name, value in case.inputs.items())
    return f"({shapes}) " if shapes else ""


# -- what was measured ----------------------------------------------------------------------------


def _judged(check: str, cells: dict[str, str]) -> Callable[[Exercise, Evidence, Measured], tuple[str, str]]:
    if check.startswith("speed_up_"):
        return partial(speed_up, check=check)
    return {"syncs": partial(_syncs, cells=cells), "host_time": host_time, "step_time": step_time, "bus_bytes": _bus_bytes,
            "peak_bytes": _where_it_is(partial(peak_check, cells=cells)), "kernels": _where_it_is(kernels_check)}[check]


def _where_it_is(check: Callable) -> Callable[[Exercise, Evidence, Measured], tuple[str, str]]:
    """``check``, which fails where the device's work or its memory is moved to the host."""
    def checked(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str]:
        copied = read_back(exercise, measured)
        return check(exercise, evidence, measured) if copied is None else (FAIL, copied)

    return checked


def _measured(exercise: Exercise, evidence: Evidence, check: str, cells: dict[str, str]) -> tuple[str, str]:
    """The outcome of a check of waits or time: at the article's size, and on the trial's inputs."""
    judged, main = _judged(check, cells), evidence.main
    if main is None:
        return FAIL, "Nothing was measured: the run ended before."
    outcome, message = _void(exercise, evidence, main) or judged(exercise, evidence, main)
    if outcome != PASS or main is evidence.trial or (check not in ("syncs", "kernels") and not evidence.simulated):
        return outcome, message  # a real GPU cannot be slowed down to suit smaller inputs
    other, why = _void(exercise, evidence, evidence.trial) or judged(exercise, evidence, evidence.trial)
    if other != PASS:
        return other, (f"It holds at the article's size, where no values can be checked, and not on smaller inputs, where "
                       f"they are: a function has to do the same at every size. On those: {why}")
    shirked = _shirked(evidence)
    return (FAIL, shirked) if shirked is not None else (outcome, message)


def _void(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str] | None:
    """Why waits and times cannot be judged, or None."""
    if measured.error is not None:
        where = "At full size" if measured is evidence.full else "While it was measured"
        return FAIL, f"{where} it raised {measured.error}.{error_advice(measured.error)}"
    if measured.learner is None:
        return FAIL, "Nothing was measured: the run ended before."
    before, after = measured.before, measured.after
    own, slow = measured.learner.aside, before.aside
    if evidence.simulated and before.fewest_kernels and not measured.learner.fewest_kernels:
        return FAIL, ("A call that is measured launches nothing, where the slow function launches "
                      f"{before.fewest_kernels} kernels: work that is put off until somebody looks at the answer cannot "
                      "count. Do it when the function is called.")
    if (own.waits > slow.waits or own.kernels > 2 * slow.kernels or own.read_back_bytes > 2 * slow.read_back_bytes
            or own.sent_bytes > 2 * slow.sent_bytes):
        return FAIL, (f"Beside the calls that are measured {own.kernels} kernels were launched and {own.waits} waits made, "
                      f"in the slow function {slow.kernels} and {slow.waits}: work done before or after them cannot count."
                      + (" Does every call wait, those that are not measured too (`synchronize`, `item`)?"
                         if own.waits > slow.waits else ""))
    missing = _missing(exercise, evidence, measured)
    if missing is not None:
        return FAIL, missing
    if after is None:
        return None
    changed = None
    if sync_count(after) != sync_count(before):
        changed = f"{sync_count(before):g} waits a step before and {sync_count(after):g} after"
    elif evidence.simulated and (after.true_ms, after.host_ms) != (before.true_ms, before.host_ms):
        changed = f"{before.true_ms:.3f} ms a step before and {after.true_ms:.3f} ms after"
    if changed is not None:
        return FAIL, (f"The measurement is void: the slow function, measured again after yours, shows {changed}. "
                      "Something in the cell changes PyTorch or the clock for the rest of the process.")
    if not evidence.simulated and abs(after.true_ms / before.true_ms - 1) > DRIFT:
        return INCONCLUSIVE, (f"The GPU's speed drifted while it was measured: the slow function took "
                              f"{before.true_ms:.2f} ms a step before and {after.true_ms:.2f} ms after yours. Run it again.")
    return None


def _missing(exercise: Exercise, evidence: Evidence, measured: Measured) -> str | None:
    """What every function has to do, and this one does not."""
    own, waits = measured.learner.report, measured.learner.report.syncs_per_step
    least = exercise.least_bytes_ratio * (measured.best or measured.before).report.bus_bytes
    if own.bus_bytes < (1 - _ROUNDING) * least:
        return (f"Only {_megabytes(own.bus_bytes)} go over the bus in {exercise.step_is}, of the {_megabytes(least)} that "
                "the device has to have: something is not copied, or not in every call, so that no time counts.")
    best, done = measured.best, measured.learner
    if best is not None and evidence.simulated and (
            done.fewest_kernels < exercise.least_work_ratio * best.fewest_kernels
            or own.device_busy_ms < exercise.least_work_ratio * best.report.device_busy_ms):
        return (f"The device launches {done.fewest_kernels} kernels and works for {own.device_busy_ms:.1f} ms in "
                f"{exercise.step_is}, in the model solution {best.fewest_kernels} and {best.report.device_busy_ms:.1f} ms: "
                "what it has to do is left out, or done elsewhere, so that no time counts.")
    if waits < exercise.least_syncs:
        return (f"{waits:g} waits are in {exercise.step_is}, and {exercise.least_syncs:g} are the step's own, whatever the "
                "function does: the step itself was changed, so that no time counts.")
    return None


def _shirked(evidence: Evidence) -> str | None:
    """At the article's size it must do what it does where its values are checked: compared by what the slow function
    does."""
    full, trial = evidence.full, evidence.trial
    shares = [measured.learner.report.device_busy_ms / max(measured.before.report.device_busy_ms, 1e-9)
              for measured in (full, trial)]
    launched = [measured.learner.fewest_kernels / max(measured.before.fewest_kernels, 1) for measured in (full, trial)]
    if not evidence.simulated or (shares[0] > _SHIRKED * shares[1] and launched[0] >= _SHIRKED * launched[1]):
        return None
    return (f"At the article's size it does less than where its values are checked: {full.learner.fewest_kernels} kernels "
            f"a call there, {trial.learner.fewest_kernels} on the smaller inputs. What does nothing is fast: that time "
            "cannot count. A function has to do the same at every size.")


# -- waits ----------------------------------------------------------------------------------------


def _syncs(exercise: Exercise, evidence: Evidence, measured: Measured, cells: dict[str, str]) -> tuple[str, str]:
    report = measured.learner.report
    before = sync_count(measured.before)
    allowed, most = exercise.max_syncs, sync_count(measured.learner)
    if report.syncs_per_step <= allowed < most:
        return FAIL, (f"It waits {report.syncs_per_step:g} times in the calls that are profiled and {most:g} times in "
                      "others: every call counts.")
    if report.syncs_per_step <= allowed:
        copied = read_back(exercise, measured)
        if copied is not None:
            return FAIL, copied
        left = "No wait is left" if not report.syncs_per_step else f"At most {allowed:g} may be left"
        return PASS, f"{left}: {before:g} in {exercise.step_is} before, {report.syncs_per_step:g} now."
    left = [sync for sync in report.syncs_in_steps if sync.step == report.syncs_in_steps[-1].step]
    lines = [f"{len(left)} {'wait is' if len(left) == 1 else 'waits are'} left in {exercise.step_is} "
             f"({before:g} in the slow function):"]
    if operators(report) == operators(measured.before.report):
        lines.insert(0, "Your version waits exactly as often as the slow one, and in the same operators.")
    # By reason, so that each is explained once.
    reasons: dict[str | None, list[str]] = {}
    for (operator, kind, location), times_ms in _alike(left).items():
        where = f" at {location}{quoted(location, cells)}" if location else ""
        often = f"{len(times_ms)} × " if len(times_ms) > 1 else ""
        wait = f"{often}`{operator}`{where} ({sum(times_ms):.1f} ms)"
        reasons.setdefault(_reason(exercise, operator, kind), []).append(wait)
    for reason, waits in reasons.items():
        lines.append(f"- {'; '.join(waits)}" + (f". Why: {reason}." if reason else "."))
    return FAIL, "\n".join(lines)


def _alike(waits) -> dict[tuple, list[float]]:
    """(operator, kind, location) → the milliseconds of the waits there."""
    found: dict[tuple, list[float]] = {}
    for sync in waits:
        operator = (sync.op or sync.name).removeprefix("aten::")
        found.setdefault((operator, sync.kind, sync.location), []).append(sync.wait_ms)
    return found


def _reason(exercise: Exercise, operator: str, kind: str) -> str | None:
    known = exercise.advice.get(operator, ADVICE.get(operator))
    if known is not None:
        return known
    return {"read-back": READ_BACK, "copy": FROM_HOST}.get(kind)


# -- the bus --------------------------------------------------------------------------------------


def _bus_bytes(exercise: Exercise, evidence: Evidence, measured: Measured) -> tuple[str, str]:
    slow, own = measured.before.report.bus_bytes, measured.learner.report.bus_bytes
    limit = exercise.max_bytes_ratio * slow
    facts = (f"{_megabytes(own)} go over the bus in {exercise.step_is} (slow: {_megabytes(slow)}; wanted: at most "
             f"{_megabytes(limit)}).")
    if own <= limit:
        return PASS, facts
    copies = sorted((copy for copy in measured.learner.report.copies if copy.step == 0 and copy.direction in BUS),
                    key=lambda copy: -copy.bytes)[:3]
    largest = ", ".join(f"{copy.direction} {_megabytes(copy.bytes)}" for copy in copies)
    return FAIL, (f"{facts} The largest copies: {largest}. Which bytes does the device not have, and which could it make "
                  "itself?")


def _megabytes(nbytes: float) -> str:
    return f"{nbytes / 1e6:.3g} MB"
