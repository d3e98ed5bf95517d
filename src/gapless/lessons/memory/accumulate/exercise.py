"""Lesson 08: the exercise ``accumulate``."""

from __future__ import annotations

from ....course.checks import PeakBytes, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from . import cases, slow
from .mistakes import ACCUMULATE_MISTAKES
from .stage import ask_accumulate

EXERCISE = Exercise(
    name="accumulate",
    slow=slow.accumulate,
    cases=cases.accumulate_cases,
    asked=Asked(ask=ask_accumulate),
    measurement=Measurement(trial=cases.ACCUMULATE_TRIAL, full=cases.full_accumulate),
    checks=(
        Values(3),
        PeakBytes(2, at_most=0.4, advice=(
            "Each part's graph has to be gone before you make the next one. Call `backward` for each part separately, "
            "and keep only detached tensors.")),
        Waits(1, advice={"item": (
                "you read the loss, or the number of labels, for each part. Keep both on the device: a tensor divides "
                "as well as a number")}),
    ),
    teaching=Teaching(
        hints=(
            "`backward` adds to `param.grad`. The parts' gradients must add up to the batch's. By what do you have to "
            "divide each part's loss? Do all labels of a part count?",
            "`cross_entropy` divides a sum by the number of labels that are not −100. Take the sum of each part "
            "(`reduction=\"sum\"`), and divide by the number in the *whole* batch. That number can stay a tensor. The "
            "optimizer takes its step once.",
            "`count = (labels != -100).sum()`; for `some, some_labels` in `zip(tokens.chunk(parts), labels.chunk(parts))`: "
            "`loss = F.cross_entropy(model(some).flatten(0, 1), some_labels.flatten(), reduction=\"sum\") / count`, "
            "`loss.backward()`, `total += loss.detach()`. Clear the gradients before the loop, step after it.",
        ),
        mistakes=ACCUMULATE_MISTAKES,
    ),
)
