"""Lesson 04: the exercise ``prepare``."""

from __future__ import annotations

from ....course.exercise import Exercise
from ..advice import COPY
from . import cases, mistakes, slow

EXERCISE = Exercise(
    name="prepare",
    slow=slow.prepare,
    cases=cases.image_cases,
    mistakes=mistakes.IMAGE_MISTAKES,
    full=cases.full_images,
    trial=cases.IMAGE_TRIAL,
    points={"values": 2, "bus_bytes": 2, "syncs": 1, "host_time": 1},
    max_bytes_ratio=0.3,
    least_bytes_ratio=0.25,  # a byte for each four
    max_time_ratio={"host_time": 0.25},
    advice={"to": COPY, "_to_copy": COPY, "copy_": COPY},
    step_is="a call",
    hints=(
        "How many bytes has an image as it is given, how many when it crosses the bus, and at which line do they become "
        "more?",
        "A float32 has four bytes and says no more than the byte that it was made of. The GPU makes floats of a million "
        "bytes in microseconds: change the order of the lines.",
        "`images.to(mean.device, non_blocking=True)` first, and only then `.float() / 255`. `images` lies in pinned "
        "memory; what you compute from it on the host does not.",
    ),
)
