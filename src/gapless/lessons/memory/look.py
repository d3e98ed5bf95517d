"""Lesson 08: what the exercises on less memory change, to be looked at: layers' bytes and times, a step's memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from ...course.exercise import full_size
from ...evidence.traces.trace import Trace
from ...measure.device import clock_ms, origin_of, synchronize
from ...measure.memory_profile import memory_profile
from ...measure.peak import PeakMeter
from .accumulate import cases
from .cases import full_weights
from .checkpointed import cases as checkpointed_cases
from .optimizer_in_backward import cases as optimizer_in_backward_cases
from .stage import Block, BlockNetwork, TokenNetwork, make_optimizer, with_weights


def memory_of(make_step: Callable[[], Callable[[], object]], device: torch.device) -> Trace:
    """The memory of the step that ``make_step()`` returns, made and run at full size: for ``gapless.memory_picture``."""
    with full_size(device):
        return memory_profile(make_step(), device=device)


def _block_network(device: torch.device) -> BlockNetwork:
    def make() -> BlockNetwork:
        return BlockNetwork(checkpointed_cases.FULL_WIDTH)

    return with_weights(make, full_weights(make, device), device)


def checkpoint_step(checkpointed: Callable, device: torch.device) -> Callable[[], None]:
    """A training step of the exercise's size with the forward pass that ``checkpointed(model)`` makes."""
    given, model = checkpointed_cases.full_checkpoint(device)(), _block_network(device)
    images, labels = given.inputs["images"][0], given.inputs["labels"][0]
    forward, optimizer = checkpointed(model), torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(forward(images), labels).backward()
        optimizer.step()

    return step


def layer_costs(device: torch.device) -> str:
    """A table of the first block: what each layer keeps for the backward pass, and how long its forward pass takes."""
    rows = []
    with full_size(device):
        block, images = _block_network(device).blocks[0], checkpointed_cases.full_checkpoint(device)().inputs["images"][0]
        for _ in range(2):  # the first time is a warm-up
            rows, known = [], {parameter.data_ptr() for parameter in block.parameters()}
            x = images
            for name, layer in _layers(block):
                x, kept, ms = _run(layer, x, known, device)
                rows.append(f"{name:8}{kept / 2**20:10.0f} MiB{ms:10.2f} ms")
    return "\n".join([f"the first block ({origin_of(device)})", f"{'':8}{'keeps':>14}{'takes':>13}", *rows])


def _layers(block: Block) -> list[tuple[str, Callable]]:
    return [("conv", block.conv), ("norm", block.norm), ("GELU", F.gelu), ("drop", block.drop), ("resize", block.resize)]


def _run(layer: Callable, x: torch.Tensor, known: set[int], device: torch.device) -> tuple[torch.Tensor, int, float]:
    """The layer's output, the bytes that it saves of memory that is not among the addresses ``known``, which it adds to, and
    ms."""
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    synchronize(device)
    start_ms = clock_ms(device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        x = layer(x)
    synchronize(device)
    kept = sum(nbytes for address, nbytes in saved.items() if address not in known)
    known.update(saved)
    return x, kept, clock_ms(device) - start_ms


def accumulate_step(accumulate: Callable, parts: int, device: torch.device) -> Callable[[], None]:
    """A step on the exercise's batch in so many parts."""
    given, model = _token_network(cases.full_accumulate(device)(), device)
    optimizer = make_optimizer("momentum", list(model.parameters()))
    tokens, labels = given.inputs["tokens"][0], given.inputs["labels"][0]

    def step():
        accumulate(model, optimizer, tokens, labels, parts)

    return step


def _token_network(given, device: torch.device) -> tuple[object, TokenNetwork]:
    return given, with_weights(lambda: TokenNetwork(*given.options["sizes"]), given.inputs["weights"], device)


def parts_table(accumulate: Callable, device: torch.device, counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32)) -> str:
    """The most memory and the time of a step, by the number of parts."""
    rows = []
    for parts in counts:
        with full_size(device):
            step, meter = accumulate_step(accumulate, parts, device), PeakMeter(device)
            step()
            synchronize(device)
            start_ms = clock_ms(device)
            with meter.call():
                step()
            synchronize(device)
            rows.append(f"{parts:5}{meter.peak_bytes / 2 ** 20:12.0f} MiB{clock_ms(device) - start_ms:12.2f} ms")
    return "\n".join([f"a step on 64 × 256 tokens ({origin_of(device)})",
                      f"parts{'takes at most':>16}{'time':>15}", *rows])


def norm_in_parts(device: torch.device) -> str:
    """How far gradients of a batch in four parts lie from those of the whole, by the norm that the network has."""
    rows = []
    for name, norm, training in (("LayerNorm", nn.LayerNorm(8), True), ("GroupNorm", nn.GroupNorm(2, 8), True),
                                 ("BatchNorm1d", nn.BatchNorm1d(8), True),
                                 ("BatchNorm1d in evaluation mode", nn.BatchNorm1d(8), False)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(6, 8), norm, nn.GELU(), nn.Linear(8, 3)).to(device)
            x, y = torch.randn(16, 6).to(device), torch.randint(0, 3, (16,)).to(device)
        model[1].train(training)
        found = []
        for parts in (1, 4):
            model.zero_grad()
            for some, wanted in zip(x.chunk(parts), y.chunk(parts)):
                (F.cross_entropy(model(some), wanted, reduction="sum") / len(y)).backward()
            found.append(model[0].weight.grad)
        apart = ((found[1] - found[0]).norm() / found[0].norm()).item()
        rows.append(f"{name:32}{100 * apart:8.2f} %")
    return "\n".join(["gradients in four parts: difference from those of the whole batch", *rows])


def backward_step(optimizer_in_backward: Callable, device: torch.device, name: str = "momentum") -> Callable[[], None]:
    """A step of the exercise's size with the optimizer of that ``name``, as ``optimizer_in_backward`` trains."""
    given, model = _token_network(optimizer_in_backward_cases.full_backward(device)(), device)
    train, _ = optimizer_in_backward(model, lambda parameters: make_optimizer(name, parameters))
    tokens, labels = given.inputs["tokens"][0], given.inputs["labels"][0]

    def step():
        train(F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten()))

    return step
