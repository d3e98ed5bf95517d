"""Lesson 09: the exercise ``log_epoch``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import judged, right, slow, stage

EXERCISE = Exercise(
    name="log_epoch",
    slow=slow.log_epoch,
    cases=judged.logging_cases,
    asked=Asked(ask=stage.ask_log_epoch, see=judged.seen_logging),
    right=Right(function=right.right_log_epoch, wanted=judged.wanted_logging),
    setting=Setting(ranks=True),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "Which of these lines wait for another rank, or for the device? Which of them could run "
            "once, at the end?",
            "A tensor on the device holds the sum of squares and the number of elements. Reduce it once and read it "
            "once. Only rank 0 writes files, and no other rank waits for them.",
            "`sums = torch.zeros(2, device=\"vgpu\")`. In a step, `sums[0] += F.mse_loss(model(x), y, "
            "reduction=\"sum\")` and `sums[1] += y.numel()`. At the end, `dist.all_reduce(sums)`, `total, count = "
            "sums.tolist()`. On rank 0 write to `path + \".tmp\"`, then `os.replace(path + \".tmp\", path)`.",
        ),
        explain=judged.explain_logging,
    ),
)
