"""Lesson 03: why an answer is wrong that no known mistake gives as a whole."""

from __future__ import annotations

import math

import torch

from .mistakes import CHOICES, FORMULAS, IGNORING, LEFT_IN, averaged, counting
from .stage import IGNORE

_NEARLY = 0.02  # what rounding, or an epsilon, may bring about
_DEFINITIONS = {"accuracy": "the accuracy here is tp / (tp + fn), as its recall", "recall": "the recall is tp / (tp + fn)",
                "precision": "the precision is tp / (tp + fp)", "f1": "F1 is 2·tp / (2·tp + fp + fn)"}


def averages(case, found, wanted) -> str | None:
    if isinstance(found, dict) and any(isinstance(found.get(name), list) for name in wanted):
        return ("There is a value for each class, as `average=\"none\"` or None gives: the macro average is their mean over "
                "the classes that occur in the labels or the predictions.")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), float) for name in wanted):
        return None
    wrong = [name for name in wanted if not same_answer(found[name], wanted[name])]
    for name in wrong:
        other = next((each for each in wrong if each != name and same_answer(found[each], wanted[name])
                      and same_answer(found[name], wanted[each])), None)
        if other is not None:
            return f"'{name}' and '{other}' are exchanged: each has the value of the other."
    causes = _causes(case, {name: found[name] for name in wrong}, wanted)
    if causes:
        return " ".join(f"{_listed(names)}: {why}" for why, names in causes.items())
    own = [found[name] for name in wanted]
    if any(map(math.isnan, own)):
        return ("NaN is 0 / 0. A class that occurs and is never found has the fraction 0, and where no class occurs at all "
                "the mean is 0: see to it that nothing is divided by 0 (`torch.where`, `clamp(min=1)`).")
    if max(own) > 1 + 1e-6 or min(own) < 0:
        return "A mean of fractions lies between 0 and 1: is it a sum, or divided by something else than was counted?"
    if len(set(own)) == 1 and len(set(wanted.values())) > 1:
        one = [name for name in wanted if same_answer(own[0], wanted[name])]
        return (f"All four are the {one[0]}: the others have metrics of their own in `METRICS`." if one else
                "All four are the same number, as micro averages are. Return macro averages.")
    if all(math.isclose(found[name], wanted[name], rel_tol=_NEARLY) for name in wanted):
        return ("They are near, but not equal. Was something rounded, computed in float16, or is a small number added to "
                "what "
                "is divided by? Keep the counts whole, and choose with `torch.where` where there is nothing to divide by.")
    if case.options.get("called_before"):
        return ("The function was called before, on other batches: what it keeps from one call to the next is counted "
                "again. "
                "Make the metrics, or the counts, inside the function.")
    if len(wrong) == 1:
        return f"Of a class {_DEFINITIONS[wrong[0]]}; the macro average is the mean of that over the classes."
    ratios = {round(found[name] / wanted[name], 4) for name in wrong if wanted[name]}
    if len(ratios) == 1 and len(wrong) == len(wanted):
        return (f"All four are {ratios.pop():g} times what they should be: the sum over the classes is divided by another "
                "number than that of the classes that occur in the labels or the predictions.")
    if "images" in case.inputs and any((labels == IGNORE).any() for labels in case.inputs["targets"]):
        return ("Two things are easily missed: a target that is IGNORE must count nowhere, as a prediction neither; "
                "and the macro average is over the classes that occur in the labels or in the predictions that count.")
    return ("One of three things: another class is predicted than that of the largest logit; a batch is missing or counts "
            "twice; or the averages are not computed once, from the counts of all batches together.")


def _causes(case, wrong: dict[str, float], wanted: dict) -> dict[str, list[str]]:
    """Why → the averages that are wrong for that reason alone; nothing unless there is a reason for each."""
    logits = case.inputs["images"] if "images" in case.inputs else case.inputs["outputs"]
    targets = case.inputs["targets"]
    tensors = [(torch.from_numpy(output), torch.from_numpy(labels)) for output, labels in zip(logits, targets)]
    causes: dict[str, list[str]] = {}
    for why, make in _attempts(tensors, ignoring="images" in case.inputs):
        if not wrong:
            break
        values = make()
        hit = [name for name, value in wrong.items()
               if same_answer(float(values[name]), value) and not same_answer(float(values[name]), wanted[name])]
        if hit:
            causes[why] = hit
            wrong = {name: value for name, value in wrong.items() if name not in hit}
    return {} if wrong else causes


def _attempts(tensors, ignoring: bool):
    """(why, what makes the averages) of the formulas, one at a time and then two."""
    pairs = [(output.argmax(1), labels) for output, labels in tensors]
    counted = counting(pairs)
    for average, why in (*FORMULAS[1:], FORMULAS[0]):  # micro averages last: a single one has a better name
        yield why, lambda average=average: average(counted)
    for choose, why in CHOICES:
        yield why, lambda choose=choose: averaged(counting([(choose(output), labels) for output, labels in tensors]))
    for average, why in LEFT_IN if ignoring else ():
        yield why, lambda average=average: average(pairs)
    for treat, also in IGNORING if ignoring else ():
        yield also, lambda treat=treat: averaged(treat(pairs))
        for average, why in FORMULAS:
            yield f"{also} Besides: {why}", lambda treat=treat, average=average: average(treat(pairs))


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(map(repr, names[:-1])), repr(names[-1])]))


def same_answer(found, wanted) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same_answer, found, wanted))
    if isinstance(found, (int, float)) and isinstance(wanted, (int, float)):
        return math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-6) or (math.isnan(found) and math.isnan(wanted))
    return found == wanted
