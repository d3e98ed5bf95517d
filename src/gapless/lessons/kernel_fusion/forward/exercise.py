"""Lesson 07: the exercise ``forward``."""

from __future__ import annotations

from ....course.checks import Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, right, slow, stage
from .judged import seen_graphs

EXERCISE = Exercise(
    name="forward",
    slow=slow.forward,
    cases=cases.forward_cases,
    asked=Asked(ask=stage.ask_forward, see=seen_graphs),
    right=Right(function=right.right_forward, relative_tolerance=1e-3),
    measurement=Measurement(trial=cases.FORWARD_TRIAL, step_is="a forward and backward pass"),
    checks=(
        Values(3),
        Waits(2, advice={"item": (
                "Python asks the device for a number and waits for it. This happens at `.item()` or an `if`, where the "
                "graph ends, or inside the graph (`torch.cond`, `capture_scalar_outputs`). Leave the number on the "
                "device: operators also take a tensor without dimensions")}),
    ),
    teaching=Teaching(
        hints=(
            "`print(torch._dynamo.explain(forward)(x, weight))` counts the graphs and names the lines between them. What "
            "does Python need, or do, in each of these lines?",
            "A number can stay a tensor on the device: `h.abs().max()`. (The result of `.item()` has no gradient, so use "
            "`.detach()`.) The device can make a choice as well: compute both sides, and select with `torch.where`. And "
            "does anybody read a line printed in every step?",
            "Without the `print`: `h = h / h.abs().max().detach()`, `h = torch.where(h.mean() > 0, torch.tanh(h), "
            "F.softplus(h))`. "
            "`torch.compile(forward, fullgraph=True)` makes a break an error.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.forward,
    ),
)
