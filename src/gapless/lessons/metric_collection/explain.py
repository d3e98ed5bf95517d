"""Lesson 03: why an answer is wrong that no known mistake gives as a whole."""

from __future__ import annotations

import math

import numpy as np
import torch

from .functions import IGNORE
from .wrong_averages import CHOICES, FORMULAS, IGNORING, LEFT_IN, averaged, counting

_NEARLY = 0.02  # what rounding, or an epsilon, may bring about


def update_loss(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("mean"), float):
        return None
    mean, losses = found["mean"], case.inputs["losses"].astype(np.float64)
    seen = losses[np.isfinite(losses)]
    if _same(mean, wanted["mean"]):
        return _later(found, wanted)
    if math.isnan(mean):
        return ("NaN is 0 / 0: the metric took nothing in, or only losses or weights that are NaN, which its check removes.")
    if math.isinf(mean):
        return "A number too large for its dtype became inf: float16 ends at 65504. Was the loss multiplied in float16?"
    if not seen.size or not math.isfinite(wanted["mean"]):
        return "An inf in the losses has to be seen in the mean, and a NaN left out: `MeanMetric` does both itself."
    if not seen.min() - 1e-6 <= mean <= seen.max() + 1e-6:
        return ("No mean of these losses lies there: none is so large or so small. The loss itself was changed on the way. "
                "Give it as it is, with its weight beside it.")
    batches = np.array(case.options["batches"], dtype=np.float64)
    usable = np.isfinite(losses)
    for words, weights in (("batch − 1", batches - 1), ("batch + 1", batches + 1), ("the square root of "
                                                                                    "`batch`", batches**0.5),
                           ("the logarithm of `batch`", np.log(np.maximum(batches, 1))),
                           ("the batch before", np.roll(batches, 1))):
        if weights[usable].sum() and _same(mean, float(np.average(losses[usable], weights=weights[usable]))):
            return f"Each loss is weighted with {words}: the weight is `batch`, the number of its own images."
    return ("It is a mean of these losses, with other weights than the numbers of images: each update's weight has to be "
            "its "
            "own `batch`, made in this call; and none may be kept for later.")


def _later(found: dict, wanted: dict) -> str:
    """The first mean is right."""
    if found.get("number of updates") != wanted["number of updates"]:
        return ("The first result is right, and the metric has counted another number of updates. One call of `update` for "
                "each loss does both.")
    if not _same(found.get("mean after another update"), wanted["mean after another update"]):
        return ("The first result is right, and a later one is not: a metric remembers its last result and counts its "
                "updates, both in `update`. Call that; do not write into its state.")
    if not _same(found.get("mean after 50 more images of loss 1"), wanted["mean after 50 more images of loss 1"]):
        return ("The weights are right in proportion to each other, but not in size: they have to be the numbers of images, "
                "as others update this metric too. Was `batch` divided by something?")
    return ("One metric alone gets it right, and two updated in turn do not: something is kept outside the metric, from one "
            "call to the next.")


