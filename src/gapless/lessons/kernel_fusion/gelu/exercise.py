"""Lesson 07: the exercise ``gelu``."""

from __future__ import annotations

import torch.nn.functional as F

from ....course.checks import Kernels, StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from ....course.mistakes import MistakesFile
from ..judged import may_refuse
from ..stage import SECOND, names, second_derivative
from . import cases, explain, slow, stage

EXERCISE = Exercise(
    name="gelu",
    slow=slow.gelu,
    cases=cases.gelu_cases,
    asked=Asked(ask=stage.ask_elementwise, see=may_refuse({
        SECOND: lambda x, gradient: second_derivative(F.gelu, x, gradient)})),
    right=Right(relative_tolerance=1e-3),
    measurement=Measurement(trial=cases.ELEMENT_TRIAL, step_is="a forward and backward pass"),
    checks=(
        Values(2),
        Kernels(2, fewer=12, advice=(
            "Each operator is a kernel that reads and writes everything. `torch.compile` fuses them in the function that it "
            "*returns*, and leaves the old one as it is. (Its backends `eager` and `aot_eager` fuse nothing.)")),
        StepTime(1, at_most=0.5, advice="The same numbers go to memory and come back for every operator."),
    ),
    teaching=Teaching(
        hints=(
            "Nothing is wrong with the formula. Five kernels run where one could. Which PyTorch function makes one "
            "kernel of a whole function?",
            "`torch.compile` takes a function and returns one. Nothing is compiled until the first call.",
            "Write `@torch.compile` above `def gelu(x):`, or `gelu = torch.compile(gelu)` below it.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.elementwise,
    ),
)
