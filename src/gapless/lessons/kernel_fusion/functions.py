"""Lesson 07: the functions as handed out. Right, and slow; where the exercise is to reckon, naive."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def predicted_gain(kernels, outputs):
    """How many times as fast one kernel would be as these, which run one after the other. Each is (reads, writes): name of a
    tensor → bytes. ``outputs``: the names of those that are needed afterwards."""
    return float(len(kernels))


def gelu(x):
    """``x`` times the share of a normal distribution below ``x``, element by element."""
    return x * 0.5 * (1.0 + torch.erf(x / 2.0 ** 0.5))


def forward(x, weight):
    """``x`` (N×D) times ``weight`` (D×K), scaled by its largest number, then one of two activations; one number."""
    h = x @ weight
    print("the hidden layer is", tuple(h.shape))
    h = h / h.abs().max().item()
    if h.mean() > 0:
        h = torch.tanh(h)
    else:
        h = F.softplus(h)
    return h.square().mean()


def make_step(model):
    """``step(batch)``, compiled: the mean loss of a batch B×L×D of any length L ≥ 2. And the list of the lengths so far."""
    lengths = []

    def step(batch):
        lengths.append(batch.shape[1])
        place = torch.arange(batch.shape[1], device=batch.device) / batch.shape[1]
        return model(batch + place[:, None]).square().mean()

    return torch.compile(step, dynamic=False), lengths


def attention(q, k, v, mask):
    """Softmax attention. ``q``, ``k``, ``v``: B×H×L×D; ``mask``: B×1×L×L, True where a query may look at a key, and each
    may look at one at least. B×H×L×D."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, -1) @ v


def head_loss(x, residual, gate, weight, projection, target):
    """The head of a language model: ``x``, ``residual``, ``gate`` N×D, ``weight`` D, ``projection`` V×D, ``target`` N, int64
    (-100: ignored). The mean cross-entropy of what is not ignored."""
    h = residual + gate * x * 0.5
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * weight
    logits = h @ projection.T
    log_probabilities = logits - torch.logsumexp(logits, -1, keepdim=True)
    counts = target != -100
    picked = log_probabilities.gather(1, torch.where(counts, target, 0)[:, None])[:, 0]
    return -torch.where(counts, picked, 0.0).sum() / counts.sum()


def swish(x):
    """``x`` times the logistic function of ``x``, element by element."""
    return x / (1.0 + torch.exp(-x))


def worth_compiling(eager, compiled, steps):
    """(whether it pays for ``steps`` steps, from which step on it has paid or None). ``eager``: ms of some steps;
    ``compiled``: (ms, whether it compiled in that step) of some steps from the first."""
    fastest = min(ms for ms, _ in compiled)
    return fastest < min(eager), 1
