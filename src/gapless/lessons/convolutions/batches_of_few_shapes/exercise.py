"""Lesson 05: the exercise ``batches_of_few_shapes``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, judged, right, slow, stage
from .mistakes import SHAPES

EXERCISE = Exercise(
    name="batches_of_few_shapes",
    slow=slow.batches_of_few_shapes,
    right=right.batches_of_few_shapes,
    cases=cases.shape_cases,
    ask=stage.ask_batches,
    see=judged.seen,
    explain=explain.batches,
    trial=cases.SHAPE_TRIAL,
    mistakes=SHAPES,
    autotuned=True,
    points={"values": 3, "step_time": 2},
    max_time_ratio={"step_time": 0.6},
    step_is="a pass over all batches",
    hints=(
        "The autotuner tries out each layer anew for every shape that it has not met. How many shapes have the "
        "batches, and which numbers belong to a shape?",
        "Sort the images by size, so that neighbours are alike, and divide them into at most `max_shapes` groups. "
        "Every batch of a group gets the height and the width of the group's largest images. And a batch with fewer "
        "rows than the others?",
        "`order = sorted(range(len(images)), key=lambda i: images[i].shape[1] * images[i].shape[2])`; "
        "`group = batch_size * ceil(len(images) / (batch_size * max_shapes))` images have one shape; every batch has "
        "`batch_size` rows, and those without an image stay zero, with False in the mask and no index.",
    ),
)
