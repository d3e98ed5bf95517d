"""Lesson 09: the exercise ``main``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import cases, judged, right, slow, stage

EXERCISE = Exercise(
    name="main",
    slow=slow.main,
    cases=cases.main_cases,
    asked=Asked(ask=stage.ask_main, see=judged.seen_main),
    right=Right(function=right.right_main, wanted=judged.wanted_main),
    setting=Setting(ranks=True),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "Which lines of this function know about the other ranks? Which have to?",
            "You need four things: a process group, the model wrapped by DistributedDataParallel, a sampler that gives "
            "each rank its share, and the sampler's `set_epoch` in each epoch. The batch size is that of one rank.",
            "`dist.init_process_group(rank=rank, world_size=world)`; `DistributedDataParallel(model.to(\"vgpu\"))`; "
            "`DistributedSampler(dataset, world, rank)` as `sampler`, in place of the loader's `shuffle`; "
            "`sampler.set_epoch(epoch)`; at the end `dist.destroy_process_group()`.",
        ),
        explain=cases.explain_main,
    ),
)
