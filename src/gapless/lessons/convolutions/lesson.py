"""Lesson 05: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, explain, few_shapes, functions, right, stage
from .batch_exercises import BATCHES
from .bias_mistakes import BIAS
from .format_mistakes import FORMATS
from .norm_models import WIDE_PAIRS
from .precision_exercises import PRECISION
from .quick import QUICK
from .shape_mistakes import SHAPES
from .workload import BATCH, LARGE_BATCH, SIDE, Fixes, training_step

EXERCISES = (
    Exercise(
        name="batches_of_few_shapes",
        slow=functions.batches_of_few_shapes,
        right=right.batches_of_few_shapes,
        cases=cases.shape_cases,
        ask=stage.ask_batches,
        see=few_shapes.seen,
        explain=explain.batches,
        trial=cases.SHAPE_TRIAL,
        mistakes=SHAPES,
        autotuned=True,
        points={"values": 3, "step_time": 2},
        max_time_ratio={"step_time": 0.6},
        step_is="a pass over all batches",
        hints=(
            "The autotuner tries out each layer anew for every shape that it has not met. How many shapes have the "
            "batches, and which numbers belong to a shape?",
            "Sort the images by size, so that neighbours are alike, and divide them into at most `max_shapes` groups. "
            "Every batch of a group gets the height and the width of the group's largest images. And a batch with fewer "
            "rows than the others?",
            "`order = sorted(range(len(images)), key=lambda i: images[i].shape[1] * images[i].shape[2])`; "
            "`group = batch_size * ceil(len(images) / (batch_size * max_shapes))` images have one shape; every batch has "
            "`batch_size` rows, and those without an image stay zero, with False in the mask and no index.",
        ),
    ),
    Exercise(
        name="without_bias",
        slow=functions.without_bias,
        right=right.without_bias,
        cases=cases.bias_cases,
        ask=stage.ask_without_bias,
        trial=cases.BIAS_TRIAL,
        mistakes=BIAS,
        explain=explain.without_bias,
        points={"values": 4, "kernels": 1},
        fewer_kernels=2 * WIDE_PAIRS,
        advice={"kernels": "A bias is a kernel of its own forward, which adds it, and one backward, which sums its "
                           "gradient: where a norm follows, both can go."},
        hints=(
            "Which number does the norm subtract from a channel, and what does a bias do to that number? Follow the "
            "output of each convolution: who takes it?",
            "Take the flow from a trace: `torch.fx.Tracer().trace(model).nodes` has a node for each call, `node.users` are "
            "those that take its result, and `dict(model.named_modules(remove_duplicate=False))[node.target]` is the module "
            "of a node whose `op` is \"call_module\". A bias may go where all users of all calls of its convolution are "
            "norms that subtract each channel's own mean. Then compare in evaluation mode: which number of the norm has "
            "the bias in it?",
            "`norm.running_mean -= conv.bias.detach()`, once for each norm behind the convolution, then `conv.bias = "
            "None`. A norm with a running mean must have no other input than that convolution's output. `nn.BatchNorm…` and "
            "`nn.InstanceNorm…` cancel while `norm.training` holds or where they have no running mean; `nn.GroupNorm` where "
            "`num_groups == num_channels`.",
        ),
    ),
    Exercise(
        name="to_channels_last",
        slow=functions.to_channels_last,
        cases=cases.format_cases,
        ask=stage.ask_channels_last,
        trial=cases.FORMAT_TRIAL,
        mistakes=FORMATS,
        explain=explain.channels_last,
        relative_tolerance=5e-3,
        absolute_tolerance=1e-3,
        points={"values": 2, "kernels": 2, "step_time": 1},
        unwanted_kernels=cases.TURNING_KERNELS,
        max_time_ratio={"step_time": 0.85},
        advice={"kernels": "These copy a tensor from one memory format into the other. Look in the forward pass for what "
                           "makes or wants the contiguous one: `.contiguous()`, a new tensor, `view`; in the trace the "
                           "operator that launches each is named."},
        hints=(
            "The model's weights are in channels-last order, and the images come so. Print "
            "`x.is_contiguous(memory_format=torch.channels_last)` behind each line: at which does it become False?",
            "`.contiguous()` without an argument means the contiguous format, and a new tensor is made in it. A tensor "
            "that was permuted from N×H×W×C *is* in channels-last order already: nothing has to be copied.",
            "`nn.Linear` takes N×H×W×C as it is: `block.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)`. Zeros for new "
            "channels: `F.pad(x, (0, 0, 0, 0, 0, new))` keeps the format. The mean over the pixels: `x.mean((2, 3))`.",
        ),
    ),
    *PRECISION,
    *BATCHES,
)

# -- the headline ---------------------------------------------------------------------------------


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training step as first written, then with one fix after another, and one that is none."""
    tuned = Fixes(tuned=True)
    mended = replace(tuned, without_bias=fixed["without_bias"])

    def program(name: str, fixes: Fixes, talk: str) -> Program:
        return Program(name, lambda device: training_step(device, fixes), talk, samples=fixes.batch)

    return [
        program("as first written", Fixes(), "one layer forward: 1430 µs"),
        program("autotuner on", tuned, "that layer: 840 µs, 1.7×"),
        program("no bias before a norm", mended, "one kernel less forward and backward"),
        program("channels-last, still float32", replace(mended, channels_last=True), "–"),
        program("mixed precision, contiguous", replace(mended, mixed_precision=True), "–"),
        program("mixed precision, channels-last", replace(mended, mixed_precision=True, channels_last=True), "–"),
        program(f"and batch {LARGE_BATCH}", replace(mended, mixed_precision=True, channels_last=True, batch=LARGE_BATCH),
                "larger batches: no figure"),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 32 of 3×64×64, a ResNet of eighteen layers"."""
    return f"batch {BATCH} of 3×{SIDE}×{SIDE} where nothing else is said, a ResNet of eighteen layers"


LESSON = Lesson(
    id="05_convolutions",
    title="Convolutions and precision",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=size_in_words,
    article="NVIDIA's talk, cuDNN 7",
    quick=QUICK,
    card="v100",
)
