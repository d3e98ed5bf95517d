"""Lesson 06: the exercise ``clear_grads``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, mistakes, slow
from .right import right_clear_grads
from .stage import ask_clear_grads

EXERCISE = Exercise(
    name="clear_grads",
    slow=slow.clear_grads,
    right=right_clear_grads,
    cases=cases.clearing_cases,
    ask=ask_clear_grads,
    mistakes=mistakes.CLEARING_MISTAKES,
    explain=mistakes.explain,
    trial=cases.CLEARING_TRIAL,
    points={"values": 2, "kernels": 1},
    fewer_kernels=2 * (cases.FEWEST - 5),
    advice={"kernels": "Each zero is a kernel, and so is each addition to it in the backward pass. What is not there "
                       "has neither to be cleared nor to be added to."},
    hints=(
        "What does an optimizer do with a parameter whose gradient is zero? And with one that has none?",
        "`parameter.grad` may be anything that the backward pass can begin with. What says \"there is none\"?",
        "`parameter.grad = None`, for each of them, whatever it was.",
    ),
)
