"""Lesson 06: the usual wrong ways to make a step one launch, and what to say of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from ....course.evidence import Case
from ....course.mistakes import Mistake
from .stage import LOSSES, WEIGHTS


@dataclass(frozen=True)
class Captured:
    """A step captured after ``warm`` real ones. ``copied``, ``late``: which of a batch is copied into the static inputs
    before a replay, and which after it; ``cloned``: whether the loss is; ``left_out``: of every step; ``small``: what
    becomes of a batch of another size ("eager", "skipped", "in part"); ``rates``: in how many groups the learning rate is
    a tensor, None for all; ``on_copies``: steps more, on the batch that is captured; ``zeroed``: whether gradients are set
    to None before what is captured; ``replayed``: whether the batch of the capture is trained with; ``whole``: whether the
    optimizer's step is captured too."""

    warm: int = 3
    copied: str = "xy"
    late: str = ""
    left_out: str = ""
    cloned: bool = True
    small: str = "eager"
    rates: int | None = None
    on_copies: int = 0
    zeroed: bool = True
    replayed: bool = True
    whole: bool = True

    def __call__(self, model, optimizer, loss_function):
        device = next(model.parameters()).device
        backend = torch.get_device_module(device)
        for group in optimizer.param_groups:
            group["capturable"] = True
        for group in optimizer.param_groups[:self.rates]:
            group["lr"] = torch.tensor(group["lr"], device=device)
        graph, static, calls = backend.CUDAGraph(), [], 0

        def step(x, y, zeroed=True, stepped=True):
            if zeroed and self.left_out != "zero_grad":
                optimizer.zero_grad()
            loss = loss_function(model(x), y)
            loss.backward()
            if stepped and self.left_out != "step":
                optimizer.step()
            return loss.detach()

        def copy(names, x, y):
            for place, (name, part) in enumerate((("x", x), ("y", y))):
                if name in names:
                    static[place][:len(part)].copy_(part)

        def run(x, y):
            nonlocal calls
            calls += 1
            if calls <= self.warm:
                return step(x, y)
            count = len(x)
            if static and x.shape != static[0].shape:
                if self.small == "eager" or count > len(static[0]):
                    return step(x, y)
                if self.small == "skipped":
                    return static[2].clone()
            if not static:
                static.extend((x.clone(), y.clone()))
                for _ in range(self.on_copies):
                    step(*static)
                with backend.graph(graph):
                    static.append(step(*static, self.zeroed, self.whole))
                if not self.replayed:
                    return static[2].clone()
            copy(self.copied, x, y)
            graph.replay()
            copy(self.late, x, y)
            if not self.whole:
                optimizer.step()
            return static[2].clone() if self.cloned else static[2]

        return run


def _in_eval_mode(model, optimizer, loss_function):
    model.eval()
    return Captured()(model, optimizer, loss_function)


