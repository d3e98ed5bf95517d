"""The check of values: the right answer on every input, and in every call that is measured."""

from __future__ import annotations

from dataclasses import dataclass

from ..answers import precision_of
from ..check import Check, Found, Look
from ..evidence import Answer, Case
from ..faults import Fault, error_advice, fault_of
from ..truth import ONE_AT_A_TIME
from ..verdicts import FAIL, INCONCLUSIVE, PASS


@dataclass(frozen=True)
class Values(Check):
    """The answers are right. What else is checked counts only once they are."""

    name = "values"

    def judge(self, look: Look) -> Found:
        """On each input by itself, then on those of the trial."""
        if look.evidence.error is not None:
            return FAIL, _upper(look.evidence.error)
        with ONE_AT_A_TIME, precision_of(look.exercise):  # an explanation works out again what the card reaches
            return _judge(look)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _judge(look: Look) -> Found:
    exercise, plan, evidence = look.exercise, look.plan, look.evidence
    if len(evidence.answers) != len(plan.cases):
        return FAIL, f"Only {len(evidence.answers)} of {len(plan.cases)} inputs were answered."
    for case, found in zip(plan.cases, evidence.answers):
        fault = _fault(look, case, found)
        if fault is not None:
            if fault.of_value and not evidence.simulated and not look.truth.is_steady(case):
                return INCONCLUSIVE, (f"On the input \"{case.name}\" {fault} But asked again, the function that is right "
                                      "answers something else, too. Run it again when nothing else uses "
                                      f"{evidence.device_name}.")
            by_layout = fault.of_value and not fault.text.endswith(("'.", '".'))  # words do not lie in memory
            text = _explained(look, fault, case, found)
            if by_layout and text == str(fault):  # else a mistake made before explains it
                text += _by_layout(look, case)
            return FAIL, f"On the input \"{case.name}\" {_shapes(case)}{text}"
    fault = (_trial_fault(look) or _again_fault(look)) if plan.trial else None
    if fault is not None:
        return FAIL, fault
    count = f"{len(plan.cases)} inputs, the edge cases included" if len(plan.cases) > 1 else "the one input there is"
    count += f", and on {len(plan.trial)} larger ones, while it was measured" if plan.trial else ""
    if exercise.right.function is not None:
        return PASS, f"Right on {count}."
    what = ("answer" if exercise.asked.ask is not None
            else "value and gradient" if any(c.needs_grad for c in plan.cases) else "value")
    return PASS, f"Same {what} as the slow function on {count}."


def _fault(look: Look, case: Case, found: Answer) -> Fault | None:
    return fault_of(look.exercise, case, found, look.truth, look.evidence.device.partition(":")[0], look.evidence.simulated)


def _explained(look: Look, fault: Fault, case: Case, found: Answer) -> str:
    """The fault, and what is known of its cause: a mistake made before, else what the lesson or the numbers say."""
    known = look.truth.cause(look.plan, look.evidence, case, found) if fault.of_value or found.error else None
    return f"{fault.text} {known}" if known is not None else str(fault)


def _by_layout(look: Look, case: Case) -> str:
    """What to say where answers are wrong on inputs alone that are not contiguous."""
    pairs = list(zip(look.plan.cases, look.evidence.answers)) if case.layouts else []
    others = [pair for pair in pairs if not pair[0].layouts]
    if not others or any(_fault(look, *pair) is not None for pair in others):
        return ""
    wrong = [_fault(look, *pair) is not None for pair in pairs if pair[0].layouts]
    if 2 * sum(wrong) < len(wrong):  # then it is something else about this input
        return ""
    return (" All contiguous inputs get the right answer. For others, `reshape`, `flatten` and `contiguous` make a "
            "copy: what you write into the copy never reaches the tensor.")


def _trial_fault(look: Look) -> str | None:
    """What is wrong with the answers that were timed too."""
    plan, evidence = look.plan, look.evidence
    where = "larger inputs, on which it is measured too"
    if evidence.trial is not None and evidence.trial.error is not None:
        error = evidence.trial.error
        return f"On {where} {_shapes(plan.trial[0])}it raised {error}.{error_advice(error)}"
    if len(evidence.trial_answers) != len(plan.trial):
        return f"Only {len(evidence.trial_answers)} of {len(plan.trial)} calls on {where} were answered."
    for number, (case, found) in enumerate(zip(plan.trial, evidence.trial_answers), start=1):
        fault = _fault(look, case, found)
        if fault is None:
            continue
        earlier = next((i for i, other in enumerate(plan.trial[:number - 1], start=1)
                        if _fault(look, other, found) is None), None)
        if earlier is not None:
            return (f"On {where} {_shapes(case)}call {number} gave the answer of call {earlier}, whose input was another: "
                    "the function keeps something from one call to the next. Compute everything from its arguments.")
        why = _explained(look, fault, case, found)
        cause = "" if not fault.of_value else (
            " A function that depends on the size of its input, or counts its calls, is "
            "wrong." if why == str(fault) else
            " Or is it a function that depends on the size of its input, or counts its calls?")
        return (f"On the {len(plan.cases)} small inputs the answers are right, and on {where} {_shapes(case)}they are not, "
                f"from call {number}: {why}{cause}")
    return None


def _again_fault(look: Look) -> str | None:
    """What is wrong with the answer in the tensors of an earlier call."""
    found = look.evidence.again
    if found is None:
        return None
    first, second = look.plan.trial[:2]
    fault = _fault(look, second, found)
    if fault is None:
        return None
    known = _fault(look, first, found) is None
    said = "it gave the answer of the first call again." if known else str(fault)
    return (f"Called again on the same tensors {_shapes(second)}with other values in them: {said} A tensor's `id` or "
            "address says nothing about what is in it. Compute everything from the values of the arguments, in every call.")


def _shapes(case: Case) -> str:
    def shape(value) -> str:
        if isinstance(value, list):
            return f"{len(value)} × {shape(value[0])}" if value else "nothing"
        return "×".join(map(str, value.shape)) or "scalar"

    shapes = ", ".join(f"{name} {shape(value)}" for name, value in case.inputs.items())
    return f"({shapes}) " if shapes else ""
