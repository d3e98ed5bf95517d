"""Lesson 08: ``train_epoch`` as handed out."""

from __future__ import annotations

import torch.nn.functional as F


def train_epoch(model, optimizer, batches, validation, every):
    """Train on ``batches`` (pairs of rows and labels). After every ``every`` batches take a look: the mean loss on
    ``validation``, a list of such pairs. Returns a report. A batch with too few labels is skipped."""
    total, looks, predictions, failures, activity = 0.0, [], [], [], []
    model.body.register_forward_hook(lambda module, args, output: activity.append(output))
    for step, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        try:
            prediction = model(x)
            loss = F.cross_entropy(prediction, y)
        except ValueError as error:
            failures.append(error)
            continue
        loss.backward()
        optimizer.step()
        total += loss
        predictions.append(prediction)
        if step % every == 0:
            looks.append(sum(F.cross_entropy(model(vx), vy) for vx, vy in validation) / len(validation))
    return {"loss": total,
            "looks": looks,
            "predictions": [each.argmax(1) for each in predictions],
            "activity": [each.abs().mean() for each in activity],
            "failures": [str(error) for error in failures]}
