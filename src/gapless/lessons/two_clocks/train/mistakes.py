"""Lesson 00: the usual wrong versions of ``train``, and what to say of each.

Those of ``time_step`` and ``predict_step_ms`` are in ``explain``: they are recognised by one number in several units.
"""

from __future__ import annotations

import torch.nn.functional as F

from ....course.mistakes import Mistake


def _train(zero="each", backward=True, order=1, at_least=False, all_batches=True, denominator="so far",
           high="so far", running=True, first=1, kept="own", rest=True, average=False, again=False, once=False):
    """``train`` with some of its parts done otherwise: the defaults are right."""

    def train(model, optimizer, batches, limit, every, log):
        total, count, number, values = 0.0, 0, 0, []

        def log_kept():
            nonlocal total, count, number
            block = list(values)
            if not running:
                total, count = 0.0, 0
            shown = [block[-1]] * len(block) if kept == "last" else block
            if average:
                shown = [sum(block) / len(block)] * len(block)
            if high == "of the block":
                count += sum(value > limit for value in block)
            for place, value in enumerate(shown[::order]):
                number += 1
                total += value
                if high == "so far":
                    count += value >= limit if at_least else value > limit
                elif high == "never":
                    count = 0
                elif high == "this one":
                    count = int(value > limit)
                by = {"so far": number, "all": len(batches), "every": every, "in the block": place + 1,
                      "block": len(block)}[denominator]
                mean = total / by
                log(f"step {number - 1 + first}: loss {value:.6f}, mean {mean:.6f}, {count} above {limit}")
            values.clear()

        for x, y in batches if all_batches else batches[:-1]:
            if zero == "each":
                optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            if backward:
                loss.backward()
                optimizer.step()
            if again:
                loss = F.mse_loss(model(x), y)
            values.append(loss.item())
            if len(values) == every and not once:
                log_kept()
        if values and rest:
            log_kept()

    return train


TRAIN_MISTAKES = (
    Mistake(_train(zero="never"), (
        "The gradients of earlier steps are still there: `optimizer.zero_grad()` is missing, or comes only once. Without it "
        "`backward` adds the new gradients to the old ones, so call it in every step.")),
    Mistake(_train(backward=False), (
        "Nothing is learnt: the weights stay as they are. Each step needs `zero_grad()`, then `loss.backward()`, then "
        "`optimizer.step()`: is one missing, or `zero_grad()` or `step()` in the wrong place?")),
    Mistake(_train(again=True), (
        "The loss is computed a second time, after the update. Log the one that the step was made with.")),
    Mistake(_train(kept="last"), (
        "Every line has the block's last loss. Keep each step's own: a list of `loss.detach()`. One tensor that is written "
        "again and again holds the last value only.")),
    Mistake(_train(average=True), "Every line has the block's mean loss in place of its own."),
    Mistake(_train(order=-1), "The losses of a block come in the wrong order: the oldest first."),
    Mistake(_train(at_least=True), "A loss that equals the limit is not above it: compare with `>`."),
    Mistake(_train(high="of the block"), (
        "The count already contains steps that come after the line's own: count line by line, and not a block at a time.")),
    Mistake(_train(high="this one"), "The count starts anew with each line. It counts all losses above the limit so far."),
    Mistake(_train(high="never"), "No loss is counted: compare each with `limit`, and keep the count from block to block."),
    Mistake(_train(running=False), (
        "Sum and count start anew after each block: keep them outside of what is done for one block.")),
    Mistake(_train(running=False, denominator="in the block"), (
        "The mean is of the block alone. It is of all steps so far: keep the sum and the number of steps from block to "
        "block.")),
    Mistake(_train(denominator="all"), (
        "The sum is divided by the number of all batches. The mean is of the steps so far: divide by this step's number.")),
    Mistake(_train(denominator="every"), "The sum is divided by `every`. Divide by this step's number."),
    Mistake(_train(denominator="in the block"), (
        "The sum is divided by the place in the block. Divide by this step's number.")),
    Mistake(_train(denominator="block"), (
        "The sum is divided by the length of the block. Divide by this step's number.")),
    Mistake(_train(first=0), "Steps are counted from 1."),
    Mistake(_train(rest=False), (
        "The last lines are missing. The number of steps need not be a multiple of `every`: read what is left after the "
        "loop.")),
    Mistake(_train(all_batches=False), "The last batch is left out."),
    Mistake(_train(once=True), (
        "All lines come at the end. A line may come late by at most 2 × `every` steps: somebody is watching. Read them "
        "back every `every` steps.")),
)
