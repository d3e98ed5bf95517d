"""Lesson 08: what is right, where the function as handed out is not."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F

from ...measure.peak import forget_peak, held_and_peak, requested_bytes


def right_budget(model, batch, optimizer, dtype):
    """What two steps on the device show: the second is like all that follow."""
    device = batch[0].device
    there, _ = held_and_peak(device)
    network = _nbytes(model.parameters()) + _nbytes(model.buffers()) + _nbytes(batch)
    for _ in range(2):
        optimizer.zero_grad()
        forget_peak(device)
        before = requested_bytes(device)
        with torch.autocast(device.type, dtype or torch.float16, enabled=dtype is not None):
            loss = model(*batch)
        after = requested_bytes(device)
        loss.backward()
        del loss
        gradients = _nbytes(each.grad for each in model.parameters() if each.grad is not None)
        optimizer.step()
    _, peak = held_and_peak(device)
    state = _nbytes(each for values in optimizer.state.values() for each in values.values()
                    if isinstance(each, torch.Tensor) and each.device == device)
    optimizer.state.clear()
    optimizer.zero_grad()
    forget_peak(device)
    return {"parameters": _nbytes(model.parameters()), "buffers": _nbytes(model.buffers()), "gradients": gradients,
            "optimizer state": float(state), "activations": float(after - before), "peak": float(network + peak - there)}


def right_train_epoch(model, optimizer, batches, validation, every):
    """The same report, of which no part holds a graph, a traceback or a batch's outputs."""
    total, looks, predictions, failures, activity = 0.0, [], [], [], []
    hook = model.body.register_forward_hook(lambda module, args, output: activity.append(output.detach().abs().mean()))
    try:
        for step, (x, y) in enumerate(batches, start=1):
            optimizer.zero_grad()
            try:
                prediction = model(x)
                loss = F.cross_entropy(prediction, y)
            except ValueError as error:
                failures.append(str(error))
                continue
            loss.backward()
            optimizer.step()
            total += loss.detach()
            predictions.append(prediction.detach().argmax(1))
            if step % every == 0:
                with torch.no_grad():
                    looks.append(sum(F.cross_entropy(model(vx), vy) for vx, vy in validation) / len(validation))
    finally:
        hook.remove()
    return {"loss": total, "looks": looks, "predictions": predictions, "activity": activity, "failures": failures}


def right_largest_batch(step, most):
    """Doubling, then bisection; two calls of each batch, with nothing in reserve from the trial before."""

    def fits(batch):
        torch.accelerator.empty_cache()
        try:
            step(batch)
            step(batch)
        except torch.OutOfMemoryError:
            return False
        return True

    if not fits(1):
        warnings.warn("not even a batch of 1 fits", stacklevel=2)
        return 0
    held = torch.accelerator.memory_allocated()
    step(1)
    if torch.accelerator.memory_allocated() > held:
        raise ValueError("the step keeps more with each call")
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _nbytes(tensors) -> int:
    """Of the memory under them, each piece once."""
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())
