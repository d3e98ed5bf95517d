"""Lesson 05: the exercise ``tensor_core_sizes``."""

from __future__ import annotations

from ....course.checks import StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, mistakes, slow
from .right import right_sizes
from .stage import ask_tensor_core_sizes

EXERCISE = Exercise(
    name="tensor_core_sizes",
    slow=slow.tensor_core_sizes,
    cases=cases.size_cases,
    asked=Asked(ask=ask_tensor_core_sizes),
    right=Right(
        function=right_sizes,
        # a sum with zeros in it is added up in another order, and then trained on
        relative_tolerance=2e-3,
        absolute_tolerance=5e-4,
    ),
    measurement=Measurement(
        trial=cases.SIZE_TRIAL,
        full=cases.full_sizes,
        step_is="a pass in mixed precision and channels-last order",
    ),
    checks=(
        Values(3),
        StepTime(2, at_most=0.95, advice=(
            "Which layer still has a size that is not a multiple of 8? In channels-last order cuDNN pads it in each "
            "pass: look for `nhwcAddPaddingKernel`.")),
    ),
    teaching=Teaching(
        hints=(
            "Seen as a matrix product, which sizes does a convolution or a linear layer have? And which numbers must the "
            "new places hold, so that nothing changes, now and after a training step?",
            "`F.pad` appends zeros. Pad both dimensions of a weight (in the first convolution only the outputs). Pad the "
            "biases, and the norms' weights, biases and running statistics. Give the layer a new `nn.Parameter` in place "
            "of its old one. The classes are the first columns of the outputs.",
            "A size lacks `-size % 8` zeros. `F.pad` counts from the last dimension: for a weight O×I×3×3 it is "
            "`F.pad(weight, [0, 0, 0, 0, 0, -I % 8, 0, -O % 8])`. At the end of the Sequential, add a module whose "
            "`forward` returns `outputs[:, :classes]`.",
        ),
        mistakes=mistakes.SIZE_MISTAKES,
        explain=mistakes.explain,
    ),
)
