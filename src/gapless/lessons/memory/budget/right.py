"""Lesson 08: what is right for ``budget``."""

from __future__ import annotations

import torch

from ....measure.peak import forget_peak, held_and_peak, requested_bytes


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


def _nbytes(tensors) -> int:
    """Of the memory under them, each piece once."""
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())
