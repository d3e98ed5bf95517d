"""Lesson 05, a training step in mixed precision: right answers by other routes, and wrong ones."""

import torch
import torch.nn.functional as F
from torch import nn


def finish(model, optimizer, scaler, max_norm):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()


def one_backward(model, optimizer, scaler, batches, dtype, max_norm):
    with torch.autocast(batches[0][0].device.type, dtype=dtype):
        loss = torch.stack([F.cross_entropy(model(x), y) for x, y in batches]).mean()
    optimizer.zero_grad(set_to_none=False)
    scaler.scale(loss).backward()
    finish(model, optimizer, scaler, max_norm)
    return loss.detach()


def outputs_in_float32(model, optimizer, scaler, batches, dtype, max_norm):
    optimizer.zero_grad()
    losses = []
    for x, y in batches:
        with torch.autocast(x.device.type, dtype=dtype):
            outputs = model(x)
        losses.append(F.cross_entropy(outputs.float(), y))
        (scaler.scale(losses[-1]) / len(batches)).backward()
    finish(model, optimizer, scaler, max_norm)
    return torch.stack(losses).mean().detach()


def clipped_by_hand(model, optimizer, scaler, batches, dtype, max_norm):
    forward = torch.autocast(batches[0][0].device.type, dtype=dtype)(lambda x, y: F.cross_entropy(model(x), y))
    model.zero_grad()
    total = 0.0
    for x, y in batches:
        loss = forward(x, y).div(len(batches))
        scaler.scale(loss).backward()
        total = total + loss.detach()
    if scaler.is_enabled():
        scaler.unscale_(optimizer)
    grads = [parameter.grad for parameter in model.parameters()]
    norm = torch.stack(torch._foreach_norm(grads)).norm()
    torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    if scaler.is_enabled():
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    return total


def mixed(*order, each=(), scaled=True, where="forward", loss=lambda loss, count: loss / count, kind=None):
    """A step with the parts named in ``order`` after the micro-batches, and those of ``each`` after each of them."""

    def step(model, optimizer, scaler, batches, dtype, max_norm):
        parts = {"zero": optimizer.zero_grad, "unscale": lambda: scaler.unscale_(optimizer), "update": scaler.update,
                 "clip": lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm),
                 "clip largest": lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm, float("inf")),
                 "clip values": lambda: nn.utils.clip_grad_value_(model.parameters(), max_norm),
                 "step": lambda: scaler.step(optimizer), "own step": optimizer.step}
        optimizer.zero_grad()
        total = 0.0
        for x, y in batches:
            region = torch.autocast(kind or x.device.type, dtype=dtype)
            with region:
                outputs = model(x)
                if where == "backward":
                    mean = loss(F.cross_entropy(outputs, y), len(batches))
                    scaler.scale(mean).backward()
            if where != "backward":
                mean = loss(F.cross_entropy(outputs.float(), y), len(batches))
                (scaler.scale(mean) if scaled else mean).backward()
            total += mean.detach()
            for part in each:
                parts[part]()
        for part in order:
            parts[part]()
        return total

    return step


def halves_the_network(model, optimizer, scaler, batches, dtype, max_norm):
    model.half()
    return outputs_in_float32(model, optimizer, scaler, batches, dtype, max_norm)


def one_large_batch(model, optimizer, scaler, batches, dtype, max_norm):
    whole = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
    return outputs_in_float32(model, optimizer, scaler, [whole], dtype, max_norm)


RIGHT_ORDER = ("unscale", "clip", "step", "update")


def with_a_scaler_of_its_own(model, optimizer, scaler, batches, *rest):
    """Whose scale is too large."""
    return mixed(*RIGHT_ORDER)(model, optimizer, torch.amp.GradScaler(batches[0][0].device.type, init_scale=2.0**40), batches, *rest)


PRECISION_ROUTES = {
    "train_step": [one_backward, outputs_in_float32, clipped_by_hand],
}

PRECISION_WRONG = [
    ("train_step", mixed("unscale", "clip", "update", "step"), "Call it after `scaler.step(optimizer)`"),
    ("train_step", mixed("clip", "unscale", "step", "update"), "clipped the gradients while they were still scaled"),
    ("train_step", mixed("unscale", "unscale", "clip", "step", "update"), "so call it only once in a step"),
    ("train_step", mixed("clip", "step", "update", each=("unscale",)), "so call it only once in a step"),
    ("train_step", mixed(*RIGHT_ORDER, where="backward"), "backward pass ran inside autocast"),
    ("train_step", mixed("unscale", "clip", "own step", "update"), "without the scaler"),
    ("train_step", mixed("unscale", "clip", "step"), "`scaler.update()` is missing"),
    ("train_step", mixed(*RIGHT_ORDER, "update"), "comes once in a step, after `scaler.step(optimizer)`"),
    ("train_step", mixed("unscale", "clip", "step", "step", "update"), "One `scaler.step(optimizer)` in a step"),
    ("train_step", mixed(*RIGHT_ORDER, loss=lambda loss, count: loss), "added up, not averaged"),
    ("train_step", mixed(*RIGHT_ORDER, loss=lambda loss, count: loss / count**2), "times too small"),
    ("train_step", mixed("zero", *RIGHT_ORDER), "set to zero between the backward pass and the step"),
    ("train_step", mixed(*RIGHT_ORDER, each=("zero",)), "set to zero between the backward pass and the step"),
    ("train_step", mixed("unscale", "step", "clip", "update"), "gradients that were not clipped"),
    ("train_step", mixed("step", "update"), "gradients that were not clipped"),
    ("train_step", mixed("unscale", "clip values", "step", "update"), "each gradient by its value"),
    ("train_step", mixed(*RIGHT_ORDER, scaled=False), "The scaler has scaled no loss"),
    ("train_step", mixed(*RIGHT_ORDER, kind="cpu"), "Nothing ran in autocast"),
    ("train_step", mixed(each=RIGHT_ORDER), "took its own step"),
    ("train_step", halves_the_network, "leave out `.half()`"),
    ("train_step", one_large_batch, "Each micro-batch goes through the network once"),
    ("train_step", mixed("unscale", "clip largest", "step", "update"), "clipped the gradients by the largest of them"),
    ("train_step", with_a_scaler_of_its_own, "has scaled no loss"),
    ("train_step", lambda model, optimizer, scaler, *rest: scaler.scale(mixed(*RIGHT_ORDER)(model, optimizer, scaler, *rest)),
     "without the scale"),
    ("train_step", lambda model, *rest: None, "The network was never called"),
    ("train_step", lambda model, *rest: mixed(*RIGHT_ORDER)(model.eval(), *rest), "put the network into evaluation mode"),
]
