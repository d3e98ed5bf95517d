"""Lesson 03: why an answer is wrong."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from .functions import IGNORE, evaluate


def update_loss(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("mean"), float):
        return None
    if math.isnan(found["mean"]):
        return "The metric took nothing in (or a NaN, which its check removes)."
    if math.isclose(found["mean"], float(np.nanmean(case.inputs["losses"])), rel_tol=1e-5):
        return "That is the mean without the weights: a last batch of three images counts as much as a full one."
    losses, batches = case.inputs["losses"], np.array(case.options["batches"])
    seen = ~np.isnan(losses)
    weighted_twice = np.average(losses[seen] * batches[seen], weights=batches[seen])
    if any(math.isclose(found["mean"], mean, rel_tol=1e-5) for mean in (np.mean((losses * batches)[seen]), weighted_twice)):
        return ("The loss was multiplied by its weight before: TorchMetrics does that itself. Give it the loss as it is, "
                "and the weight beside it.")
    if math.isclose(found["mean"], wanted["mean"], rel_tol=1e-5):
        return ("The first result is right, and a later one is not: a metric remembers its last result and counts its "
                "updates, both in `update`. Call that; do not write into its state.")
    return None


def suppress(case, found, wanted) -> str | None:
    if "weights" not in case.inputs or not isinstance(found, dict):
        return None
    plain = float(case.inputs["values"].mean())
    value = found.get("value")
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, float) and abs(first - plain) < 1e-4 * max(1, abs(plain)):
        return ("That is the mean without the weights. `nan_strategy=\"disable\"` does this in TorchMetrics 1.9.0: it "
                "replaces the weights that it is given by ones, and says nothing. Replace the method that checks, and "
                "hand the weights on.")
    return None


def averages(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not all(isinstance(found.get(name), float) for name in wanted):
        return None
    own = [found[name] for name in wanted]
    if any(map(math.isnan, own)):
        return ("NaN is 0 / 0. A class that occurs and is never found has the share 0, and where no class occurs at all the "
                "mean is 0: see to it that nothing is divided by 0 (`torch.where`, `clamp(min=1)`).")
    if len(set(own)) == 1 and len(set(wanted.values())) > 1:
        return ("All four are the same number: that is what average=\"micro\" gives (every error is a false positive "
                "of one class and a false negative of another). Macro averages are wanted.")
    if all(math.isclose(found[name], value, rel_tol=1e-5) for name, value in _mean_of_batches(case).items()):
        return ("That is the mean of the batches' values. The batches have to be counted together, and the averages "
                "computed once from the counts: `update` for each batch, `compute` at the end.")
    if "images" in case.inputs and any((labels == IGNORE).any() for labels in case.inputs["targets"]):
        return ("Two things are easily missed: a target that is IGNORE must count nowhere, as a prediction neither; "
                "and the macro average is over the classes that occur in the labels or in the predictions that count.")
    return "Every batch has to count, and once; count all of them, and compute the averages from the counts."


def _mean_of_batches(case) -> dict[str, float]:
    """What the averages of each batch alone are on average."""
    cpu, each = torch.device("cpu"), []
    logits = case.inputs["images"] if "images" in case.inputs else case.inputs["outputs"]
    for output, target in zip(logits, case.inputs["targets"]):
        batch = torch.from_numpy(output), torch.from_numpy(target)
        each.append(evaluate(nn.Identity(), [batch], cpu))
    return {name: float(np.mean([values[name] for values in each])) for name in each[0]}