def suppress(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return None
    first = next((name for name in wanted if repr(found.get(name)) != repr(wanted[name])), None)
    if first == "device":
        return "The metric does not stay on the device it was moved to: make tensors with `device=self.device`."
    if first == "dtype":
        return "What is computed has another dtype: the values have to be returned in the metric's own, `self.dtype`."
    if first is not None and first != "value" and found.get("value") == wanted["value"]:
        return ("The first value is right, and this one is not: something is kept outside the metric's state. Replace only "
                "the method that checks, and leave `update`, `compute`, `forward` and `reset` to the metric.")
    if any(name != "CatMetric" and _nan(value) for name, value in zip(case.options["metrics"], found.get("value", []))):
        return "NaN is 0 / 0: the weights that were returned sum up to 0. Without a weight each value counts once."
    if "weights" in case.inputs:
        return ("The weights are not what `update` gave: return the values and the weights as they came, as tensors of "
                "`self.dtype`.")
    return "Return the values as they came, as a tensor of `self.dtype`, and for each the weight 1 if there is none."


def step_time(case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    times = case.options["times"]
    first = next((name for name in wanted if not _same(found.get(name), wanted[name])), None)
    own = "What is kept in a Python list or number of your own, and not in a state that `add_state` has added, "
    if first == "mean":
        mean = found.get("mean")
        for words, value in _other_means(np.array(times, dtype=np.float64)):
            if isinstance(mean, float) and _same(mean, float(value)):
                return words
        if isinstance(mean, float) and min(times) <= mean <= max(times) and len(times) > 1:
            return ("It lies between the times, and is another kind of average, or leaves some of them out. Is each "
                    "counted once?")
        return "It is no mean of these times: none is so large or so small. Were they summed, or their unit changed?"
    return {
        "mean after another update": "The first mean is right, and the next is not: a value that has been computed must "
                                     "not be "
                                     "kept when more comes in.",
        "mean beside a second metric": "Two metrics share what they keep: make the state anew in each, not once for the "
                                       "class "
                                       "or the module.",
        "means of the metric and of a clone, updated once more": f"{own}is shared with the metric's copies.",
        "mean of a new metric, loaded with load_state_dict": f"{own}is not saved in `state_dict`.",
        'mean after .to("cpu")': f"{own}is not moved with the metric.",
        "mean after a reset": f"{own}is not reset by `reset`.",
        "mean under DDP": "Alone it is right, and not in a process group.",
    }.get(first)


def _other_means(times: np.ndarray):
    """(what it is, its value)"""
    running = times[0] / 2
    for time in times[1:]:
        running = (running + time) / 2
    count, total = len(times), times.sum()
    yield "That is the median of the times. Their mean is wanted.", np.median(times)
    yield "That is the lower median of the times. Their mean is wanted.", np.sort(times)[(count - 1) // 2]
    yield ("The mean was halved with each new time, from 0 on, so that the last ones count most. Keep a sum and a count, as "
           "`MeanMetric` does."), running
    yield "The sum is divided by one more than there are times: does a first 0 count too?", total / (count + 1)
    if count > 1:
        yield "The sum is divided by one less than there are times: a mean divides by their number.", total / (count - 1)
        yield "The first time is left out. All of them count.", times[1:].mean()
        yield "The last time is left out. All of them count.", times[:-1].mean()
    yield "The mean was made a whole number (`//`, `int`): its fraction is cut off.", np.trunc(times.mean())
    yield "The mean was rounded to a whole number.", np.round(times.mean())
    if times.all():
        yield "Each time is weighted with itself: no weight is wanted.", (times**2).sum() / times.sum()
        yield "That is the harmonic mean: of the times themselves a mean is wanted.", count / (1 / times).sum()
        yield "That is the geometric mean. The arithmetic mean is wanted.", np.exp(np.log(times).mean())


_DEFINITIONS = {"accuracy": "the accuracy here is tp / (tp + fn), as its recall", "recall": "the recall is tp / (tp + fn)",
                "precision": "the precision is tp / (tp + fp)", "f1": "F1 is 2·tp / (2·tp + fp + fn)"}


def averages(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not all(isinstance(found.get(name), float) for name in wanted):
        return None
    wrong = [name for name in wanted if not _same(found[name], wanted[name])]
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
        one = [name for name in wanted if _same(own[0], wanted[name])]
        return (f"All four are the {one[0]}: the others have metrics of their own in `METRICS`." if one else
                "All four are the same number, as micro averages are. Macro averages are wanted.")
    if all(math.isclose(found[name], wanted[name], rel_tol=_NEARLY) for name in wanted):
        return ("They are near, and not equal. Was something rounded, computed in float16, or is a small number added to "
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
    return ("Every batch of this call has to count, once, and no batch of an earlier call: make the metrics, or the counts, "
            "inside the function, update them with each batch, and compute the averages once from the counts.")


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
               if _same(float(values[name]), value) and not _same(float(values[name]), wanted[name])]
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


def _same(found, wanted) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(found, (int, float)) and isinstance(wanted, (int, float)):
        return math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-6) or (math.isnan(found) and math.isnan(wanted))
    return found == wanted


def _nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)
