"""Lesson 08: the exercise ``checkpointed``."""

from __future__ import annotations

from ....course.checks import PeakBytes, StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, explain, slow
from .mistakes import CHECKPOINT_MISTAKES
from .stage import ask_checkpointed

EXERCISE = Exercise(
    name="checkpointed",
    slow=slow.checkpointed,
    cases=cases.checkpoint_cases,
    asked=Asked(ask=ask_checkpointed),
    right=Right(
        # it draws the masks of dropout
        on_device=True,
    ),
    measurement=Measurement(trial=cases.CHECKPOINT_TRIAL, full=cases.full_checkpoint),
    checks=(
        Values(3),
        PeakBytes(2, at_most=0.7, advice=(
            "Which layers save large tensors and take little time? A norm, an activation, dropout and resizing can be "
            "computed again from the convolution's output. One checkpoint around everything saves nothing: all of it "
            "comes back at once.")),
        # all blocks with their convolutions take 1.22 to 1.29, as the card has it
        StepTime(2, at_most=1.21, advice=(
            "You compute convolutions a second time, or the same layers more than twice. Leave products out of the "
            "checkpoint. They take most of the time, and save one tensor each.")),
    ),
    teaching=Teaching(
        hints=(
            "For each layer of a block: how many bytes does it keep for the backward pass, and how long would it take to "
            "compute its output once more? For which layers is the first large and the second small? And which layer has "
            "a side effect in each run?",
            "Put `torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)` around norm, GELU, dropout "
            "and resizing of one block at a time, after its convolution. Then the norm's statistics change twice. "
            "`context_fn=` takes a function that returns two contexts, one for the first run and one for the second.",
            "`checkpoint(cheap, block, block.conv(x), use_reentrant=False, context_fn=lambda norm=block.norm: "
            "(nullcontext(), on_copies(norm)))`. Here `on_copies` is a `@contextmanager`. It keeps "
            "`dict(norm.named_buffers())`, sets a `clone()` of each with `setattr`, yields, and in `finally` restores "
            "the kept ones.",
        ),
        mistakes=CHECKPOINT_MISTAKES,
        explain=explain.checkpointed,
    ),
)
