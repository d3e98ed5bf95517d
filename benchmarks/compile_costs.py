"""What ``torch.compile`` takes: Dynamo's tracing, AOTAutograd's and Inductor's Python, and Triton's compiling of a kernel.

python benchmarks/compile_costs.py [--repeat 3]

Needs no GPU: Inductor generates its code for the CPU, which is not compiled (a kernel does nothing, so values are rubbish),
and Triton compiles for an A100. What is fitted here is in src/gapless/vgpu/hardware/clock/compile_costs.py.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time

os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn
from torch._dynamo import utils
from torch._inductor.async_compile import AsyncCompile
from torch.utils._python_dispatch import TorchDispatchMode

torch._inductor.config.force_disable_caches = True
AsyncCompile.cpp_pybinding = lambda self, *args, **options: lambda *args: None


COLUMNS = ("pointwise", "others")


class Counted(TorchDispatchMode):
    """How many operators run that make no view: those that compute each element by itself, and others."""

    def __init__(self):
        super().__init__()
        self.pointwise = self.others = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)
        is_pointwise = torch.Tag.pointwise in func.tags
        self.pointwise += is_pointwise
        self.others += not (is_view or is_pointwise)
        return func(*args, **kwargs or {})


def chain(length: int):
    """A chain of pointwise operators, twice as many as ``length``."""

    def chained(x):
        for _ in range(length):
            x = torch.sin(x) * 1.1
        return x

    return chained, torch.randn(64, 64)


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


def perceptron(layers: int):
    """Linear layers with a norm and an activation each."""
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(layers)]
    return nn.Sequential(*blocks), torch.randn(8, 64)


def encoder(layers: int):
    """A transformer's encoder."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), torch.randn(2, 16, 64)


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(2))

    def forward(self, x):
        y = F.relu(self.norms[0](self.convs[0](x)))
        return F.relu(x + self.norms[1](self.convs[1](y)))


def programs():
    """Name → what is compiled, and what it is called with."""
    yield "chain of 10", *chain(5)
    yield "chain of 40", *chain(20)
    yield "chain of 120", *chain(60)
    yield "gelu", gelu, torch.randn(64, 64)
    for layers in (1, 4, 12):
        yield f"perceptron, {layers}", *perceptron(layers)
    for layers in (1, 3):
        yield f"encoder, {layers}", *encoder(layers)
    for blocks in (1, 4, 10):
        yield f"residual blocks, {blocks}", nn.Sequential(*[Block() for _ in range(blocks)]), torch.randn(2, 16, 8, 8)


def measured(function, x, train: bool) -> dict[str, float]:
    """Seconds and counts of one compilation, forward and (``train``) backward."""
    x = x.clone().requires_grad_(train)
    with torch.set_grad_enabled(train), Counted() as forward:
        out = function(x)
    with Counted() as backward:
        if train:
            out.sum().backward()
    torch._dynamo.reset()
    compiled = torch.compile(function)
    utils.compilation_time_metrics.clear()

    def seconds(name: str) -> float:
        return sum(utils.compilation_time_metrics.get(name, ()))

    with torch.set_grad_enabled(train):
        out = compiled(x)
    backend = seconds("OutputGraph.call_user_compiler")
    found = {"dynamo": seconds("_compile.compile_inner") - backend, "forward": backend, "pointwise": forward.pointwise,
             "others": forward.others}
    if train:
        out.sum().backward()
        found.update(backward=seconds("backward._backward_impl"), backward_pointwise=backward.pointwise,
                     backward_others=backward.others)
    return found


def fit(rows: list[dict], wanted: str) -> tuple[np.ndarray, float]:
    """Seconds: fixed and for each of COLUMNS, none below 0; and the mean error."""
    from scipy.optimize import nnls

    table = np.array([[1.0, *[row[name] for name in COLUMNS]] for row in rows])
    seconds = np.array([row[wanted] for row in rows])
    found, _ = nnls(table / seconds[:, None], np.ones(len(rows)))  # relative errors
    return found, float(np.mean(np.abs(table @ found / seconds - 1)))


def call_us(function, args: tuple, train: bool, calls: int = 300) -> float:
    """Microseconds of one call of the compiled ``function``, whose kernels do nothing; the best of five series. ``train``:
    of its forward pass, with gradients wanted."""
    torch._dynamo.reset()
    compiled = torch.compile(function)
    series = []
    with torch.set_grad_enabled(train):
        for _ in range(6):
            began = time.perf_counter()
            for _ in range(calls):
                compiled(*args)
            series.append((time.perf_counter() - began) / calls * 1e6)
    return min(series[1:])


_serial = itertools.count(1)


def triton_kernel(lines: int) -> float | None:
    """Seconds to compile a pointwise kernel of ``lines`` operators to an A100's code; None without Triton. No two kernels
    are alike, since Triton keeps what it has compiled."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        return None
    body = "".join(f"    x = tl.math.exp(x) * {1 + place / 100} + 0.5\n" for place in range(lines // 3 + 1))
    source = ("import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
              "def kernel(source, target, n, XBLOCK: tl.constexpr):\n"
              "    index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]\n    mask = index < n\n"
              f"    x = tl.load(source + index, mask) + {next(_serial)}\n{body}    tl.store(target + index, x, mask)\n")
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:  # Triton reads a kernel's source
        file.write(source)
    space: dict = {}
    exec(compile(source, file.name, "exec"), space)
    signature = {"source": "*fp32", "target": "*fp32", "n": "i32", "XBLOCK": "constexpr"}
    began = time.perf_counter()
    triton.compile(ASTSource(fn=space["kernel"], signature=signature, constexprs={"XBLOCK": 512}),
                   target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    measured(gelu, torch.randn(8, 8), True)  # what a process does once
    rows = []
    for name, function, x in programs():
        for train in (False, True):
            runs = [measured(function, x, train) for _ in range(repeat)]
            row = {key: min(run[key] for run in runs) for key in runs[0]}
            rows.append(row)
            shown = {key: round(value, 3) for key, value in row.items()}
            print(f"{name:22}", "train" if train else "infer", shown, flush=True)
    trained = [row for row in rows if "backward" in row]
    backward = [{name.removeprefix("backward_"): value for name, value in row.items() if name.startswith("backward")}
                for row in trained]
    for what, given, wanted in (("Dynamo", rows, "dynamo"), ("backend, forward", rows, "forward"),
                                ("backend, backward", backward, "backward")):
        found, error = fit(given, wanted)
        print(f"{what:20}", *(f"{name} {each * 1e3:.2f} ms" for name, each in zip(("fixed", *COLUMNS), found)),
              f"error {error:.0%}")
    for train in (False, True):
        for count in (1, 4, 16, 64):
            xs = [torch.randn(4, requires_grad=train) for _ in range(count)]
            norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(count))
            given = call_us(lambda *xs: torch.stack(xs), xs, train)
            used = call_us(lambda x: torch.stack([x * each.weight for each in norms]), xs[:1], train)
            print(f"a call, {'train' if train else 'infer'}: {given:.1f} us with {count} tensors,",
                  f"{used:.1f} us with a module of {count} parameters that are used")
    triton_kernel(1)
    for lines in (1, 10, 40, 100):
        times = [triton_kernel(lines) for _ in range(repeat)]
        print(f"Triton, {lines} operators: {statistics.median(times) * 1e3:.0f} ms" if times[0] else "no Triton here")


if __name__ == "__main__":
    main()
