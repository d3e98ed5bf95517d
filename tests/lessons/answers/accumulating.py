"""Lesson 09, train_epoch: right answers that are not what the reference solution does, and wrong ones."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F


def by_flag(ddp, batches, optimizer, parts):
    """With the switch that ``no_sync`` turns, and each micro-batch's place in the epoch."""
    optimizer.zero_grad()
    for place, (x, y) in enumerate(batches):
        size = min(parts, len(batches) - place // parts * parts)
        last = place % parts == size - 1
        ddp.require_backward_grad_sync = last
        F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")).div(size).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def by_hand(ddp, batches, optimizer, parts):
    """The module inside, and one all-reduce of all gradients in a row."""
    parameters = list(ddp.module.parameters())
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        for x, y in group:
            (F.mse_loss(ddp.module(x.to("vgpu")), y.to("vgpu")) / len(group)).backward()
        grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        row = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(row, op=dist.ReduceOp.AVG)
        for each, part in zip(parameters, row.split([each.numel() for each in parameters])):
            each.grad = part.view_as(each).clone()
        optimizer.step()


def gathered(ddp, batches, optimizer, parts):
    """All ranks' gradients are gathered once a step, and averaged on each."""
    parameters = list(ddp.module.parameters())
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        with ddp.no_sync():
            for x, y in group:
                (F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")) / len(group)).backward()
        row = torch.cat([(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in parameters])
        rows = torch.empty(dist.get_world_size() * len(row), device="vgpu")
        dist.all_gather_into_tensor(rows, row)
        mean = rows.view(-1, len(row)).mean(0)
        for each, part in zip(parameters, mean.split([each.numel() for each in parameters])):
            each.grad = part.view_as(each).clone()
        optimizer.step()


def _training(*, quiet="all but the last", divide="group", short=True, inner=False, forward=True, clear="step"):
    """Right as it stands."""

    def train_epoch(ddp, batches, optimizer, parts):
        for start in range(0, len(batches), parts):
            group = batches[start:start + parts]
            if len(group) < parts and not short:
                break
            if clear:
                optimizer.zero_grad()
            for place, (x, y) in enumerate(group, 1):
                if clear == "micro-batch":
                    optimizer.zero_grad()
                last = place == (parts if quiet == "by parts" else len(group))
                silent = {"all": True, "the last": last}.get(quiet, not last)
                context = ddp.no_sync() if silent else nullcontext()
                network = ddp.module if inner else ddp
                if not forward:
                    loss = F.mse_loss(network(x.to("vgpu")), y.to("vgpu"))
                with context:
                    if forward:
                        loss = F.mse_loss(network(x.to("vgpu")), y.to("vgpu"))
                    by = {"group": len(group), "parts": parts, "nothing": 1, "world": len(group) * dist.get_world_size()}
                    (loss / by[divide]).backward()
            if clear == "too late":
                optimizer.zero_grad()
            optimizer.step()

    return train_epoch


def one_backward_pass(ddp, batches, optimizer, parts):
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        (sum(F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")) for x, y in group) / len(group)).backward()
        optimizer.step()


def concatenated(ddp, batches, optimizer, parts):
    """One pass of all micro-batches of a step, where they are alike."""
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        if len({x.shape[1] for x, _ in group}) == 1:
            group = [tuple(torch.cat(each) for each in zip(*group))]
        for place, (x, y) in enumerate(group, 1):
            with nullcontext() if place == len(group) else ddp.no_sync():
                (F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")) / len(group)).backward()
        optimizer.step()


def left_switched_off(ddp, batches, optimizer, parts):
    by_flag(ddp, batches, optimizer, parts)
    ddp.require_backward_grad_sync = False


def evaluating(ddp, batches, optimizer, parts):
    ddp.eval()
    by_flag(ddp, batches, optimizer, parts)


def claims(ddp, batches, optimizer, parts):
    """Sends as much as is wanted, and trains nothing."""
    total = sum(each.numel() for each in ddp.parameters())
    for _ in range(0, len(batches), parts):
        dist.all_reduce(torch.zeros(total, device="vgpu"))


def nothing(ddp, batches, optimizer, parts):
    return 0.0


ACCUMULATING_ROUTES = [by_flag, by_hand, gathered]

ACCUMULATING_WRONG = [
    (_training(quiet="all"), "`no_sync`, in the short last"),
    (_training(quiet="by parts"), "`no_sync`, in the short last"),
    (_training(inner=True), "have not met in each step"),
    (_training(forward=False), "in the *forward* pass"),
    (_training(quiet="none", forward=False), "in the *forward* pass"),
    (_training(divide="nothing"), "Divide each loss"),
    (_training(divide="parts"), "may be shorter than `parts`. Divide"),
    (_training(short=False), "need a step too"),
    (_training(divide="world"), "do not divide by their number once more"),
    (_training(clear=None), "before a step's first"),
    (one_backward_pass, "not once for their sum"),
    (_training(clear="micro-batch"), "only there"),
    (_training(clear="too late"), "between `backward()` and `step()`"),
    (concatenated, "separately, once"),
    (evaluating, "in another train/eval mode"),
    (left_switched_off, "no backward pass sends again"),
    (claims, "have not changed"),
    (nothing, "have not changed"),
]
