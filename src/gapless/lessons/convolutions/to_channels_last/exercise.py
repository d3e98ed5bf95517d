"""Lesson 05: the exercise ``to_channels_last``."""

from __future__ import annotations

from ....course.checks import Kernels, StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, slow, stage

EXERCISE = Exercise(
    name="to_channels_last",
    slow=slow.to_channels_last,
    cases=cases.format_cases,
    asked=Asked(ask=stage.ask_channels_last),
    right=Right(relative_tolerance=5e-3, absolute_tolerance=1e-3),
    measurement=Measurement(trial=cases.FORMAT_TRIAL),
    checks=(
        Values(2),
        Kernels(2, unwanted=cases.TURNING_KERNELS, advice=(
            "These copy a tensor from one memory format into the other. Look in the forward pass for lines that create "
            "or need the contiguous one: `.contiguous()`, a new tensor, `view`. The trace names the operator that "
            "launches each copy.")),
        StepTime(1, at_most=0.85),
    ),
    teaching=Teaching(
        hints=(
            "The model's weights and the images are in channels-last order. Print "
            "`.is_contiguous(memory_format=torch.channels_last)` of each line's result. Which is the first that is False?",
            "`.contiguous()` without an argument asks for contiguous order, and `new_zeros` creates tensors in it. A "
            "tensor that was permuted from N×H×W×C *is* in channels-last order already, so nothing has to be copied.",
            "`nn.Linear` takes N×H×W×C as it is: `block.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)`. Zeros for new "
            "channels: `F.pad(x, (0, 0, 0, 0, 0, new))` keeps the format. The mean over the pixels: `x.mean((2, 3))`.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.channels_last,
    ),
)
