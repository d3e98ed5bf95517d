"""Lesson 05: the exercise ``batches_of_few_shapes``."""

from __future__ import annotations

from ....course.checks import StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Setting, Teaching
from . import cases, explain, judged, right, slow, stage
from .mistakes import SHAPES

EXERCISE = Exercise(
    name="batches_of_few_shapes",
    slow=slow.batches_of_few_shapes,
    cases=cases.shape_cases,
    asked=Asked(ask=stage.ask_batches, see=judged.seen),
    right=Right(function=right.batches_of_few_shapes),
    setting=Setting(autotuned=True),
    measurement=Measurement(trial=cases.SHAPE_TRIAL, step_is="a pass over all batches"),
    checks=(Values(3), StepTime(2, at_most=0.6)),
    teaching=Teaching(
        hints=(
            "The autotuner tunes each layer again for every shape that is new. How many shapes do the batches have, and "
            "which numbers belong to a shape?",
            "Sort the images by size, so that neighbours are alike, and divide them into at most `max_shapes` groups. "
            "Every batch of a group gets the height and the width of the group's largest images. What should happen to a "
            "batch with fewer rows than the others?",
            "`order = sorted(range(len(images)), key=lambda i: images[i].shape[1] * images[i].shape[2])`. Then `group = "
            "batch_size * ceil(len(images) / (batch_size * max_shapes))` images share one shape. Every batch has "
            "`batch_size` rows. Rows without an image stay zero, with False in the mask and no index.",
        ),
        mistakes=SHAPES,
        explain=explain.batches,
    ),
)
