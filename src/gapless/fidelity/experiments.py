"""What ``gapless calibrate`` runs on a GPU: kernels of each kind over sizes, copies, and the host's own costs.

Each experiment on kernels knows which kernels the virtual GPU would model for it
(:mod:`gapless.vgpu.hardware.kernels.costs`), so that a fit compares like with like. Needs torch only.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ..vgpu.hardware.kernels import attention, costs, feature_maps, multi_tensor
from ..vgpu.hardware.times import convolutions, products, scattered, streaming, tensor_cores
from ..vgpu.host import python_work

ELEMENTS = (2**12, 2**16, 2**20, 2**23, 2**26)
ROW = 1024  # elements of a row that a reduction or a normalisation runs over
BEYOND_CACHE_BYTES = 256 * 2**20  # operands are taken in turn from as much memory, so that the L2 cache does not serve them
MOST_BUFFERS = 64
BLOCKS, BLOCK_SECONDS, MOST_LAUNCHES = 5, 0.02, 400  # launches a block: fewer than the launch queue holds
CYCLES_PER_S = 2e9  # more than any GPU's clock, so that a sleep of so many cycles lasts at least as long as asked


def _name_of(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


# The models of kernel times, and what they are made of, by the names that a file of measurements keeps.
PROBLEMS: dict[str, type] = {
    _name_of(found): found for module in (products, convolutions, streaming, scattered, tensor_cores, feature_maps)
    for found in vars(module).values() if isinstance(found, type) and is_dataclass(found)}


@dataclass(frozen=True)
class Experiment:
    """``make(device)`` gives a call to be timed; ``bytes`` is about what its operands take."""

    what: str
    kind: str
    dtype: str
    bytes: int
    make: Callable[[torch.device], Callable[[], object]]
    kernels: tuple[costs.Kernel, ...] = ()

    def model(self) -> list[dict]:
        """The kernels that the virtual GPU models for it, in plain JSON types."""
        kernels = self.kernels or tuple(_Counting.of(self.make(torch.device("meta"))))
        return [kernel_to_json(kernel) for kernel in kernels]


def kernel_to_json(kernel: costs.Kernel) -> dict:
    """What the time of ``kernel`` follows from."""
    found = {name: getattr(kernel, name) for name in ("kind", "bytes", "flops", "dtype")}
    if kernel.problem is not None:
        found["problem"] = _to_json(kernel.problem)
        if "warm" in found["problem"]:
            found["problem"]["warm"] = False  # the operands are taken in turn from more than the L2 cache holds
    return found


def _to_json(value):
    if not is_dataclass(value):
        return value
    return {"model": _name_of(type(value)), **{field.name: _to_json(getattr(value, field.name)) for field in fields(value)}}


def kernel_from_json(value: dict) -> costs.Kernel:
    """The kernel, without its name."""
    return costs.Kernel("", value["kind"], value["bytes"], value["flops"], value["dtype"],
                        problem=_from_json(value.get("problem")))


def _from_json(value):
    if isinstance(value, list):
        return tuple(_from_json(each) for each in value)
    if not isinstance(value, dict):
        return value
    return PROBLEMS[value["model"]](**{name: _from_json(each) for name, each in value.items() if name != "model"})


class _Counting(TorchDispatchMode):
    """Collects the modelled kernels of the operators inside."""

    def __init__(self):
        super().__init__()
        self.found: list[costs.Kernel] = []

    @classmethod
    def of(cls, call: Callable[[], object]) -> list[costs.Kernel]:
        with cls() as counting:
            call()
        return counting.found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if name.startswith(("_foreach_", "_fused_")):
            self.found += multi_tensor.kernels(name, args, kwargs, out)
        elif not any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns):
            self.found += costs.kernels(name, args, kwargs, out)
        return out


# -- kernels ----------------------------------------------------------------------------------------


def experiments() -> list[Experiment]:
    """All experiments on kernels, the quick kinds first."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for count in ELEMENTS:
            found += _memory_bound(count, dtype)
    for count in ELEMENTS[:4]:
        found += _sorting(count)
    return found + list(_products()) + list(_convolutions()) + list(_attentions())


