"""Lesson 02: a masked segmentation loss whose data-dependent sizes make the host wait.

The workload and the loss as first written, after Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3"
(2023): its sizes, its rules, our code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.evidence import Case
from ...course.exercise import Exercise, Lesson, Program
from ...vgpu import Assumptions

IGNORE = -1
BACKGROUND = 9
CLASSES = 10


# -- the loss as first written --------------------------------------------------------------------


def ignore_background(target):
    """Labels B×H×W int64 with the background class replaced by the ignore value (in place)."""
    background = torch.nonzero(target == BACKGROUND, as_tuple=True)
    target[background] = IGNORE
    return target


def zero_if_uniform(loss, target):
    """The loss (a scalar), or zero where the labels hold fewer than two distinct values."""
    if torch.unique(target).numel() < 2:
        loss = 0.0 * loss
    return loss


def masked_cross_entropy(pred, target):
    """Mean cross-entropy of pred B×C×H×W float over the labels B×H×W int64 that are not ignored."""
    classes = pred.shape[1]
    valid = target != IGNORE
    rows = pred.permute(0, 2, 3, 1)
    valid_rows = rows[valid.unsqueeze(-1).expand(-1, -1, -1, classes)].reshape(-1, classes)
    return F.cross_entropy(valid_rows, target[valid])


def sparse_head_loss(hidden, head, target, max_valid):
    """Mean cross-entropy of hidden N×D @ head.T (head V×D) over the rows whose target (N, int64) is not ignored."""
    logits = hidden @ head.T
    return F.cross_entropy(logits, target, ignore_index=IGNORE)


@dataclass(frozen=True)
class LossParts:
    """The three functions that make up the loss."""

    ignore_background: Callable = ignore_background
    zero_if_uniform: Callable = zero_if_uniform
    masked_cross_entropy: Callable = masked_cross_entropy

    def __call__(self, pred, target):
        """The loss of pred B×C×H×W and target B×H×W: a scalar."""
        target = self.ignore_background(target)
        loss = self.masked_cross_entropy(pred, target)
        return self.zero_if_uniform(loss, target)


# -- the workload ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """``batch`` images of 3×``side``×``side``."""

    batch: int
    side: int


ARTICLE_SIZE = Size(256, 256)
# What a step of the slow loss takes at most on the virtual GPU is 1056 bytes a pixel; a real one takes more around it.
BYTES_PER_PIXEL = 1400
SMALL_SIZE = Size(2, 32)

# Labels are drawn evenly from −1 … 9, eleven values; 2 of 11 are ignored once the background is.
LABELS = Assumptions(
    densities={"eq": 1 / 11, "ne": 9 / 11, "ge": 9 / 11, "gt": 9 / 11, "lt": 2 / 11, "le": 2 / 11},
    distinct=10,
)


def size_for(device: torch.device) -> Size:
    """The article's size; on a card with too little memory for the slow loss, the batch halved until it fits."""
    if device.type == "vgpu":
        memory_bytes = vgpu.card().memory_bytes
    elif device.type == "cuda":
        memory_bytes = torch.cuda.get_device_properties(device).total_memory
    else:
        return ARTICLE_SIZE
    size = ARTICLE_SIZE
    while size.batch > 1 and size.batch * size.side**2 * BYTES_PER_PIXEL > memory_bytes:
        size = Size(size.batch // 2, size.side)
    return size


def make_network() -> nn.Sequential:
    """3×3 'same' convolutions: 3 → 10, ten of 10 → 10, each with ReLU, then 10 → 10 classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 10, 3, padding="same"), nn.ReLU()]
    for _ in range(10):
        layers += [nn.Conv2d(10, 10, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(10, CLASSES, 3, padding="same"))


def make_batch(size: Size, *, values: bool = True, pinned: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Host tensors: images B×3×H×W float32 and labels B×H×W int64 from −1 … 9.

    Without ``values`` the memory is reserved and never touched: for shape-only simulation.
    """
    shape = (size.batch, 3, size.side, size.side)
    label_shape = (size.batch, size.side, size.side)
    if values:
        images, labels = torch.randn(shape), torch.randint(IGNORE, CLASSES, label_shape)
    else:
        images, labels = torch.empty(shape), torch.empty(label_shape, dtype=torch.int64)
    return (images.pin_memory(), labels.pin_memory()) if pinned else (images, labels)


def training_step(loss: Callable, device: torch.device, size: Size | None = None) -> Callable[[], None]:
    """A training step of the article's program with ``loss(pred, target)``, ready to be called again and again.

    SGD, learning rate 0.001, momentum 0.9; one pinned batch is copied to the device each step. On the virtual
    GPU call it inside ``full_size(device, LABELS)``. ``size``: the article's, if the card has the memory.
    """
    size = size or size_for(device)
    torch.manual_seed(0)
    network = make_network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    images, labels = make_batch(size, values=not _shape_only(device))

    def step():
        x = images.to(device, non_blocking=True)
        target = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss(network(x), target).backward()
        optimizer.step()

    return step


def _shape_only(device: torch.device) -> bool:
    return device.type == "vgpu" and vgpu.is_shape_only()


# -- one exercise at full size --------------------------------------------------------------------


def _on_device(shape, dtype, device, values) -> torch.Tensor:
    if _shape_only(device):
        return torch.empty(shape, dtype=dtype, device=device)
    return values().to(device)


def _busy_device(device: torch.device, size: Size) -> Callable[[], torch.Tensor]:
    """A function that queues the network's forward pass, so that a wait has something to wait for."""
    torch.manual_seed(0)
    network = make_network().to(device)
    images = _on_device((size.batch, 3, size.side, size.side), torch.float32, device,
                        lambda: torch.randn(size.batch, 3, size.side, size.side))

    def forward():
        with torch.no_grad():
            return network(images)

    return forward


def _labels(device: torch.device, size: Size) -> torch.Tensor:
    shape = (size.batch, size.side, size.side)
    return _on_device(shape, torch.int64, device, lambda: torch.randint(IGNORE, CLASSES, shape))


def _background_step(function, device):
    size = size_for(device)
    forward, labels = _busy_device(device, size), _labels(device, size)

    def step():
        target = labels.clone()
        forward()
        function(target)

    return step


def _uniform_step(function, device):
    size = size_for(device)
    forward, labels = _busy_device(device, size), _labels(device, size)

    def step():
        target = labels.clone()
        loss = forward().mean().requires_grad_()
        function(loss, target).backward()

    return step


def _cross_entropy_step(function, device):
    size = size_for(device)
    forward, labels = _busy_device(device, size), _labels(device, size)

    def step():
        target = labels.clone()
        pred = forward().requires_grad_()
        function(pred, target).backward()

    return step


@dataclass(frozen=True)
class HeadSize:
    """A language model's head: ``rows`` × ``width`` hidden states, ``vocabulary`` × ``width`` weights,
    ``valid`` rows with a target."""

    rows: int = 8192
    width: int = 768
    vocabulary: int = 32_000
    valid: int = 512


HEAD_SIZE = HeadSize()
_VALID = HEAD_SIZE.valid / HEAD_SIZE.rows
HEAD = Assumptions(
    densities={"ne": _VALID, "ge": _VALID, "gt": _VALID, "eq": 1 - _VALID, "lt": 1 - _VALID, "le": 1 - _VALID},
    density=_VALID,
)


def _head_step(function, device, size: HeadSize = HEAD_SIZE):
    hidden = _on_device((size.rows, size.width), torch.float32, device, lambda: torch.randn(size.rows, size.width))
    head = _on_device((size.vocabulary, size.width), torch.float32, device,
                      lambda: torch.randn(size.vocabulary, size.width) / size.width**0.5)

    def targets():
        target = torch.full((size.rows,), IGNORE)
        chosen = torch.randperm(size.rows)[: size.valid]
        target[chosen] = torch.randint(0, size.vocabulary, (size.valid,))
        return target

    labels = _on_device((size.rows,), torch.int64, device, targets)

    def step():
        leaves = hidden.clone().requires_grad_(), head.detach().requires_grad_()
        function(*leaves, labels.clone(), size.valid).backward()

    return step


# -- the inputs on which results are compared -----------------------------------------------------

SHAPES = ((2, 5, 7), (1, 16, 16), (3, 8, 1), (4, 1, 9))


def _random_labels(rng: np.random.Generator, shape, low=IGNORE, high=CLASSES) -> np.ndarray:
    return rng.integers(low, high, size=shape, dtype=np.int64)


def _label_sets(rng: np.random.Generator, high=CLASSES) -> list[tuple[str, np.ndarray]]:
    shape = (2, 6, 5)
    one = int(rng.integers(0, BACKGROUND))
    nearly = np.full(shape, one, dtype=np.int64)
    nearly[-1, -1, -1] = (one + 1) % BACKGROUND
    return [
        *((f"random {'×'.join(map(str, s))}", _random_labels(rng, s, high=high)) for s in SHAPES),
        ("all ignored", np.full(shape, IGNORE, dtype=np.int64)),
        ("one class everywhere", np.full(shape, one, dtype=np.int64)),
        ("one pixel of another class", nearly),
        ("one pixel valid", np.where(np.arange(60).reshape(shape) == rng.integers(60), one, IGNORE)),
    ]


def _background_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    background = np.full((2, 3, 4), BACKGROUND, dtype=np.int64)
    return [Case(name, {"target": labels})
            for name, labels in [*_label_sets(rng), ("background everywhere", background)]]


def _uniform_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [Case(name, {"loss": np.array(rng.uniform(0.5, 3.0), dtype=np.float32), "target": labels}, needs_grad=("loss",))
            for name, labels in _label_sets(rng, high=BACKGROUND)]


def _cross_entropy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, labels in _label_sets(rng, high=BACKGROUND):
        batch, *plane = labels.shape
        pred = rng.normal(0, 2, size=(batch, CLASSES, *plane)).astype(np.float32)
        cases.append(Case(name, {"pred": pred, "target": labels}, needs_grad=("pred",)))
    return cases


def _head_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, rows, width, vocabulary, valid, max_valid, at in (
        ("fewer valid rows than max_valid", 40, 8, 50, 5, 9, None),
        # Where padding often points to: a row that must not count twice.
        ("fewer valid rows than max_valid, the first and the last among them", 26, 6, 19, 2, 7, [0, 25]),
        ("exactly max_valid rows valid", 33, 12, 31, 7, 7, None),
        ("one row valid", 17, 4, 11, 1, 4, None),
        ("no row valid", 24, 8, 20, 0, 6, None),
        ("every row valid", 9, 5, 13, 9, 9, None),
    ):
        target = np.full(rows, IGNORE, dtype=np.int64)
        chosen = at if at is not None else rng.choice(rows, size=valid, replace=False)
        target[chosen] = rng.integers(0, vocabulary, size=valid)
        cases.append(Case(name, {
            "hidden": rng.normal(size=(rows, width)).astype(np.float32),
            "head": rng.normal(size=(vocabulary, width)).astype(np.float32),
            "target": target,
        }, {"max_valid": max_valid}, needs_grad=("hidden", "head")))
    return cases


# -- the exercises --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        name="ignore_background",
        slow=ignore_background,
        cases=_background_cases,
        step=_background_step,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        assumptions=LABELS,
        hints=(
            "How many background pixels are there? The host cannot know before the device has counted them, and "
            "`nonzero` needs the number to size its result. Which operation answers pixel by pixel, in a result as "
            "large as its input?",
            "`torch.where(condition, a, b)` with three arguments takes `a` where the condition holds and `b` elsewhere. "
            "Its result has the shape of its inputs, whatever their values.",
            "Take `IGNORE` where `target == BACKGROUND`, and `target` elsewhere. A Python number is fine as `a`: it is "
            "passed to the kernel by value.",
        ),
    ),
    Exercise(
        name="zero_if_uniform",
        slow=zero_if_uniform,
        cases=_uniform_cases,
        step=_uniform_step,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        assumptions=LABELS,
        hints=(
            "`unique` sizes its result by what it finds, so the host waits for the count; the Python `if` needs that "
            "count on the host too. What do you need to know about the labels: their distinct values, or only whether "
            "there is more than one? And who needs to know it, the host or the device?",
            "Labels are all the same exactly when the smallest equals the largest: both are numbers that can stay on the "
            "device. (Sorting and counting the steps between neighbours also works, and costs more.)",
            "Keep the condition as a tensor and choose with `torch.where(uniform, 0.0 * loss, loss)`: both sides are "
            "computed, which is nothing for a scalar, and nobody has to wait.",
        ),
    ),
    Exercise(
        name="masked_cross_entropy",
        slow=masked_cross_entropy,
        cases=_cross_entropy_cases,
        step=_cross_entropy_step,
        points={"values": 2, "syncs": 2, "step_time": 2},
        max_time_ratio={"step_time": 0.6},
        assumptions=LABELS,
        hints=(
            "`x[mask]` is a `nonzero` in disguise: count, wait, select, gather; and the backward pass does it again. The "
            "rows that are picked out are needed for one thing only. Can the loss itself leave pixels out?",
            "Look at the arguments of `torch.nn.functional.cross_entropy`, and at the shapes it takes: B×C×H×W logits with "
            "B×H×W labels need no permuting.",
            "`ignore_index` names the label that adds nothing to the sum and is not counted in the mean.",
        ),
    ),
    Exercise(
        name="sparse_head_loss",
        slow=sparse_head_loss,
        cases=_head_cases,
        step=_head_step,
        points={"values": 2, "step_time": 3},
        max_time_ratio={"step_time": 0.3},
        max_syncs=2,
        assumptions=HEAD,
        hints=(
            "Nothing waits here, and it is slow all the same: count the FLOPs. Only one row in sixteen has a label, and all "
            "rows are multiplied with all of the head. In which order should you select and multiply?",
            "Select the valid rows of `hidden` and of `target` first, then multiply. A boolean mask does it, for the price "
            "of a wait or two: measure whether the saved arithmetic is worth it. To have no wait at all, "
            "use a size the host knows: `max_valid`.",
            "`torch.nonzero_static(mask, size=max_valid, fill_value=0)` returns positions and pads with 0: row 0, "
            "which must not count twice. Replace the labels of the padding by `IGNORE` (its places are those from "
            "`mask.sum()` on: compare with `torch.arange`), and let `ignore_index` leave them out.",
        ),
    ),
)


