"""Lesson 09: the exercise ``log_epoch``: metrics and files of an epoch on several ranks."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import logging_ask, logging_handed_out, logging_judged, logging_right

LOG_EPOCH = Exercise(
    name="log_epoch",
    slow=logging_handed_out.log_epoch,
    right=logging_right.right_log_epoch,
    wanted=logging_judged.wanted_logging,
    ranks=True,
    cases=logging_judged.logging_cases,
    ask=logging_ask.ask_log_epoch,
    see=logging_judged.seen_logging,
    explain=logging_judged.explain_logging,
    points={"values": 4},
    hints=(
        "Which of these lines wait for another rank, or for the device? What would be wrong if they came once, at the end?",
        "A tensor on the device holds the sum of squares and the number of samples; it is reduced once and read once. Files "
        "are rank 0's business, and nobody waits for them.",
        '`sums = torch.zeros(2, device="vgpu")`; in a step `sums[0] += F.mse_loss(model(x), y, reduction="sum")` and '
        "`sums[1] += len(x)`; after all `dist.all_reduce(sums)`, `total, count = sums.tolist()`. On rank 0 write to "
        '`path + ".tmp"`, then `os.replace(path + ".tmp", path)`.',
    ),
)
