"""Lesson 05: what half precision does to gradients, and what a scaler does about it, to be looked at."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from ....course.headline import MarkdownText
from ....evidence.pictures.figure import new_figure
from .. import workload
from . import stage

_ROWS, _SIDE, _CHANNELS, _WIDTH = 128, 32, 8, 64  # of the small network
_LOWEST, _HIGHEST = -40, 40  # powers of two that are drawn


def accumulating_step(train_step: Callable, device: torch.device, dtype: torch.dtype, micro_batches: int = 2
                      ) -> Callable[[], None]:
    """A step of the slow program's network by ``train_step``, its batch cut into micro-batches. On the virtual GPU call it
    inside ``full_size``."""
    model = workload.make_network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    images = torch.randn(workload.BATCH, 3, workload.SIDE, workload.SIDE, device=device)
    labels = torch.zeros(workload.BATCH, dtype=torch.int64, device=device)
    batches = list(zip(images.chunk(micro_batches), labels.chunk(micro_batches)))
    return lambda: train_step(model, optimizer, scaler, batches, dtype, 1.0)


def _network_and_batch(device: torch.device):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = stage.make_network(_CHANNELS, _WIDTH).to(device)
        x = torch.randn(_ROWS, 3, _SIDE, _SIDE).to(device)
        y = torch.randint(stage.CLASSES, (_ROWS,)).to(device)
    return model, x, y


def draw_gradients(device: torch.device, exponents: tuple[int, ...] = (0, 10, 36)):
    """How large the gradients of a small network's feature maps are, the loss scaled by powers of two; and which of them
    float16 makes 0 or inf. Values are computed, not simulated. Returns a figure. Raises ImportError without matplotlib."""
    model, x, y = _network_and_batch(device)
    maps = [x]
    for layer in model:
        maps.append(layer(maps[-1]))
    loss = F.cross_entropy(maps[-1], y)
    maps = [each for each in maps[1:-1] if each.dim() == 4]
    found = torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, maps)]).cpu()
    found = found[found != 0]
    rows, words = [], []
    for exponent in exponents:
        scaled = found * 2.0**exponent
        half = scaled.half()
        lost, infinite = float((half == 0).float().mean()), float(half.isinf().float().mean())
        rows.append((exponent, scaled.abs().log2().floor(), lost, infinite))
        words.append(f"times 2^{exponent}: {100 * lost:.0f} % become 0 in float16, {100 * infinite:.0f} % inf")
    figure = new_figure(8.0, 1.3 * len(rows) + 0.6, "Histograms of the sizes of gradients, " + "; ".join(words) + ".")
    for axes, (exponent, sizes, lost, infinite) in zip(figure.subplots(len(rows), sharex=True), rows):
        counts = torch.histc(sizes, bins=_HIGHEST - _LOWEST, min=_LOWEST, max=_HIGHEST) / len(sizes)
        axes.bar([_LOWEST + place for place in range(len(counts))], counts.tolist(), width=0.9, color="#3b7dc4")
        for start, end, hatch in ((_LOWEST, -24.5, "////"), (15.5, _HIGHEST, "xxxx")):
            axes.axvspan(start, end, facecolor="none", edgecolor="#d9541e", hatch=hatch, linewidth=0)
        axes.set_title(f"loss × 2^{exponent}: {100 * lost:.0f} % are 0 in float16 (////), {100 * infinite:.0f} % inf (xxxx)",
                       loc="left", fontsize=9.5)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlim(_LOWEST, _HIGHEST)
    axes.set_xlabel("size of a gradient, as a power of two")
    return figure


def scale_history(train_step: Callable, device: torch.device, steps: int = 9, scale: float = 2.0**24) -> MarkdownText:
    """A table of a small network's first steps by ``train_step``, from a scale that is too large. Real values."""
    model, x, y = _network_and_batch(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type, init_scale=scale, growth_interval=3)
    lines = ["| step | scale before it | the optimizer's step | loss |", "|---:|---:|---|---:|"]
    for step in range(1, steps + 1):
        before, weights = scaler.get_scale(), model[0].weight.detach().clone()
        loss = train_step(model, optimizer, scaler, [(x, y)], torch.float16, 1.0)
        taken = "taken" if not torch.equal(model[0].weight, weights) else "**skipped**"
        lines.append(f"| {step} | 2^{torch.tensor(before).log2():.0f} | {taken} | {float(loss):.3f} |")
    return MarkdownText("\n".join(lines))
