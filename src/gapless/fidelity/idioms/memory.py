"""Idioms that save memory, and what programs ask of the allocator."""

from __future__ import annotations

from functools import partial

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from .bag import Bag, group

KERNELS = "kernels only: what was not kept is computed again"
CHECKPOINT = "torch/utils/checkpoint.py; the generator's state is the host's: ATen, cuda/CUDAGeneratorImpl.cpp, get_state"
ALLOCATOR = "c10/cuda/CUDACachingAllocator.cpp"
HOOKS = "torch/autograd/graph.py"


def _keep_products(ctx, func, *args, **kwargs) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if func is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def _checkpointed(t: Bag, **options) -> None:
    """A step whose part with dropout is checkpointed."""
    weight, = t.weights()

    def part(x):
        return torch.nn.functional.dropout(x @ t.matrix, 0.5).relu()

    checkpoint(part, weight * 2, **options).sum().backward()


def _hooked(t: Bag, hooks) -> None:
    """A step whose activations go through ``hooks``."""
    weight, = t.weights()
    with hooks:
        y = (weight * 2).relu().exp()
    y.sum().backward()


def _in_backward(t: Bag) -> None:
    """A step whose optimizer runs as each gradient is there."""
    weight, = t.weights()
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def used(parameter):
        optimizer.step()
        optimizer.zero_grad()

    weight.register_post_accumulate_grad_hook(used)
    (weight * 2).sum().backward()


def _accumulated(t: Bag) -> None:
    """Two parts of a batch, one step."""
    weight, = t.weights()
    for part in t.x:
        ((weight * part).mean() / 2).backward()
    torch.optim.SGD([weight], lr=0.1).step()


def _emptied(t: Bag) -> None:
    """A segment of its own, given back to the driver."""
    torch.empty(16 * 2**20, dtype=torch.uint8, device=t.device)
    t.module.empty_cache()


MEMORY = (
    *group(
        "memory",
        ("checkpoint of a part with dropout", 0, lambda t: _checkpointed(t, use_reentrant=False), KERNELS, CHECKPOINT),
        ("checkpoint, reentrant", 0, lambda t: _checkpointed(t, use_reentrant=True), KERNELS, CHECKPOINT),
        ("checkpoint, random state not kept", 0, lambda t: _checkpointed(t, use_reentrant=False, preserve_rng_state=False),
         KERNELS, CHECKPOINT),
        ("checkpoint, selective", 0, lambda t: _checkpointed(
            t, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, _keep_products)), KERNELS,
         "torch/utils/checkpoint.py, create_selective_checkpoint_contexts"),
        ("saved_tensors_hooks, lower precision", 0, lambda t: _hooked(t, saved_tensors_hooks(
            lambda x: x.to(torch.bfloat16), lambda x: x.to(torch.float32))), "conversions on the device", HOOKS),
        ("save_on_cpu, pinned", 0, lambda t: _hooked(t, save_on_cpu(pin_memory=True)), "pinned memory, both ways", HOOKS),
        ("save_on_cpu", 4, lambda t: _hooked(t, save_on_cpu()), "blocking copies of two tensors, out and back in", HOOKS),
        ("optimizer in the backward pass", 0, _in_backward, "queued as any other step",
         "torch/csrc/autograd/functions/accumulate_grad.h, post-accumulate hooks"),
        ("gradients of two parts of a batch", 0, _accumulated, "kernels only",
         "torch/csrc/autograd/functions/accumulate_grad.h"),
        ("zero_grad(set_to_none=True)", 0, lambda t: torch.optim.SGD(t.weights(), lr=0.1).zero_grad(set_to_none=True),
         "memory goes back to the host's allocator", ALLOCATOR),
        ("memory_stats, memory_reserved", 0, lambda t: (t.module.memory_stats(), t.module.memory_reserved()),
         "the allocator is the host's", ALLOCATOR),
        ("reset_peak_memory_stats", 0, lambda t: t.module.reset_peak_memory_stats(), "the allocator is the host's",
         ALLOCATOR),
        ("memory_snapshot", 0, lambda t: t.module.memory_snapshot(), "the allocator is the host's", ALLOCATOR),
        ("set_per_process_memory_fraction", 0, lambda t: t.module.set_per_process_memory_fraction(1.0),
         "the allocator is the host's", ALLOCATOR),
        ("empty_cache", 1, _emptied, "cudaFree waits for the device, unlike what PyTorch does with a tensor that goes",
         "PyTorch's notes, CUDA semantics, memory management", True),
        ("record_stream of a tensor", 0, lambda t: t.x.record_stream(t.module.Stream()),
         "an event is recorded when the tensor goes", f"{ALLOCATOR}, insert_events"),
    ),
)
