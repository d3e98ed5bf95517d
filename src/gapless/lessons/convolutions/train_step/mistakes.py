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
    mode: bool | None = None  # in training, or in evaluation
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
                 "clip first group": lambda: nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm),
                 "clip largest": lambda: nn.utils.clip_grad_norm_(model.parameters(), max_norm, float("inf")),
                 "clip each": lambda: [nn.utils.clip_grad_norm_([each], max_norm) for each in model.parameters()],
                 "step": lambda: scaler.step(optimizer), "plain step": optimizer.step, "update": scaler.update,
                 "update to 1024": lambda: scaler.update(1024.0), "update to 65536": lambda: scaler.update(65536.0),
                 "zero": optimizer.zero_grad}[part]()

        if self.mode is not None:
            model.train(self.mode)
        if self.half:
            model.to(dtype)
        if self.zeroed == "first":
            optimizer.zero_grad()
        for parameter in optimizer.param_groups[0]["params"] if self.zeroed == "first group" else ():
            parameter.grad = None
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


_CLIPPED_SCALED = ("You clipped the gradients while they were still scaled. Their norm was too large by the scale, so "
                   "the clipped gradients are far too small. Call `scaler.unscale_(optimizer)` first, then clip.")
_BACKWARD_INSIDE = ("The backward pass ran inside autocast. It takes each operator's dtype from the forward pass, so end "
                    "the `with` after the loss. PyTorch's page on `torch.amp` recommends this.")
_NOT_DIVIDED = ("The micro-batches' losses were added up, not averaged. `backward` adds gradients, so divide each loss "
                "by the number of micro-batches.")
_PLAIN_STEP = ("You called `optimizer.step()` without the scaler, which skips the step if a gradient is inf or nan. "
               "Write `scaler.step(optimizer)`.")
_NO_UPDATE = ("`scaler.update()` is missing. It halves the scale after a skipped step, and doubles it after enough good "
              "ones.")
_UPDATED_TO = ("`scaler.update` got a number, which is the scale from then on. Call it without one: it halves or doubles "
               "the scale where that is needed.")
TRAIN_STEP_MISTAKES = (
    _mistake("Nothing ran in autocast: the convolutions computed in float32. Put the forward pass and the loss under "
             "`torch.autocast(x.device.type, dtype=dtype)`.", autocast=False),
    _mistake("This step uses neither the scaler nor autocast, like the one that you got.", autocast=False, scaled=False,
             order=("clip", "plain step")),
    _mistake("`scaler.update()` came before the step. It forgets that the gradients are unscaled, so the step divides them "
             "again. Call it after `scaler.step(optimizer)`.", order=("unscale", "clip", "update", "step")),
    _mistake(_CLIPPED_SCALED, order=("clip", "unscale", "step", "update")),
    _mistake(_CLIPPED_SCALED, order=("clip", "step", "update")),
    _mistake("The step used gradients that were not clipped. Did you leave that out, or clip after the step? Unscale "
             "first, then clip, then step.", order=("unscale", "step", "clip", "update")),
    _mistake("You clipped each gradient by its value. Limit the *norm* of all of them to `max_norm`, with "
             "`clip_grad_norm_`.", order=("unscale", "clip values", "step", "update")),
    _mistake("You clipped the gradients by the largest of them. `max_norm` limits the root of the sum of squares, the "
             "default of `clip_grad_norm_`.", order=("unscale", "clip largest", "step", "update")),
    _mistake("You clipped each parameter's gradient by its own norm, which turns the step's direction. `max_norm` "
             "limits the norm of all of them together.", order=("unscale", "clip each", "step", "update")),
    _mistake("You clipped the optimizer's first group alone. `max_norm` limits the norm of all gradients together.",
             order=("unscale", "clip first group", "step", "update")),
    _mistake("You clipped the gradients to 1, whatever `max_norm` says.", order=("unscale", "clip to 1", "step", "update")),
    _mistake("You put the network into evaluation mode, but its norms must see the batch. Leave the mode as it was.",
             mode=False),
    _mistake("You put the whole network into training mode. A frozen norm stays in evaluation mode: leave the modes as "
             "they were.", mode=True),
    _mistake("You divided each loss by the number of micro-batches twice, so it is that many times too "
             "small.", divisions=2),
    _mistake(_BACKWARD_INSIDE, backward_inside=True),
    _mistake("Everything ran inside autocast, even the backward pass and the optimizer's step. Put only the forward "
             "pass and the loss inside.", all_inside=True),
    _mistake("You computed the loss outside autocast, on outputs in half precision. A sum of exponentials needs "
             "float32's range, which autocast gives it. Put the loss inside.", loss_inside=False),
    _mistake(_NOT_DIVIDED, divisions=0),
    _mistake(_PLAIN_STEP, order=("unscale", "clip", "plain step", "update")),
    _mistake(_PLAIN_STEP + " " + _NO_UPDATE, order=("unscale", "clip", "plain step")),
    _mistake(_NO_UPDATE, order=("unscale", "clip", "step")),
    _mistake(_UPDATED_TO, order=("unscale", "clip", "step", "update to 1024")),
    _mistake(_UPDATED_TO, order=("unscale", "clip", "step", "update to 65536")),
    _mistake("The gradients are still scaled when `optimizer.step()` runs. Use `scaler.unscale_(optimizer)` before "
             "clipping, and `scaler.step(optimizer)`.", order=("clip", "plain step")),
    _mistake("You set the gradients to zero before each micro-batch, so only the last one's are left. Do it once, at the "
             "start.",
             zeroed="each"),
    _mistake("You set the gradients to zero only at the end, so this step includes an earlier step's. Do it at the start.",
             zeroed="never", order=("unscale", "clip", "step", "update", "zero")),
    _mistake("You set only the gradients of the optimizer's first group to zero. `optimizer.zero_grad()` does it for all.",
             zeroed="first group"),
    _mistake("The gradients were never set to zero, so this step includes an earlier step's.", zeroed="never"),
    _mistake("Each micro-batch took its own step. Unscale, clip, step and update once, after the last one.",
             each=("unscale", "clip", "step", "update"), order=()),
    _mistake("Each micro-batch took its own step. Unscale, clip, step and update once, after the last one.",
             each=("unscale", "clip", "step", "update", "zero"), order=()),
    _mistake("You cast the network itself to half precision. Its weights must stay float32, or rounding loses small "
             "updates. Autocast casts copies.", half=True, autocast=False, scaled=False, order=("clip", "plain step")),
    _mistake("Autocast used float16, whatever `dtype` says. Pass it on: `torch.autocast(x.device.type, dtype=dtype)`.",
             dtype=torch.float16),
    _mistake("Autocast used bfloat16, whatever `dtype` says. Pass it on: `torch.autocast(x.device.type, dtype=dtype)`.",
             dtype=torch.bfloat16),
)
