"""Lesson 08: what is right for ``train_epoch``."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def right_train_epoch(model, optimizer, batches, validation, every):
    """The same report, of which no part holds a graph, a traceback or a batch's outputs."""
    total, looks, predictions, failures, activity = 0.0, [], [], [], []
    hook = model.body.register_forward_hook(lambda module, args, output: activity.append(output.detach().abs().mean()))
    try:
        for step, (x, y) in enumerate(batches, start=1):
            optimizer.zero_grad()
            try:
                prediction = model(x)
                loss = F.cross_entropy(prediction, y)
            except ValueError as error:
                failures.append(str(error))
                continue
            loss.backward()
            optimizer.step()
            total += loss.detach()
            predictions.append(prediction.detach().argmax(1))
            if step % every == 0:
                with torch.no_grad():
                    looks.append(sum(F.cross_entropy(model(vx), vy) for vx, vy in validation) / len(validation))
    finally:
        hook.remove()
    return {"loss": total, "looks": looks, "predictions": predictions, "activity": activity, "failures": failures}