def _values(*shape: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Random numbers: a GPU draws less power for zeros, and then runs faster than it ever will in training."""
    return torch.empty(shape, device=device, dtype=dtype) if device.type == "meta" else torch.randn(
        shape, device=device, dtype=dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _memory_bound(count: int, dtype: torch.dtype) -> list[Experiment]:
    rows, size = count // ROW, count * dtype.itemsize

    def add(device):
        x, y = (_values(count, device=device, dtype=dtype) for _ in range(2))
        return lambda: x.add(y)

    def total(device):
        x = _values(rows, ROW, device=device, dtype=dtype)
        return lambda: x.sum(1)

    def norm(device):
        x = _values(rows, ROW, device=device, dtype=dtype)
        return lambda: F.layer_norm(x, (ROW,))

    def zero(device):
        x = _values(count, device=device, dtype=dtype)
        return lambda: x.zero_()

    def scan(device):
        x = _values(rows, ROW, device=device, dtype=dtype)
        return lambda: x.cumsum(1)

    def gather(device):
        x, index = _values(rows * 16, ROW // 16, device=device, dtype=dtype), _shuffled(rows * 16, device)
        return lambda: x.index_select(0, index)

    def scatter(device):
        x, index = _values(rows * 16, ROW // 16, device=device, dtype=dtype), _shuffled(rows * 16, device)
        y = torch.zeros_like(x)
        return lambda: x.index_add_(0, index, y)

    def update(device):
        parts = 32
        lists = [[_values(count // parts, device=device, dtype=dtype) for _ in range(parts)] for _ in range(2)]
        return lambda: torch._foreach_add_(*lists)

    # No operator makes a memset alone: the kernel that fills with zeros writes as much, and stands for it.
    written = (costs.Kernel("Memset (Device)", "memset", size),)
    return [Experiment(f"{what} of {count}", kind, _name(dtype), size, make, written if kind == "memset" else ())
            for what, kind, make in (("add", "pointwise", add), ("sum", "reduction", total),
                                     ("layer_norm", "normalization", norm),
                                     ("zero_", "memset", zero), ("cumsum", "scan", scan),
                                     ("index_select", "gather", gather),
                                     ("index_add_", "scatter", scatter), ("_foreach_add_", "optimizer", update))]


def _shuffled(count: int, device: torch.device) -> torch.Tensor:
    if device.type == "meta":
        return torch.empty(count, dtype=torch.int64, device=device)
    return torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(device)


def _sorting(count: int) -> list[Experiment]:
    def sort(device):
        values = torch.empty(count, device="meta") if device.type == "meta" else torch.rand(count)
        x = values.to(device)
        return lambda: x.sort()

    return [Experiment(f"sort of {count}", "sort", "float32", 4 * count, sort)]


def _products() -> Iterator[Experiment]:
    for dtype, allowed in ((torch.float32, "ieee"), (torch.float32, "tf32"), (torch.float16, "ieee"),
                           (torch.bfloat16, "ieee")):
        for side in (1024, 2048, 4096, 8192):
            def make(device, side=side, dtype=dtype, allowed=allowed):
                x, y = (_values(side, side, device=device, dtype=dtype) for _ in range(2))

                def call():
                    before = torch.backends.cuda.matmul.fp32_precision
                    torch.backends.cuda.matmul.fp32_precision = allowed
                    try:
                        return x.mm(y)
                    finally:
                        torch.backends.cuda.matmul.fp32_precision = before

                return call

            name = "tf32" if allowed == "tf32" else _name(dtype)
            yield Experiment(f"mm of {side}", "matmul", name, 2 * side * side * dtype.itemsize, make)


def _convolutions() -> Iterator[Experiment]:
    # As in residual networks and U-Nets: window, channels, side; a batch of 32.
    for window, channels, side in ((3, 64, 56), (3, 128, 28), (3, 256, 14), (1, 256, 56), (3, 64, 128)):
        for dtype in (torch.float32, torch.bfloat16):
            def forward(device, window=window, channels=channels, side=side, dtype=dtype):
                x = _values(32, channels, side, side, device=device, dtype=dtype)
                weight = _values(channels, channels, window, window, device=device, dtype=dtype)
                return lambda: F.conv2d(x, weight, padding=window // 2)

            def backward(device, window=window, channels=channels, side=side, dtype=dtype):
                x, grad = (_values(32, channels, side, side, device=device, dtype=dtype) for _ in range(2))
                weight = _values(channels, channels, window, window, device=device, dtype=dtype)
                pad = [window // 2] * 2
                return lambda: torch.ops.aten.convolution_backward(
                    grad, x, weight, None, [1, 1], pad, [1, 1], False, [0, 0], 1, [True, True, False])

            name = _name(dtype) if dtype != torch.float32 else "tf32"
            size = 2 * 32 * channels * side * side * dtype.itemsize
            yield Experiment(f"conv {window}×{window} of {channels}×{side}×{side}", "convolution", name, size, forward)
            yield Experiment(f"conv backward {window}×{window} of {channels}×{side}×{side}", "convolution", name, size,
                             backward)


def _attentions() -> Iterator[Experiment]:
    for dtype in (torch.float32, torch.bfloat16):
        for length in (512, 1024, 2048, 4096):
            def make(device, length=length, dtype=dtype):
                query, key, value = (_values(4, 12, length, 64, device=device, dtype=dtype) for _ in range(3))
                return lambda: F.scaled_dot_product_attention(query, key, value)

            part = torch.empty(4, 12, length, 64, device="meta", dtype=dtype)
            forward, _ = attention.kernels(part, part, part, None, False)
            yield Experiment(f"attention of {length}", "attention", _name(dtype), 4 * part.numel() * dtype.itemsize, make,
                             tuple(forward))


def measure(experiment: Experiment, device: torch.device) -> dict:
    """Time one experiment on a CUDA device: seconds a call (median of blocks), in plain JSON types.

    A sleeping kernel goes ahead of each block, so that the calls are queued by then and the host's pace does not count.
    """
    buffers = min(MOST_BUFFERS, max(1, -(-BEYOND_CACHE_BYTES // experiment.bytes)))
    calls = [experiment.make(device) for _ in range(buffers)]
    for call in calls[:3] * 2:
        call()
    torch.cuda.synchronize(device)
    once_s, host_s = _block(calls, 3, 0.0)
    each = max(1, len(experiment.model()))
    times = max(3, min(MOST_LAUNCHES // each, int(BLOCK_SECONDS / max(once_s, 1e-7))))
    samples = [_block(calls, times, host_s)[0] for _ in range(BLOCKS)]
    return {"what": experiment.what, "kind": experiment.kind, "dtype": experiment.dtype, "bytes": experiment.bytes,
            "seconds": statistics.median(samples), "samples_s": samples, "model": experiment.model()}


def _block(calls: list, times: int, host_s: float) -> tuple[float, float]:
    """Seconds a call on the device and on the host."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if host_s:
        torch.cuda._sleep(int(1.5 * host_s * times * CYCLES_PER_S))
    start.record()
    began = time.perf_counter()
    for number in range(times):
        calls[number % len(calls)]()
    host = (time.perf_counter() - began) / times
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times, host


# -- the host ---------------------------------------------------------------------------------------


def _per_call_s(call: Callable[[], object], times: int, synchronize) -> float:
    samples = []
    for _ in range(BLOCKS):
        synchronize()
        began = time.perf_counter()
        for _ in range(times):
            call()
        samples.append((time.perf_counter() - began) / times)
    synchronize()
    return statistics.median(samples)


def measure_host(device: torch.device) -> dict[str, float]:
    """The host's own costs with a CUDA device: seconds a call, bytes a second, and how many launches the queue holds."""
    def wait() -> None:
        torch.cuda.synchronize(device)

    x, matrix = torch.zeros(16, device=device), torch.zeros(16, 16, device=device)
    found = {
        **measure_processor(),
        # A launch with almost nothing around it; an operator is that and PyTorch's part.
        "launch_s": _per_call_s(lambda: torch.cuda._sleep(0), 300, wait),
        "operator_s": _per_call_s(lambda: x.add(1), 300, wait),
        "product_s": _per_call_s(lambda: matrix.mm(matrix), 300, wait),
        "view_s": _per_call_s(lambda: x.view(4, 4), 1000, wait),
        "synchronize_s": _per_call_s(torch.cuda.current_stream(device).synchronize, 300, wait),
        "queue_length": _queue_length(x, device),
    }
    count = 2**26
    on_device = torch.zeros(count, dtype=torch.uint8, device=device)
    pageable = torch.zeros(count, dtype=torch.uint8)
    pinned = torch.zeros(count, dtype=torch.uint8).pin_memory()
    for name, source, target in (("pinned_to_device", pinned, on_device), ("pageable_to_device", pageable, on_device),
                                 ("device_to_pinned", on_device, pinned), ("device_to_pageable", on_device, pageable)):
        found[f"{name}_bytes_per_s"] = count / _per_call_s(lambda s=source, t=target: t.copy_(s), 3, wait)  # type: ignore[misc]
    return found


def measure_processor() -> dict[str, float]:
    """What the host does without a GPU: seconds for a Python call, the cores that PyTorch uses, FLOP/s and bytes/s of one of
    them, bytes/s of all."""
    threads = torch.get_num_threads()
    found = {"python_call_s": _python_call_s(), "cores": threads}
    count = 2**25  # floats: beyond the caches
    x, y = torch.zeros(count), torch.ones(count)
    matrix = torch.randn(1024, 1024)
    bytes_, flops = 2 * 4 * count, 2 * 1024**3
    found["memory_bytes_per_s"] = bytes_ / _per_call_s(lambda: y.copy_(x), 3, _nothing)
    torch.set_num_threads(1)
    try:
        found["core_bytes_per_s"] = bytes_ / _per_call_s(lambda: y.copy_(x), 3, _nothing)
        found["core_flops"] = flops / _per_call_s(lambda: matrix @ matrix, 3, _nothing)
    finally:
        torch.set_num_threads(threads)
    return found


def _python_call_s() -> float:
    """Seconds for each function that Python calls in a network's forward pass, without its operators, which have nothing to
    do: a tree of modules, as they are in every training step."""
    network = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity()) for _ in range(50)))
    x = torch.zeros(1)
    python = python_work.counter(lambda filename: True)
    python.start()
    network(x)
    calls = python.take()
    python.stop()
    return _per_call_s(lambda: network(x), 20, _nothing) / calls


def _nothing() -> None:
    """There is nothing to wait for."""


def _queue_length(x: torch.Tensor, device: torch.device) -> int:
    """How many kernels may wait before a launch blocks: launches behind a long one, until a call lasts far longer."""
    torch.cuda.synchronize(device)
    torch.cuda._sleep(int(0.3 * CYCLES_PER_S))
    usual_s, length = 50e-6, 0
    for length in range(1, 10_000):  # noqa: B007  returned below
        began = time.perf_counter()
        x.add_(1)
        if time.perf_counter() - began > 100 * usual_s:
            break
    torch.cuda.synchronize(device)
    return length
