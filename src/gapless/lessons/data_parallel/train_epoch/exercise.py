"""Lesson 09: the exercise ``train_epoch``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import judged, right, slow, stage

EXERCISE = Exercise(
    name="train_epoch",
    slow=slow.train_epoch,
    cases=judged.accumulating_cases,
    asked=Asked(ask=stage.ask_train_epoch, see=judged.seen_train_epoch),
    right=Right(function=right.right_train_epoch, wanted=judged.wanted_train_epoch),
    setting=Setting(ranks=True),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "After which backward passes does a rank need the other ranks' gradients?",
            "`ddp.no_sync()` is a context in which DDP leaves gradients on their rank, where they add up. Which "
            "micro-batches of a step belong inside? Does the forward pass belong inside too?",
            "Put `with nullcontext() if place == len(group) else ddp.no_sync():` around forward *and* backward pass, "
            "with `place` counted from 1 (`from contextlib import nullcontext`).",
        ),
        explain=judged.explain_train_epoch,
    ),
)
