"""Lesson 05: the usual wrong orders of a training step in mixed precision, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ....course.mistakes import Mistake


@dataclass(frozen=True)
class _Step:
    """A training step in mixed precision, with parts left out, or in another place. ``order``: what comes after the
    micro-batches; ``each``: what comes after each of them."""

    autocast: bool = True
    dtype: torch.dtype | None = None
    loss_inside: bool = True
    backward_inside: bool = False
    all_inside: bool = False
    half: bool = False
    evaluating: bool = False
    scaled: bool = True
    divisions: int = 1
    zeroed: str = "first"
    each: tuple[str, ...] = ()
    order: tuple[str, ...] = ("unscale", "clip", "step", "update")

    def __call__(self, model, optimizer, scaler, batches, dtype, max_norm):
        def region(wanted: bool):
            return torch.autocast(batches[0][0].device.type, dtype=self.dtype or dtype) if wanted else nullcontext()

        def do(parts: tuple[str, ...]) -> None:
            for part in parts:
                {"unscale": lambda: scaler.unscale_(optimizer),
                 "clip": lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm),
                 "clip to 1": lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
                 "clip values": lambda: nn.utils.clip_grad_value_(model.parameters(), max_norm),
                 "clip largest": lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm, float("inf")),
                 "clip each": lambda: [nn.utils.clip_grad_norm_([each], max_norm) for each in model.parameters()],
                 "step": lambda: scaler.step(optimizer), "plain step": optimizer.step, "update": scaler.update,
                 "zero": optimizer.zero_grad}[part]()

        if self.evaluating:
            model.eval()
        if self.half:
            model.to(dtype)
        if self.zeroed == "first":
            optimizer.zero_grad()
        total = 0.0
        with region(self.all_inside):
            for x, y in batches:
                if self.zeroed == "each":
                    optimizer.zero_grad()
                with region(self.autocast):
                    outputs = model(x.to(dtype) if self.half else x)
                    loss = self._loss(outputs, y, batches) if self.loss_inside else None
                    if self.backward_inside:
                        self._backward(scaler, loss)
                loss = self._loss(outputs, y, batches) if loss is None else loss
                if not self.backward_inside:
                    self._backward(scaler, loss)
                total += loss.detach()
                do(self.each)
            do(self.order)
        return total

    def _loss(self, outputs, y, batches):
        loss = F.cross_entropy(outputs, y)
        return loss / len(batches)**self.divisions

    def _backward(self, scaler, loss) -> None:
        (scaler.scale(loss) if self.scaled else loss).backward()


def _mistake(why: str, make: Callable = _Step, **parts) -> Mistake:
    return Mistake(make(**parts), why)


_CLIPPED_SCALED = ("The gradients were clipped while they were still scaled: their norm was the scale times too large, and "
                   "what is left of them is far too small. `scaler.unscale_(optimizer)` comes first, then the clipping.")
_BACKWARD_INSIDE = ("The backward pass ran inside autocast. It takes each operator's dtype from the forward pass by "
                    "itself: end the `with` after the loss. PyTorch's page on `torch.amp` says that it is not recommended "
                    "otherwise.")
_NOT_DIVIDED = ("The micro-batches' losses were added up, not averaged: `backward` adds gradients, so each loss has to be "
                "divided by the number of micro-batches.")
_PLAIN_STEP = ("`optimizer.step()` was called without the scaler, which skips the step where a gradient is inf or nan: "
               "write `scaler.step(optimizer)`.")
_NO_UPDATE = ("`scaler.update()` is missing: it halves the scale after a step that was skipped, and doubles it after enough "
              "good ones.")
TRAIN_STEP_MISTAKES = (
    _mistake("Nothing ran in autocast: the convolutions computed in float32. Put the forward pass and the loss under "
             "`torch.autocast(x.device.type, dtype=dtype)`.", autocast=False),
    _mistake("The scaler was not used, nor autocast: that is the step as it was handed out.", autocast=False, scaled=False,
             order=("clip", "plain step")),
    _mistake(_CLIPPED_SCALED, order=("clip", "unscale", "step", "update")),
    _mistake(_CLIPPED_SCALED, order=("clip", "step", "update")),
    _mistake("The step took gradients that were not clipped: was that left out, or done after the step? First unscale, then "
             "clip, then step.", order=("unscale", "step", "clip", "update")),
    _mistake("Each gradient was cut off by its own value. The *norm* of all of them is to be at most `max_norm`: "
             "`clip_grad_norm_`.", order=("unscale", "clip values", "step", "update")),
    _mistake("The gradients were clipped by the largest of them: `max_norm` is of the root of the sum of squares, which "
             "`clip_grad_norm_` takes by itself.", order=("unscale", "clip largest", "step", "update")),
    _mistake("Each parameter's gradient was clipped by its own norm, which turns the step's direction: `max_norm` is of all "
             "of them together.", order=("unscale", "clip each", "step", "update")),
    _mistake("The gradients were clipped to 1, whatever `max_norm` says.", order=("unscale", "clip to 1", "step", "update")),
    _mistake("The network was put into evaluation mode: its norms have to see the batch. Leave the mode as it was.",
             evaluating=True),
    _mistake("Each loss was divided by the number of micro-batches twice: it is that many times too small.", divisions=2),
    _mistake(_BACKWARD_INSIDE, backward_inside=True),
    _mistake("Everything ran inside autocast, the backward pass and the optimizer's step too. It belongs around the forward "
             "pass and the loss only.", all_inside=True),
    _mistake("The loss was computed outside autocast, on outputs in half precision: a sum of exponentials needs float32's "
             "range, which autocast gives it. Put the loss inside.", loss_inside=False),
    _mistake(_NOT_DIVIDED, divisions=0),
    _mistake(_PLAIN_STEP, order=("unscale", "clip", "plain step", "update")),
    _mistake(_PLAIN_STEP + " " + _NO_UPDATE, order=("unscale", "clip", "plain step")),
    _mistake(_NO_UPDATE, order=("unscale", "clip", "step")),
    _mistake("The gradients are still scaled when the optimizer takes its step, with `optimizer.step()`: use "
             "`scaler.unscale_(optimizer)` before clipping, and `scaler.step(optimizer)`.", order=("clip", "plain step")),
    _mistake("The gradients were set to zero before each micro-batch: only the last one's are left. Once, at the start.",
             zeroed="each"),
    _mistake("The gradients were set to zero only at the end, and what an earlier step left is counted: at the start.",
             zeroed="never", order=("unscale", "clip", "step", "update", "zero")),
    _mistake("The gradients were never set to zero: what an earlier step left is counted.", zeroed="never"),
    _mistake("Each micro-batch took a step of its own: unscale, clip, step and update come once, after the last one.",
             each=("unscale", "clip", "step", "update"), order=()),
    _mistake("Each micro-batch took a step of its own: unscale, clip, step and update come once, after the last one.",
             each=("unscale", "clip", "step", "update", "zero"), order=()),
    _mistake("The network itself was cast to half precision. Its weights stay float32, or small updates are lost in "
             "rounding: autocast casts copies.", half=True, autocast=False, scaled=False, order=("clip", "plain step")),
    _mistake("Autocast took float16, whatever `dtype` says: pass it on, `torch.autocast(x.device.type, dtype=dtype)`.",
             dtype=torch.float16),
    _mistake("Autocast took bfloat16, whatever `dtype` says: pass it on, `torch.autocast(x.device.type, dtype=dtype)`.",
             dtype=torch.bfloat16),
)
