"""Idioms of many tensors at once, and of steps that are one launch."""

from __future__ import annotations

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.swa_utils import get_ema_multi_avg_fn

from .bag import Bag, Idiom, group

KERNELS = "only kernels"
ENTER = "the context waits for the device before it captures, and for memory that empty_cache gives back"
GRAPH = "torch/cuda/graphs.py, graph.__enter__"


def _replays(t: Bag, times: int = 2):
    """A graph of a product, captured and replayed."""
    graph = t.module.CUDAGraph()
    with t.module.graph(graph):
        found = t.x @ t.matrix
    for _ in range(times):
        graph.replay()
    return found


def _copies_in_and_replays(t: Bag):
    graph = t.module.CUDAGraph()
    with t.module.graph(graph):
        t.big_x.mul_(2)
    t.big_x.copy_(t.pinned, non_blocking=True)
    graph.replay()


def _pinned_copy_in_a_graph(t: Bag):
    graph = t.module.CUDAGraph()
    with t.module.graph(graph):
        t.big_x.copy_(t.pinned, non_blocking=True)
    graph.replay()


def _captured_step(t: Bag):
    weights = t.weights()
    optimizer = torch.optim.AdamW(weights, lr=0.1, capturable=True)
    optimizer.step()
    graph = t.module.CUDAGraph()
    with t.module.graph(graph):
        optimizer.step()
    graph.replay()


def _pool_shared(t: Bag):
    first, second = t.module.CUDAGraph(), t.module.CUDAGraph()
    with t.module.graph(first):
        found = t.x * 2
    with t.module.graph(second, pool=first.pool()):
        found = found + 1
    first.replay()
    second.replay()


def _step(t: Bag, kind: type, **options):
    kind(t.weights(), lr=0.1, **options).step()


LAUNCHES: tuple[Idiom, ...] = (
    *group(
        "many tensors at once",
        ("_foreach_mul_ by a Python number", 0, lambda t: torch._foreach_mul_([t.x, t.matrix], 2.0), KERNELS,
         "ATen, cuda/ForeachBinaryOpScalar.cu"),
        ("_foreach_mul_ by a device number", 0, lambda t: torch._foreach_mul_([t.x, t.matrix], t.number),
         "the kernel reads it", "ATen, cuda/ForeachBinaryOpScalarTensor.cu"),
        ("_foreach_mul_ by a list of numbers", 0, lambda t: torch._foreach_mul_([t.x, t.matrix], [2.0, 3.0]), KERNELS,
         "ATen, cuda/ForeachBinaryOpScalarList.cu"),
        ("_foreach_lerp_", 0, lambda t: torch._foreach_lerp_([t.x], [t.x.clone()], 0.1), KERNELS,
         "ATen, cuda/ForeachTernaryOp.cu"),
        ("_foreach_norm", 0, lambda t: torch.stack(torch._foreach_norm([t.x, t.matrix])), KERNELS,
         "ATen, cuda/ForeachReduceOp.cu"),
        ("_foreach_copy_ on the device", 0, lambda t: torch._foreach_copy_([t.x], [t.x.clone()]), KERNELS,
         "ATen, cuda/ForeachBinaryOpList.cu, foreach_tensor_copy_list_kernel_cuda_"),
        ("_foreach_zero_", 0, lambda t: torch._foreach_zero_([t.x, t.matrix]), KERNELS, "ATen, cuda/ForeachUnaryOp.cu"),
        ("clip_grad_norm_(foreach=True)", 0, lambda t: clip_grad_norm_(t.weights(), 1.0, foreach=True), KERNELS,
         "torch/nn/utils/clip_grad.py"),
        ("clip_grad_value_(foreach=True)", 0, lambda t: clip_grad_value_(t.weights(), 1.0, foreach=True), KERNELS,
         "torch/nn/utils/clip_grad.py"),
        ("a moving average of weights by lists", 0, lambda t: get_ema_multi_avg_fn(0.9)([t.x], [t.x.clone()], 1), KERNELS,
         "torch/optim/swa_utils.py, get_ema_multi_avg_fn"),
    ),
    *group(
        "fused and capturable optimizers",
        *((f"{kind.__name__}(fused=True).step", 0, lambda t, kind=kind: _step(t, kind, fused=True), KERNELS, source)
          for kind, source in ((torch.optim.SGD, "ATen, cuda/FusedSgdKernel.cu"),
                               (torch.optim.AdamW, "ATen, cuda/FusedAdamWKernel.cu"),
                               (torch.optim.Adagrad, "ATen, cuda/FusedAdagradKernel.cu"))),
        *((f"{kind.__name__}(capturable=True).step", 0, lambda t, kind=kind: _step(t, kind, capturable=True),
           "steps are counted on the device", f"torch/optim/{kind.__name__.lower()}.py")
          for kind in (torch.optim.NAdam, torch.optim.RMSprop)),
    ),
    *group(
        "graphs",
        ("a graph, captured and replayed", 1, _replays, ENTER, GRAPH, True),
        ("a graph, replayed many times", 1, lambda t: _replays(t, 20), ENTER, GRAPH, True),
        ("item() of a graph's result", 2, lambda t: _replays(t).sum().item(), ENTER + "; then a read-back", GRAPH, True),
        ("a graph's static input, copied from pinned memory", 1, _copies_in_and_replays, ENTER, GRAPH, True),
        ("a copy from pinned memory in a graph", 1, _pinned_copy_in_a_graph, ENTER,
         "ATen, cuda/Copy.cu: a CPU tensor in a capture must be pinned", True),
        ("a captured optimizer step", 1, _captured_step, ENTER, "torch/optim/optimizer.py: capturable=True", True),
        ("two graphs that share memory", 2, _pool_shared, ENTER, GRAPH, True),
        ("make_graphed_callables", 4, lambda t: t.module.make_graphed_callables(t.layer, (t.x,)),
         "before and after the warm-up, and before each of two captures", "torch/cuda/graphs.py, make_graphed_callables",
         True),
        ("is_current_stream_capturing", 0, lambda t: t.module.is_current_stream_capturing(), "the host knows",
         "torch/cuda/graphs.py"),
    ),
)
