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
            "If one row of a batch changes, which of the other rows can change with it, and in which module's output?",
            "Copy the network (`copy.deepcopy`), and record with `register_forward_hook` what each module without "
            "children gets. Then call each module twice: with its recorded input, and with the second half of the rows "
            "changed. Compare only the first half of the outputs. How do the two calls draw the same random numbers?",
            "In a hook: `inputs[name] = module, args[0].detach()`. Then, for each, call `torch.manual_seed(0)` before "
            "both calls, and `other[half:] += 1` on a clone. The name belongs to the list if `module(x)[:half]` and "
            "`module(other)[:half]` are not `torch.allclose`. Remove the hooks first. `torch.random.fork_rng()` restores "
            "the random numbers.",
        ),
        mistakes=BATCH_MISTAKES,
        explain=explain.tied,
    ),
)
