"""The workload of lesson 03: ResNet-18, the metrics of a training loop, and what its exercises run in.

After Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 7" (2025), on metric collection: its sizes and
its metrics, our code. torchvision is imported when it is needed: the core does without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.headline import MarkdownText
from ...evidence.report import StepReport
from ...evidence.traces.waits import enclosing, find_waits
from ...vgpu import Assumptions
from ...words import origin
from .stage import CLASSES, METRICS, torchmetrics
from .update_loss import slow

ARTICLE_CLASSES = 1000


@dataclass(frozen=True)
class Size:
    """``batch`` images of 3×``side``×``side``."""

    batch: int
    side: int


ARTICLE_SIZE = Size(128, 224)
SMALL_SIZE = Size(16, 224)  # of the headline: ours; there a wait costs nearly a tenth of a step
LABELS = Assumptions(distinct=CLASSES)


def make_network(classes: int = ARTICLE_CLASSES) -> nn.Module:
    """torchvision's ResNet-18 with random weights."""
    try:
        from torchvision.models import resnet18
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"lesson 03 trains torchvision's ResNet-18 ({error}): pip install torchvision") from error
    return resnet18(num_classes=classes)


class TrainingMetrics:
    """The mean loss and four classification metrics of a training loop, over ``classes`` classes.

    Unoptimised: a ``MeanMetric`` that is given the batch size as the loss's weight, and four metrics that are updated
    one by one, with the averages that ``torchmetrics.Accuracy(task="multiclass", …)`` and its siblings have by default
    ("micro"). ``update_loss(metric, loss, batch)``, ``mean_class`` and ``shared`` (one state for the four metrics) exchange
    a part of it.
    """

    def __init__(self, device: torch.device, update_loss: Callable | None = None, mean_class: type | None = None,
                 shared: bool = False, classes: int = ARTICLE_CLASSES):
        self.update_loss = update_loss or slow.update_loss
        self.loss = (mean_class or torchmetrics().MeanMetric)().to(device)
        four = {name: metric(num_classes=classes, average="micro") for name, metric in METRICS.items()}
        if shared:
            self.four = [torchmetrics().MetricCollection(four, compute_groups=[list(METRICS)]).to(device)]
        else:
            self.four = [metric.to(device) for metric in four.values()]

    def update(self, loss: torch.Tensor, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Add one batch: its mean loss (a scalar), logits N×C, labels N."""
        self.update_loss(self.loss, loss, targets.shape[0])
        for metric in self.four:
            metric.update(outputs, targets)

    def compute(self) -> dict[str, float]:
        """All values, as Python numbers: a wait for each."""
        values = [metric.compute() for metric in self.four]
        four = values[0] if len(values) == 1 else dict(zip(METRICS, values))
        return {"loss": float(self.loss.compute()), **{name: float(four[name]) for name in METRICS}}

    def reset(self) -> None:
        """Start again."""
        for metric in (self.loss, *self.four):
            metric.reset()


def training_step(device: torch.device, metrics: TrainingMetrics | None = None, size: Size = ARTICLE_SIZE,
                  classes: int = ARTICLE_CLASSES) -> Callable[[], None]:
    """Return a training step of the article's program, which can be called many times and updates ``metrics``.

    SGD, learning rate 0.001; one pinned batch is copied to the device each step. On the virtual GPU call it inside
    ``full_size(device, LABELS)``.
    """
    torch.manual_seed(0)
    network = make_network(classes).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001)
    shape = (size.batch, 3, size.side, size.side)
    if device.type == "vgpu" and vgpu.is_shape_only():
        host_images, host_targets = torch.empty(shape), torch.empty(size.batch, dtype=torch.int64)
    else:
        host_images, host_targets = torch.randn(shape), torch.randint(0, classes, (size.batch,))
    if device.type != "cpu":
        host_images, host_targets = host_images.pin_memory(), host_targets.pin_memory()

    def step():
        images = host_images.to(device, non_blocking=True)
        targets = host_targets.to(device, non_blocking=True)
        outputs = network(images)
        loss = F.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if metrics is not None:
            metrics.update(loss.detach(), outputs.detach(), targets)

    return step


def size_in_words(device: torch.device) -> str:
    """Such as "batch 16 of 3×224×224, 1000 classes (our choice; the article's batch is 128)"."""
    return (f"batch {SMALL_SIZE.batch} of 3×{SMALL_SIZE.side}×{SMALL_SIZE.side}, {ARTICLE_CLASSES} classes "
            f"(our choice; the article's batch is {ARTICLE_SIZE.batch})")


def waits_by_block(report: StepReport) -> MarkdownText:
    """A table of the blocks that ``record_function`` marked: the waits in each, in a step, and their time. A wait counts for
    the innermost block around it."""
    spans = report.trace.spans
    blocks = [span for span in spans if span.category == "annotation"]
    waits = find_waits(spans)
    around = enclosing(blocks, [wait.call for wait in waits])
    others = ("ProfilerStep#", "Optimizer.")  # PyTorch's own
    found: dict[str, list[float]] = {block.name: [] for block in blocks if not block.name.startswith(others)}
    for wait in waits:
        inside = [block.name for block in around[wait.call] if block.name in found]
        if inside:
            found[inside[-1]].append(wait.wait_us / 1e3)
    steps = max(report.steps, 1)
    place = origin(report.simulated, report.device_name)
    lines = [f"| block | waits a step | waiting, ms a step ({place}) |", "|---|---:|---:|"]
    lines += [f"| {name} | {len(times) / steps:g} | {sum(times) / steps:.2f} |" for name, times in found.items()]
    return MarkdownText("\n".join(lines))
