"""Lesson 08: the functions as handed out. Right, and slow."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn


def budget(model, batch, optimizer, dtype):
    """The bytes that a training step takes. ``model(*batch)`` is the loss, under autocast to ``dtype`` (None: without);
    ``optimizer``: of all the model's parameters, before its first step."""
    parameters = sum(parameter.nbytes for parameter in model.state_dict().values())
    return {"parameters": parameters, "buffers": 0, "optimizer state": 2 * parameters, "gradients": parameters,
            "activations": 0, "peak": 4 * parameters}


def train_epoch(model, optimizer, batches, validation, every):
    """Train on ``batches`` (pairs of rows and labels); after every so many of them look at ``validation``, a list of such
    pairs. A report. A batch with too few labels is left out."""
    total, looks, predictions, failures, activity = 0.0, [], [], [], []
    model.body.register_forward_hook(lambda module, args, output: activity.append(output))
    for step, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        try:
            prediction = model(x)
            loss = F.cross_entropy(prediction, y)
        except ValueError as error:
            failures.append(error)
            continue
        loss.backward()
        optimizer.step()
        total += loss
        predictions.append(prediction)
        if step % every == 0:
            looks.append(sum(F.cross_entropy(model(vx), vy) for vx, vy in validation) / len(validation))
    return {"loss": total,
            "looks": looks,
            "predictions": [each.argmax(1) for each in predictions],
            "activity": [each.abs().mean() for each in activity],
            "failures": [str(error) for error in failures]}


def checkpointed(model):
    """The forward pass of a network of blocks, a function of images N×3×H×W."""
    def forward(images):
        x = images
        for block in model.blocks:
            x = block.conv(x)
            x = block.resize(block.drop(F.gelu(block.norm(x))))
        return model.head(x)

    return forward


def accumulate(model, optimizer, tokens, labels, parts):
    """A step of ``optimizer`` on a batch (tokens and labels N×T); the mean loss of the labels that are not −100."""
    if parts < 1:
        raise ValueError(f"parts is {parts}: a batch has at least one part")
    if not len(tokens):
        raise ValueError("the batch is empty: there is nothing to learn from")
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


def tied_to_the_batch(model, rows):
    """The names of the innermost modules, of those that ``model(rows)`` calls, whose output for a sample depends on the
    others."""
    return [name for name, module in model.named_modules() if "Norm" in type(module).__name__]


def optimizer_in_backward(model, make_optimizer, max_norm=None):
    """``train(loss)``, which takes a training step, and the list of the optimizers. ``make_optimizer(parameters)`` makes
    one; ``max_norm``: of all gradients together."""
    params = [param for param in model.parameters() if param.requires_grad]
    if not params:
        raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
    optimizer = make_optimizer(params)

    def train(loss):
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        optimizer.zero_grad()

    return train, [optimizer]


def largest_batch_that_fits(step, most):
    """The largest batch, at most ``most``, with which ``step(batch)`` does not run out of memory; 0 if none is."""
    batch = 0
    while batch < most:
        try:
            step(batch + 1)
        except RuntimeError:
            break
        batch += 1
    return batch
