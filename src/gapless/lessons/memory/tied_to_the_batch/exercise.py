"""Lesson 08: the exercise ``tied_to_the_batch``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, right, slow
from .mistakes import BATCH_MISTAKES
from .stage import ask_tied_to_the_batch

EXERCISE = Exercise(
    name="tied_to_the_batch",
    slow=slow.tied_to_the_batch,
    cases=cases.tied_cases,
    asked=Asked(ask=ask_tied_to_the_batch),
    right=Right(function=right.tied_to_the_batch),
    checks=(Values(3),),
    teaching=Teaching(
        hints=(
            "If one row of a batch changes, which of the other rows may change with it, and in which module's output?",
            "Take a copy of the network (`copy.deepcopy`), and note with `register_forward_hook` what each module without "
            "children gets. Then call each module twice: with what it got, and with the second half of the rows changed. "
            "Only then look at the first half. How do the two calls draw the same numbers?",
            "In a hook: `inputs[name] = module, args[0].detach()`. Then, for each, `torch.manual_seed(0)` before both "
            "calls, `other[half:] += 1` on a clone, and the name is in the list where `module(x)[:half]` and "
            "`module(other)[:half]` are not `torch.allclose`. Remove the hooks first. `torch.random.fork_rng()` leaves the "
            "random numbers as they were.",
        ),
        mistakes=BATCH_MISTAKES,
        explain=explain.tied,
    ),
)
