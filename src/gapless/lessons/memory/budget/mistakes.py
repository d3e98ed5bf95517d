"""Lesson 08: the usual wrong budgets, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from ....measure.peak import held_and_peak


def _forward(model, batch, dtype, rows: int) -> int:
    """What a forward pass with so many rows leaves."""
    device = batch[0].device
    before, _ = held_and_peak(device)
    with torch.autocast(device.type, dtype or torch.float16, enabled=dtype is not None):
        loss = model(*(each[:rows] for each in batch))
    after, _ = held_and_peak(device)
    del loss
    return after - before


def _budget(*, twice_if_tied=False, four_bytes=False, buffers=True, buffers_in_parameters=False, frozen=False, state=None,
            frozen_state=False, momentum=True, amsgrad=True, through_origin=False, halved=False, single=False,
            half_weights=False, half_gradients=False, peak=None, unit=1, evaluates=False,
            casts=True, counters=True, foreach=True, first_group=False):
    """A budget with slips. ``state``: tensors of state for each parameter, whatever the optimizer; ``peak``: "sum", "no
    temporaries", "no state" or "no gradients"."""

    def budget(model, batch, optimizer, dtype):
        parameters = list(model.parameters())
        if twice_if_tied:
            parameters = [each for each in model.state_dict(keep_vars=True).values() if isinstance(each, torch.nn.Parameter)]
        size = (lambda each: 4 * each.numel()) if four_bytes else (lambda each: each.nbytes)
        weights = sum(map(size, parameters))
        trained = sum(size(each) for each in parameters if each.requires_grad or frozen)
        of_buffers = sum(each.nbytes for each in model.buffers() if each.is_floating_point() or counters)
        group = optimizer.param_groups[0]
        adam = "betas" in group
        kinds = (2 + (group["amsgrad"] and amsgrad)) if adam else int(bool(group["momentum"]) and momentum)
        stored = (kinds if state is None else state) * (weights if frozen_state else trained)
        if first_group:
            stored = kinds * sum(each.nbytes for each in group["params"] if each.requires_grad)
        rows = len(batch[0])
        few = max(1, rows // 16)
        model.train(not evaluates)
        kept, kept_by_double = (_forward(model, batch, dtype if casts else None, min(count, rows))
                                for count in (few, 2 * few))
        activations = kept + (kept_by_double - kept) * (rows - few) / few
        model.train()
        if through_origin:
            activations = kept * rows / few
        if single:
            activations = kept
        if halved and dtype is not None:
            activations /= 2
        if half_weights and dtype is not None:
            weights /= 2
        if half_gradients and dtype is not None:
            trained /= 2
        one_by_one = foreach and adam and group["foreach"] is False  # Adam's temporaries
        temporary = trained if adam and not group["fused"] and not one_by_one else 0
        there = weights + of_buffers + stored + sum(each.nbytes for each in batch)
        parts = {"sum": there + trained + activations, "no temporaries": there + max(activations, trained),
                 "no gradients": there + activations, "no state": there - stored + max(activations, trained + temporary)}
        total = parts.get(peak, there + max(activations, trained + temporary))
        if buffers_in_parameters:
            weights += of_buffers
        found = {"parameters": weights, "buffers": of_buffers if buffers else 0, "optimizer state": stored,
                 "gradients": trained, "activations": activations, "peak": total}
        return {name: value / unit for name, value in found.items()}

    return budget


right_by_small_batches = _budget()


def _by_running(model, batch, optimizer, dtype):
    found = right_by_small_batches(model, batch, optimizer, dtype)
    device = batch[0].device
    with torch.autocast(device.type, dtype or torch.float16, enabled=dtype is not None):
        model(*batch).backward()
    optimizer.zero_grad()
    return found


BUDGETS = (
    Mistake(_budget(twice_if_tied=True), (
        "You count a tied weight twice: `state_dict()` has it under both names. `model.parameters()` gives each "
        "parameter once.")),
    Mistake(_budget(buffers_in_parameters=True), (
        "Buffers (a norm's running mean and variance) are not parameters: they have no gradient and no state. "
        "`state_dict()` holds both; `model.buffers()` holds only buffers.")),
    Mistake(_budget(buffers=False), (
        "Which tensors does `model.buffers()` hold? A BatchNorm's running mean and variance are on the device too.")),
    Mistake(_budget(frozen=True), (
        "A frozen parameter gets no gradient, and an optimizer keeps no state for it: count those with `requires_grad`.")),
    Mistake(_budget(frozen_state=True), (
        "An optimizer creates its state for a parameter at the parameter's first gradient. A frozen parameter never has "
        "one.")),
    Mistake(_budget(state=2), (
        "Adam keeps two tensors for each trained parameter. SGD keeps one with momentum, and none without. Look at "
        "`optimizer.param_groups`.")),
    Mistake(_budget(state=1), (
        "How many tensors does the optimizer keep for each parameter? Adam keeps two (the means of the gradient and of "
        "its square), and three with `amsgrad=True`. SGD keeps one with momentum and none without.")),
    Mistake(_budget(first_group=True), (
        "You count the state of the first parameter group only. `optimizer.param_groups` may hold several: add up their "
        "parameters.")),
    Mistake(_budget(momentum=False), "SGD with momentum keeps a tensor for each trained parameter."),
    Mistake(_budget(amsgrad=False), "With `amsgrad=True` Adam keeps a third tensor: the largest mean square so far."),
    Mistake(_budget(four_bytes=True), (
        "The bytes of a number depend on its dtype. Use `tensor.nbytes`, not 4 times the elements. Here the network is "
        "bfloat16.")),
    Mistake(_budget(half_weights=True), (
        "In mixed precision the weights stay float32. Autocast makes copies of them, and the copies belong to what the "
        "forward pass leaves.")),
    Mistake(_budget(half_gradients=True), (
        "In mixed precision a parameter's gradient has the parameter's own dtype: float32.")),
    Mistake(_budget(halved=True), (
        "You measured the activations under autocast, so they are already halved. Do not halve them again.")),
    Mistake(_budget(through_origin=True), (
        "Not everything that a forward pass leaves grows with the batch: autocast's copies of the weights do not. Draw "
        "the line through two batches, not through one and zero.")),
    Mistake(_budget(counters=False), (
        "A BatchNorm has a third buffer, `num_batches_tracked`, a whole number. `model.buffers()` has them all.")),
    Mistake(_budget(casts=False), (
        "You ran the forward pass without `torch.autocast`, but the step runs in it. Without it the saved tensors are "
        "float32.")),
    Mistake(_budget(evaluates=True), (
        "You ran the forward pass in evaluation mode, in which dropout does nothing and keeps nothing. The step trains, "
        "so leave the mode alone.")),
    Mistake(_budget(single=True), "That is what a small batch leaves. How does it grow with the rows?"),
    Mistake(_budget(peak="sum"), (
        "The peak is not the sum of all. When all gradients are there, the activations are gone. The step has several "
        "moments, and the fullest one counts.")),
    Mistake(_budget(peak="no temporaries"), (
        "By default (`foreach`), Adam's step makes a tensor as large as each gradient, all at once. PyTorch's page on "
        "Adam says so. With `fused=True` it does not.")),
    Mistake(_budget(foreach=False), (
        "With `foreach=False` Adam takes one parameter after the other, so one parameter's temporaries exist at a time. "
        "Look at `optimizer.param_groups[0][\"foreach\"]`: by default it is None.")),
    Mistake(_budget(peak="no gradients"), (
        "With few rows the activations are small, and the gradients of all weights are the largest part. The peak is "
        "then at the end of the backward pass, or in the optimizer's step.")),
    Mistake(_budget(peak="no state"), "The optimizer's state is always there, so it belongs to the peak too."),
    Mistake(_budget(unit=2**20), "These are MiB. Return bytes."),
    Mistake(_budget(unit=10**6), "These are MB. Return bytes."),
    Mistake(_by_running, (
        "The numbers are right, but you ran the whole step. On a card where it does not fit, that ends in an error. "
        "Predict it from a few rows.")),
)
