"""Idioms of compiled code: a graph launches kernels, and what breaks it waits as it does uncompiled."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from .bag import Bag, Idiom, group

GRAPH = "a graph only launches kernels"
INDUCTOR = "torch/_inductor/codegen/wrapper.py"
BREAKS = "breaks the graph, and runs as uncompiled"


@functools.cache
def _compiled(function, **options):
    """Compiled once in a process, and not before it is used: that imports the compiler."""
    return torch.compile(function, **options)


def _pointwise(x):
    return torch.tanh(x * 2 + 1) / 3


def _normalised(x):
    return F.layer_norm(x, x.shape[-1:]).sum()


def _scaled_by_its_sum(x):
    return x * x.sum().item()


def _branches(x):
    return x * 2 if x.sum() > 0 else x - 1


def _conditional(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def _selected(x):
    return x[x > 2] * 2


def _filled(x):
    return x.masked_fill(x > 2, 1.0) * 2


def _sgd(parameters, gradients):
    torch._foreach_add_(parameters, gradients, alpha=-0.1)


def _backward(t: Bag) -> None:
    leaf = t.x.detach().requires_grad_()
    _compiled(_normalised)(leaf).backward()


COMPILED: tuple[Idiom, ...] = group(
    "compiled",
    ("compiled pointwise", 0, lambda t: _compiled(_pointwise)(t.x), GRAPH, INDUCTOR),
    ("compiled normalisation and its backward", 0, _backward, GRAPH, INDUCTOR),
    ("compiled _foreach_add_", 0, lambda t: _compiled(_sgd)([t.x], [t.x.clone()]), GRAPH, INDUCTOR),
    ("compiled masked_fill", 0, lambda t: _compiled(_filled)(t.x), GRAPH, INDUCTOR),
    ("compiled for any size", 0, lambda t: _compiled(_pointwise, dynamic=True)(t.x), "sizes are known on the host",
     INDUCTOR),
    ("compiled item()", 1, lambda t: _compiled(_scaled_by_its_sum)(t.x), BREAKS,
     "torch/_dynamo/config.py, capture_scalar_outputs"),
    ("compiled if on a value", 1, lambda t: _compiled(_branches)(t.x), BREAKS,
     "torch/_dynamo/symbolic_convert.py, generic_jump"),
    ("compiled x[mask]", 1, lambda t: _compiled(_selected)(t.x), BREAKS,
     "torch/_dynamo/config.py, capture_dynamic_output_shape_ops"),
    ("compiled cond", 1, lambda t: _compiled(_conditional)(t.x), "one graph, which reads the condition",
     f"{INDUCTOR}, codegen_conditional (later codegen_switch)"),
)
