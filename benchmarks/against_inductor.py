"""How often the virtual GPU's kernels of a compiled graph are the ones that Inductor makes.

    python benchmarks/against_inductor.py

Needs no GPU: AOTAutograd traces and partitions each function on the CPU; its graphs, with the device changed, then
go through Inductor's lowering and scheduling for an A100 (no code is made). For each function: the kernels of the
forward and of the backward pass, by kind, there and here.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from contextlib import ExitStack
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._inductor import compile_fx, config, ir, scheduler
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from gapless import vgpu
from gapless.vgpu.compiling import regions
from gapless.vgpu.hardware.clock.timeline import Recording

A100 = DeviceProperties(type="cuda", index=0, multi_processor_count=108, cc=80, major=8, regs_per_multiprocessor=65536,
                        max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32)


class _Properties:
    name, major, minor, multi_processor_count, total_memory = "NVIDIA A100", 8, 0, 108, 40 * 2**30
    max_threads_per_multi_processor, warp_size, regs_per_multiprocessor = 2048, 32, 65536
    L2_cache_size, shared_memory_per_block_optin, gcnArchName = 40 * 2**20, 166_912, ""


def an_a100() -> ExitStack:
    """Inside PyTorch takes the machine to have an A100; nothing can run on it."""
    stack = ExitStack()
    cuda = torch.cuda
    for owner, name, value in (
            (DeviceProperties, "create", staticmethod(lambda device: A100)), (cuda, "is_available", lambda: True),
            (cuda, "device_count", lambda: 1), (cuda, "current_device", lambda: 0), (cuda, "_lazy_init", lambda: None),
            (cuda, "get_device_properties", lambda *device: _Properties),
            (scheduler, "has_triton", lambda: True), (cuda, "get_device_capability", lambda *device: (8, 0))):
        stack.enter_context(mock.patch.object(owner, name, value))
    return stack


def _kind(node) -> str:
    return "library" if node.is_extern() else "reduction" if node.is_reduction() else "pointwise"


def _on_cuda(value):
    return torch.device("cuda", 0) if isinstance(value, torch.device) else value


def scheduled(module: torch.fx.GraphModule, forms, backward: bool) -> Counter:
    """The kernels, by kind, that Inductor's scheduler makes of a graph that was traced on the CPU."""
    for node in module.graph.nodes:
        node.args = map_aggregate(node.args, _on_cuda)
        node.kwargs = map_aggregate(node.kwargs, _on_cuda)
    module.recompile()
    with an_a100():
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode:
            given = [torch.empty_strided(each[0], each[1], dtype=each[2], device="cuda") if isinstance(each, tuple) else each
                     for each in forms]
        FakeTensorProp(module, mode).propagate(*given)
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(module, is_inference=False)
        FakeTensorProp(module, mode).propagate(*given)
        graph = GraphLowering(module, example_inputs=given, is_backward=backward, is_inference=False)
        with V.set_graph_handler(graph), V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
            graph.run(*given)
            graph._update_scheduler()
            return Counter(_kind(node) for node in graph.scheduler.nodes
                           if type(node).__name__ != "NopKernelSchedulerNode" and not isinstance(node.node, ir.MultiOutput))


def inductors(function, inputs) -> tuple[Counter, Counter]:
    """Inductor's kernels of a function, forward and backward."""
    graphs = {}

    def compiler(backward: bool):
        def keep(module, given):
            graphs[backward] = copy.deepcopy(module), [
                (tuple(each.shape), each.stride(), each.dtype) if isinstance(each, torch.Tensor) else each for each in given]
            return make_boxed_func(module.forward)

        return keep

    def partition(module, joint_inputs, **options):
        with V.set_fake_mode(detect_fake_mode()):
            joint_graph_passes(module)
        return min_cut_rematerialization_partition(module, joint_inputs, compiler="inductor", **options)

    module = function if isinstance(function, nn.Module) else _Function(function)
    run = aot_module_simplified(module, inputs, fw_compiler=compiler(False), bw_compiler=compiler(True),
                                partition_fn=partition, decompositions=select_decomp_table(),
                                keep_inference_input_mutations=True)
    out = run(*inputs)
    sum(each.sum() for each in out if each.requires_grad).backward()  # upon which the backward pass is compiled
    return tuple(scheduled(*graphs[backward], backward) if backward in graphs else Counter() for backward in (False, True))


