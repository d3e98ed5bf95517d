"""Lesson 06: the exercise ``capture_step``."""

from __future__ import annotations

from ....course.checks import HostTime, StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, slow
from .mistakes import CAPTURE_MISTAKES, explain_capture
from .stage import ask_capture_step

EXERCISE = Exercise(
    name="capture_step",
    slow=slow.capture_step,
    cases=cases.capture_cases,
    asked=Asked(ask=ask_capture_step, see=cases.seen),
    right=Right(
        on_device=True,
        # Adam that can be captured computes its corrections on the device
        relative_tolerance=1e-3,
        absolute_tolerance=1e-4,
    ),
    measurement=Measurement(trial=cases.CAPTURE_TRIAL, step_is="a pair of steps"),
    # without a graph it is right, too
    checks=(
        Values(1),
        Waits(1, advice={"item": (
                "`loss.item()` asks for the loss in each step, and inside a graph it is an error. Return the tensor: "
                "its number can be read later")}),
        HostTime(2, at_most=0.35),
        StepTime(2, at_most=0.45, advice=(
            "The host sets the pace. Is the whole step in the graph (forward pass, backward pass and optimizer)? And do "
            "you replay it, or capture it again?")),
    ),
    teaching=Teaching(
        hints=(
            "A graph is a list of kernels with their arguments: addresses and numbers, as they were at the capture. "
            "Which parts of a step change in the next step? And how do they get to the address that the kernels read?",
            "`backend = torch.get_device_module(device)` has `CUDAGraph()`. Inside the context `backend.graph(graph)`, "
            "kernels are recorded and not run. Run the first steps without the graph. Then capture one whole step on "
            "copies of the batch. Adam needs `group[\"capturable\"] = True`, and its learning rate has to be a tensor on "
            "the device.",
            "After three real steps: `static_x, static_y = x.clone(), y.clone()`, `with backend.graph(graph): "
            "static_loss = one_step(static_x, static_y)`. From then on `static_x.copy_(x)`, `static_y.copy_(y)`, "
            "`graph.replay()`, `return static_loss.clone()`. For a batch of another shape call `one_step(x, y)`.",
        ),
        mistakes=CAPTURE_MISTAKES,
        explain=explain_capture,
    ),
)
