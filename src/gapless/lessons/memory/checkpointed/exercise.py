"""Lesson 08: the exercise ``checkpointed``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, slow
from .mistakes import CHECKPOINT_MISTAKES
from .stage import ask_checkpointed

EXERCISE = Exercise(
    name="checkpointed",
    slow=slow.checkpointed,
    truth_on_device=True,  # it draws the masks of dropout
    cases=cases.checkpoint_cases,
    ask=ask_checkpointed,
    mistakes=CHECKPOINT_MISTAKES,
    explain=explain.checkpointed,
    full=cases.full_checkpoint,
    trial=cases.CHECKPOINT_TRIAL,
    points={"values": 3, "peak_bytes": 2, "step_time": 2},
    max_peak_ratio=0.7,
    max_time_ratio={"step_time": 1.21},  # all blocks with their convolutions take 1.22 to 1.29, as the card has it
    advice={
        "peak_bytes": "Which layers save large tensors and take little time? What a norm, an activation, dropout and "
                      "resizing need in the backward pass can be computed again from the convolution's output. One "
                      "checkpoint around everything saves nothing: all of it comes back at once.",
        "step_time": "Convolutions are computed a second time, or the same layers more than twice: leave products out "
                     "of what is checkpointed. They take most of the time, and save one tensor each.",
    },
    hints=(
        "For each layer of a block: how many bytes does it keep for the backward pass, and how long would it take to "
        "compute its output once more? For which is the one large and the other small? And which layer does something "
        "else besides, each time that it runs?",
        "`torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)` around norm, GELU, dropout and "
        "resizing of one block at a time, behind its convolution. The norm's statistics then move twice: `context_fn=` "
        "takes a function that returns two contexts, one for the first run and one for the second.",
        "`checkpoint(cheap, block, block.conv(x), use_reentrant=False, context_fn=lambda norm=block.norm: "
        "(nullcontext(), on_copies(norm)))`, where `on_copies` is a `@contextmanager`: it keeps "
        "`dict(norm.named_buffers())`, sets a `clone()` of each by `setattr`, yields, and in `finally` sets the kept "
        "ones back.",
    ),
)
