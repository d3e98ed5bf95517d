"""Lesson 07: the exercise ``gelu``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="gelu",
    slow=slow.gelu,
    cases=cases.gelu_cases,
    ask=stage.ask_elementwise,
    mistakes=mistakes.GELU,
    explain=explain.elementwise,
    relative_tolerance=1e-3,
    trial=cases.ELEMENT_TRIAL,
    points={"values": 2, "kernels": 2, "step_time": 1},
    fewer_kernels=8,
    max_time_ratio={"step_time": 0.5},
    advice={"kernels": "Each operator is a kernel that reads and writes everything. Who could put them together for you?",
            "step_time": "The same numbers go to memory and come back once for every operator."},
    step_is="a forward and backward pass",
    hints=(
        "Nothing is wrong with the formula. Five kernels run where one could: which function of PyTorch's makes one kernel "
        "of "
        "what a function does?",
        "`torch.compile` takes a function and returns one. Nothing is compiled until the first call.",
        "Write `@torch.compile` above `def gelu(x):`, or `gelu = torch.compile(gelu)` below it.",
    ),
)