# -- the headline ---------------------------------------------------------------------------------


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step with the loss as first written, then with one fix after another, as in the article."""
    background, uniform, entropy = (fixed[n] for n in ("ignore_background", "zero_if_uniform", "masked_cross_entropy"))

    def program(name: str, loss: LossParts, article: str) -> Program:
        return Program(name, lambda device: training_step(loss, device), article, LABELS)

    return [
        program("as first written", LossParts(), "1300 ms"),
        program("`torch.where` for `nonzero`", LossParts(background), "as before"),
        program("no `unique`", LossParts(background, uniform), "as before"),
        program("`ignore_index` for the mask", LossParts(background, uniform, entropy),
                "5.4 ms in the trace, “240×”; later restated as about 330 ms, 4×"),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 256 of 3×256×256 (the article's size)"."""
    size = size_for(device)
    note = "the article's size" if size == ARTICLE_SIZE else f"the article's {ARTICLE_SIZE.batch} does not fit"
    return f"batch {size.batch} of 3×{size.side}×{size.side} ({note})"


LESSON = Lesson(
    id="02_masked_loss",
    title="The masked loss",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=lambda: {"torch": torch, "nn": nn, "F": F, "IGNORE": IGNORE, "BACKGROUND": BACKGROUND, "CLASSES": CLASSES},
    programs=programs,
    size=size_in_words,
    article="A10G, PyTorch 2.0",
    assumptions=LABELS,
)
