"""Lesson 04: the exercise ``prepare``."""

from __future__ import annotations

from ....course.checks import BusBytes, HostTime, Values, Waits
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..advice import COPY
from ..stage import names
from . import cases, slow
from .explain import explain_prepare

EXERCISE = Exercise(
    name="prepare",
    slow=slow.prepare,
    cases=cases.image_cases,
    measurement=Measurement(
        trial=cases.IMAGE_TRIAL,
        full=cases.full_images,
        step_is="a call",
        # a byte for each four
        least_bytes_ratio=0.25,
    ),
    checks=(
        Values(2),
        BusBytes(2, at_most=0.3),
        Waits(1, advice={
            "to": COPY,
            "_to_copy": COPY,
            "copy_": COPY,
        }),
        HostTime(1, at_most=0.25),
    ),
    teaching=Teaching(
        hints=(
            "How many bytes does an image have at first, how many when it crosses the bus, and which line adds bytes?",
            "A float32 has four bytes and no more information than the byte it was made of. The GPU turns a million "
            "bytes into floats in microseconds: change the order of the lines.",
            "`images.to(mean.device, non_blocking=True)` first, and only then `.float() / 255`. `images` is in pinned "
            "memory; a result that you compute from it on the host is not.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain_prepare,
    ),
)