class _Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def ours(function, inputs, device) -> tuple[Counter, Counter]:
    """The virtual GPU's kernels of the same."""
    inputs = [each.detach().to(device).requires_grad_(each.requires_grad) for each in inputs]
    found = []
    timeline = vgpu.timeline()

    def recorded(call):
        timeline.recording = recording = Recording(lines=False)
        try:
            out = call()
            timeline.synchronize_device()
        finally:
            timeline.recording = None
        found.append(Counter(kind for kind in map(_kind_of, recording.records) if kind))
        return out

    def forward():
        with regions.running(function.__name__) as region:
            return region.returns(function(*inputs))

    out = recorded(forward)
    total = [(each, torch.ones_like(each)) for each in out if each.requires_grad]
    if total:
        given = [each for each in inputs if each.requires_grad]
        results, gradients = zip(*total)
        recorded(lambda: torch.autograd.grad(results, given, gradients))
    return tuple(found) if total else (*found, Counter())


def _kind_of(record) -> str | None:
    if record.category == "kernel" and record.name.startswith("triton_"):
        return "pointwise" if record.name.startswith("triton_poi") else "reduction"
    return "library" if record.category == "cpu_op" and record.name.startswith("aten::") else None


# -- functions ----------------------------------------------------------------------------------------


def gelu(x):
    return (0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)


def softmax(x, mask):
    return (F.dropout(torch.softmax(x * 0.125 + mask, -1), 0.1),)


def norm_of_sum(x, residual, weight, bias):
    return (F.layer_norm(F.dropout(x, 0.1) + residual, weight.shape, weight, bias),)


def linear_gelu_linear(x, first, bias, second):
    return (F.linear(F.gelu(F.linear(x, first, bias)), second),)


def convolution_norm_relu(x, weight, scale, shift):
    return (F.relu(F.batch_norm(F.conv2d(x, weight, padding=1), None, None, scale, shift, training=True)),)


def shared_inputs(x, y):
    return x.sin() + y, x.cos() * y, x - y


def diamond(x, weight):
    left = torch.sin(x)
    return (torch.mm(left, weight) + left * 2,)


def loss(x, labels):
    return (F.cross_entropy(x, labels),)


def gated(x, gate):
    return (F.silu(gate) * x,)


def root_mean_square(x, weight):
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight,)


def transposed(x, y):
    return ((x + 1).t().contiguous() * y,)


def summed_twice(x):
    return x.sum(0), x.sum(1), x.mean()


def split_and_joined(x):
    a, b = x.chunk(2, -1)
    return (torch.cat([b * 2, a.relu()], -1),)


def looked_up(table, index, position):
    return (F.layer_norm(F.embedding(index, table) + position, (table.shape[1],)),)


def _of(*shapes):
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


CASES = {
    gelu: _of((1 << 20,)),
    softmax: [*_of((8, 16, 128, 128)), torch.zeros(8, 1, 1, 128)],
    norm_of_sum: _of((4096, 768), (4096, 768), (768,), (768,)),
    linear_gelu_linear: _of((512, 256), (1024, 256), (1024,), (256, 1024)),
    convolution_norm_relu: _of((8, 64, 32, 32), (128, 64, 3, 3), (128,), (128,)),
    shared_inputs: _of((1024, 1024), (1024, 1024)),
    diamond: _of((512, 512), (512, 512)),
    loss: [*_of((4096, 1000)), torch.zeros(4096, dtype=torch.long)],
    gated: _of((1024, 2048), (1024, 2048)),
    root_mean_square: _of((4096, 1024), (1024,)),
    transposed: _of((512, 1024), (1024, 512)),
    summed_twice: _of((1024, 1024)),
    split_and_joined: _of((1024, 512)),
    looked_up: [*_of((1000, 256)), torch.zeros(32, 64, dtype=torch.long), *_of((64, 256))],
}


def main() -> None:
    """Print a line for each function and direction."""
    config.force_disable_caches = True
    torch.manual_seed(0)
    device = vgpu.enable("a100")
    same = every = 0
    for function, inputs in CASES.items():
        for way, theirs, mine in zip(("forward", "backward"), inductors(function, inputs), ours(function, inputs, device)):
            every += 1
            same += theirs == mine
            print(f"{function.__name__:24} {way:8} Inductor {_words(theirs):44} here {_words(mine):44} "
                  f"{'' if theirs == mine else 'differs'}", flush=True)
    print(f"{same} of {every} alike")


def _words(found: Counter) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "none"


if __name__ == "__main__":
    main()