CAPTURE_MISTAKES = (
    Mistake(Captured(cloned=False), (
        "From the capture on, all losses are the last one's. A graph writes its outputs into the same memory in each "
        "replay. Return a copy, `loss.clone()`.")),
    Mistake(Captured(copied=""), (
        "Every replay trains with the captured batch, because a graph reads the memory that it was captured with. Copy "
        "each batch into it first: `static_x.copy_(x)`. `static_x = x` only gives the name to another tensor.")),
    *(Mistake(Captured(copied=one), (
        f"Every replay reads the captured `{other}`. Copy both parts of a batch into what the graph reads: "
        f"`static_{other}.copy_({other})` too.")) for one, other in ("xy", "yx")),
    *(Mistake(Captured(copied="xy".replace(one, ""), late=one), (
        f"You copy `{one}` after the replay, so the replay reads that of the batch before. Copy the whole batch first, then "
        "replay.")) for one in "xy"),
    Mistake(Captured(copied="", late="xy"), (
        "You copy the batch after the replay, so the replay reads the batch before. Copy first, then replay.")),
    Mistake(Captured(left_out="step"), (
        "The weights never change, in the steps before the capture either. `loss.backward()` or `optimizer.step()` is "
        "missing, or the step comes before the backward pass.")),
    Mistake(Captured(left_out="zero_grad"), (
        "The gradients add up from step to step, in the steps before the capture too. Call `optimizer.zero_grad()` before "
        "each backward pass.")),
    Mistake(Captured(rates=0), (
        "The learning rate does not change after the capture: a Python number is a constant of the captured kernels. "
        "Make it a tensor on the device, `group[\"lr\"] = torch.tensor(group[\"lr\"], device=device)`. Then the "
        "scheduler writes into that tensor.")),
    Mistake(Captured(rates=1), (
        "Only the first group's learning rate changes after the capture. Make the learning rate a tensor in each group: "
        "`for group in optimizer.param_groups: …`.")),
    Mistake(Captured(small="in part"), (
        "You copied a smaller batch over the first rows, and the rest is still the previous batch. A graph has one "
        "size, so train a batch of another size without the graph.")),
    Mistake(Captured(small="skipped"), (
        "You skip a batch of another size. A graph has one size, so train such a batch without the graph.")),
    Mistake(Captured(on_copies=3), (
        "The weights moved more often than there were batches, because warm-up steps train too. Use the first real "
        "batches as the warm-up, or restore the weights, the buffers and the optimizer's state.")),
    Mistake(Captured(warm=0), (
        "You captured the very first step. In its first step the optimizer creates its moments as zeros, so each replay "
        "of the graph sets them to zero again. Take some steps without the graph first.")),
    Mistake(Captured(replayed=False), (
        "The captured batch is lost. During a capture nothing runs, so its loss holds no value yet. Replay the graph "
        "afterwards, for that batch.")),
    Mistake(Captured(zeroed=False), (
        "The gradients add up from replay to replay. There were gradients when you captured the backward pass, so it "
        "adds to them. Put `optimizer.zero_grad()` before it, inside the capture.")),
    Mistake(Captured(whole=False), (
        "The optimizer's step is not in the graph. A batch of another size gives each parameter a new `.grad`. A replay "
        "writes the old one, but the optimizer uses the new one. Capture its step too: then it reads what the graph "
        "writes.")),
    Mistake(_in_eval_mode, "Nothing is dropped, because `model.eval()` turns dropout off. Leave the model in training "
                           "mode."),
    Mistake(Captured(warm=3, cloned=False, rates=0), (
        "All losses are the last one's, and the learning rate does not change after the capture. Copy the loss "
        "(`clone()`), and make the learning rate a tensor on the device.")),
)


def explain_capture(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first loss that is another, or of the weights."""
    if isinstance(wanted[LOSSES], str):
        return ("Dropout must draw new numbers in each step. It does in a replayed one too, if the operator is in the graph "
                "and you copy the loss (`clone()`) before the next replay.")
    shapes, count = [x.shape for x in case.inputs["x"]], len(case.inputs["x"])
    first = next((place for place, (own, right) in enumerate(zip(found[LOSSES], wanted[LOSSES]))
                  if not abs(own - right) <= 1e-3 * abs(right) + 1e-4), None)
    if first is None and all(np.allclose(*both, 1e-3, 1e-4) for both in zip(found[WEIGHTS], wanted[WEIGHTS])):
        return ("The losses and the weights are right, but buffers of the model are not, such as the averages of a batch "
                "norm. A warm-up on copies changes them too: put them back, or use the first real batches.")
    if first is None:
        return "The losses are right, but the weights at the end are not. Did you take the last batch's step exactly once?"
    if math.isnan(found[LOSSES][first]):
        return ("You read it before any replay. During a capture nothing runs, so its tensors hold no values. Replay the "
                "graph for the captured batch too.")
    if first >= count:
        return ("Two networks are trained one after the other here, and the first one's losses are right. Make the graph "
                "and its tensors inside `capture_step`, separately for each network.")
    if shapes[first] != shapes[-2] and len(set(shapes)) > 1:
        return f"Batch {first} has another size than most: train such a batch without the graph."
    if not first and case.options["loss"] != "cross_entropy":
        return "Here the loss is `F.mse_loss`, and the targets have fractions. Call the `loss_function` that you are given."
    if not first:
        return ("That is the first batch's loss, before anything could be captured. Each call takes one forward pass, "
                "one backward pass and one step of the optimizer. The loss is the one before the step.")
    if abs(found[LOSSES][first] - wanted[LOSSES][first - 1]) <= 1e-4 * abs(wanted[LOSSES][first - 1]):
        return "That is the loss of the batch before. Replay the graph first, and copy its loss (`clone()`) after that."
    before = "The loss of the batch before is" if first == 1 else f"The losses of the {first} batches before are"
    return (f"{before} right. All that changes from step to step has to be in memory that the graph reads: the batch, the "
            "learning rate, the optimizer's count of steps. And each replay must clear the gradients of the step before.")
