"""Lesson 05: the functions as handed out. Right, and slow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def without_bias(model, images):
    """The model, without those biases of convolutions that a norm takes out again."""
    return model


def batches_of_few_shapes(images, batch_size, max_shapes):
    """Batches of images (a list of C×H×W, sizes of any kind): (B×C×H×W, mask B×H×W, indices), padded with zeros."""
    batches = []
    for start in range(0, len(images), batch_size):
        indices = list(range(start, min(start + batch_size, len(images))))
        height = max(images[i].shape[1] for i in indices)
        width = max(images[i].shape[2] for i in indices)
        batch = images[0].new_zeros(len(indices), images[0].shape[0], height, width)
        mask = torch.zeros(len(indices), height, width, dtype=torch.bool, device=batch.device)
        for row, i in enumerate(indices):
            batch[row, :, :images[i].shape[1], :images[i].shape[2]] = images[i]
            mask[row, :images[i].shape[1], :images[i].shape[2]] = True
        batches.append((batch, mask, indices))
    return batches


def to_channels_last(model):
    """The model's forward pass, a function of images N×8×H×W in channels-last order."""
    model = model.to(memory_format=torch.channels_last)

    def forward(images):
        x = model.stem(images)
        for block in model.blocks:
            n, c, h, w = x.shape
            # the channels of each pixel, mixed among themselves
            pixels = x.permute(0, 2, 3, 1).reshape(n * h * w, c)
            mixed = block.mix(pixels).view(n, h, w, -1).permute(0, 3, 1, 2).contiguous()
            # what comes in, with zeros for the channels that are new
            shortcut = mixed.new_zeros(n, mixed.shape[1], h, w)
            shortcut[:, :c] = x
            x = F.relu(shortcut + block.norm(block.conv(mixed)))
        n, c, h, w = x.shape
        return model.head(x.contiguous().view(n, c, h * w).mean(2))

    return forward


def train_step(model, optimizer, scaler, batches, dtype, max_norm):
    """One step of ``optimizer`` on ``batches``, a list of (x, y) of one size on the device; the mean loss. ``scaler``: a
    GradScaler; ``dtype``: float16, or bfloat16 with a scaler that is switched off; ``max_norm``: of the gradients."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        loss = F.cross_entropy(model(x), y) / len(batches)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def largest_batch(step, most):
    """The largest multiple of 8, at most ``most``, with which ``step(batch)`` does not run out of memory; 0 if none is."""
    found = 0
    for batch in range(8, most + 1, 8):
        try:
            step(batch)
        except RuntimeError:
            break
        found = batch
    return found


def warmup_schedule(optimizer, factor, warmup, total):
    """A scheduler of the learning rates of ``optimizer`` for a batch ``factor`` times as large, over ``total`` steps."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor)


@torch.no_grad()
def lars_step(params, momenta, lr, momentum, weight_decay, trust):
    """A step of LARS: each parameter at a rate of its own. ``momenta``: a tensor for each parameter, changed in place."""
    for param, moment in zip(params, momenta):
        if param.grad is None:
            continue
        weight_norm = torch.linalg.vector_norm(param, dtype=torch.float32)
        grad_norm = torch.linalg.vector_norm(param.grad, dtype=torch.float32)
        rate = lr
        if weight_norm > 0 and grad_norm > 0:
            rate = lr * trust * weight_norm / (grad_norm + weight_decay * weight_norm)
        moment.mul_(momentum).add_(rate * (param.grad + weight_decay * param))
        param.sub_(moment)


def tensor_core_sizes(model):
    """The same network, with sizes that suit tensor cores: a Sequential of convolutions, norms, linear layers and others
    without weights, the last one a linear layer to the classes."""
    return model
