"""Lesson 05: the exercise ``tensor_core_sizes``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, mistakes, slow
from .right import right_sizes
from .stage import ask_tensor_core_sizes

EXERCISE = Exercise(
    name="tensor_core_sizes",
    slow=slow.tensor_core_sizes,
    right=right_sizes,
    cases=cases.size_cases,
    ask=ask_tensor_core_sizes,
    mistakes=mistakes.SIZE_MISTAKES,
    explain=mistakes.explain,
    full=cases.full_sizes,
    trial=cases.SIZE_TRIAL,
    points={"values": 3, "step_time": 2},
    max_time_ratio={"step_time": 0.95},
    advice={"step_time": "Which layer still has a size that is no multiple of 8? In channels-last order cuDNN pads it "
                         "in each pass: look for `nhwcAddPaddingKernel`."},
    step_is="a pass in mixed precision and channels-last order",
    relative_tolerance=2e-3,  # a sum with zeros in it is added up in another order, and then trained on
    absolute_tolerance=5e-4,
    hints=(
        "Which sizes does a convolution or a linear layer have, as a product of matrices? And what has to stand in the "
        "places that are new, so that nothing changes, now and after a training step?",
        "`F.pad` appends zeros: to both dimensions of a weight (of the first convolution's only to the outputs), to "
        "biases, to the norms' weights, biases and running statistics. A layer takes a new `nn.Parameter` in place of "
        "its old one. The classes are the first columns of the outputs.",
        "`-size % 8` zeros are missing at a size. `F.pad` counts from the last dimension: for a weight O×I×3×3 it is "
        "`F.pad(weight, [0, 0, 0, 0, 0, -I % 8, 0, -O % 8])`. At the end of the Sequential a module whose `forward` "
        "returns `outputs[:, :classes]`.",
    ),
)
