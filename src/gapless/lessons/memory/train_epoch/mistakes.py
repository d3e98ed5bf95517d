"""Lesson 08: the usual ways to hold on to a step's tensors, and what to say of each."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


def _epoch(*, predictions="classes", errors="text", hook="mean", removed=True, looks="no_grad", total="detached",
           skips=True, trains=True, first=1, counted="all"):
    """An epoch with slips; what each may be is below, with what is said of it."""

    def train_epoch(model, optimizer, batches, validation, every):
        summed, looked, predicted, failed, activity = 0.0, [], [], [], []

        def watch(module, args, output):
            activity.append({"mean": lambda: output.detach().abs().mean(), "with its graph": lambda: output.abs().mean(),
                             "detached": output.detach, "all": lambda: output, "signed": lambda: output.detach().mean(),
                             }[hook]())

        handle = model.body.register_forward_hook(watch)
        try:
            for step, (x, y) in enumerate(batches, start=first):
                optimizer.zero_grad()
                try:
                    prediction = model(x)
                    loss = F.cross_entropy(prediction, y)
                except ValueError as error:
                    failed.append({"text": str, "error": lambda error: error, "repr": repr,
                                   "class": lambda error: type(error).__name__,
                                   "nothing": lambda error: None}[errors](error))
                    if not skips:
                        break
                    continue
                loss.backward()
                if trains:
                    optimizer.step()
                summed += {"detached": loss.detach, "mean": loss.detach, "tensor": lambda: loss, "number": loss.item,
                           }[total]()
                predicted.append({"classes": lambda: prediction.argmax(1), "all": lambda: prediction,
                                  "rows": lambda: prediction.detach().argmax(0)}[predictions]())
                if (step if counted == "all" else len(predicted)) % every == 0:
                    context = nullcontext() if looks in ("with graph", "detached") else torch.no_grad()
                    with context:
                        of_each = [F.cross_entropy(model(vx), vy) for vx, vy in validation]
                        mean = sum(of_each) / len(validation)
                    looked.append(mean.detach() if looks == "detached" else sum(of_each) if looks == "sum" else mean)
        finally:
            if removed:
                handle.remove()
        return {"loss": summed / max(1, len(predicted)) if total == "mean" else summed, "looks": looked,
                "predictions": [each.argmax(1) if predictions == "all" else each for each in predicted],
                "activity": [each.abs().mean() if hook in ("all", "detached") else each for each in activity],
                "failures": [str(each) for each in failed if each is not None]}

    return train_epoch


right_epoch = _epoch()
EPOCHS = (
    Mistake(_epoch(errors="error"), (
        "A list still keeps the errors. An error keeps its traceback, the traceback keeps the frame of each function "
        "that it passed through, and a frame's variables are the step's tensors with their graph. Keep `str(error)`.")),
    Mistake(_epoch(looks="with graph"), (
        "The losses on the validation data still have their graphs. No backward pass follows, so nothing frees what the "
        "forward passes saved. Look under `torch.no_grad()`.")),
    Mistake(_epoch(hook="all"), (
        "The hook still keeps each whole output of the body. The report needs one number of each: compute it in the "
        "hook, from `output.detach()`. A mean with a graph keeps the output too, and `detach` alone frees no numbers.")),
    Mistake(_epoch(predictions="all"), (
        "The list still keeps each step's whole predictions. The report needs the classes: call `prediction.argmax(1)` "
        "at once, which has no gradient and is smaller. `detach` alone frees none of the numbers.")),
    Mistake(_epoch(removed=False), (
        "The hook is still there after the epoch, and so is the list that it writes to. The next epoch has two hooks. "
        "Keep the handle from `register_forward_hook`, and call its `remove()`.")),
    Mistake(_epoch(removed=False, hook="all"), (
        "The hook is still there after the epoch, and keeps all outputs of the body. Take the mean in it, and "
        "`remove()` it.")),
    Mistake(_epoch(predictions="all", hook="all", errors="error", looks="with graph", removed=False), (
        "`total += loss` is not what leaks here. The backward pass has freed what the loss's graph had saved, so only a "
        "scalar with empty nodes is left, a few hundred bytes. Measure the memory after each step to see when it grows.")),
    Mistake(_epoch(errors="nothing"), "Report the failures' texts: `str(error)` keeps only them."),
    Mistake(_epoch(errors="repr"), (
        "Report the failures' texts, `str(error)`. `repr` puts the class's name around them.")),
    Mistake(_epoch(errors="class"), (
        "Report the failures' texts, `str(error)`. A class's name does not say what failed.")),
    *(Mistake(_epoch(first=first), "The looks come after step `every`, twice `every`, and so on. Count the steps from 1.")
      for first in (0, 2)),
    Mistake(_epoch(counted="those that succeed"), (
        "A failing batch counts as a step too. A look comes after each batch whose number is divisible by `every`.")),
    Mistake(_epoch(total="mean"), "Report the sum of the steps' losses, as in the version that you got."),
    Mistake(_epoch(hook="signed"), "Report the mean of the absolute values: `.abs()` before `.mean()`."),
    Mistake(_epoch(predictions="rows"), "Report the class of each row: `argmax(1)`, along the classes."),
    Mistake(_epoch(looks="sum"), "Report the mean over the batches of validation data: divide by their number."),
    Mistake(_epoch(skips=False), "The epoch ends at the first batch that fails. `continue` skips only that one."),
    Mistake(_epoch(trains=False), "The weights do not change: is `optimizer.step()` there, and after the backward pass?"),
)
