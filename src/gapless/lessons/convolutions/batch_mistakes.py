"""Lesson 05: the usual wrong ways to a large batch, and what to say of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ...course.mistakes import Mistake
from . import functions

# -- largest_batch -----------------------------------------------------------------------------------


def _bisection(catch: type = torch.OutOfMemoryError, keeps: bool = False, low: int = 0, beyond: int = 1, multiple: int = 8,
               unit: int = 8, half: bool = False):
    """Bisection over multiples of ``multiple``: the answer in units of ``unit``. ``keeps``: the last error is kept."""

    def largest_batch(step, most):
        kept = []
        fits, fails = low, most // multiple + beyond
        while fails - fits > 1:
            middle = (fits + fails) // 2
            try:
                step(multiple * middle)
            except catch as error:
                fails = middle
                if keeps:
                    kept.append(error)
            else:
                fits = middle
                if half:
                    break
        return unit * fits

    return largest_batch


def _keeps_results(step, most):
    fits, fails, results = 0, most // 8 + 1, []
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            results.append(step(8 * middle))
            fits = middle
        except torch.OutOfMemoryError:
            fails = middle
    return 8 * fits


def _inside_except(step, most):
    def search(fits, fails):
        if fails - fits <= 1:
            return 8 * fits
        middle = (fits + fails) // 2
        try:
            step(8 * middle)
        except torch.OutOfMemoryError:
            return search(fits, middle)
        return search(middle, fails)

    return search(0, most // 8 + 1)


def _halved(step, most):
    batch = most // 8 * 8
    while batch >= 8:
        try:
            step(batch)
            return batch
        except torch.OutOfMemoryError:
            batch = batch // 2 // 8 * 8
    return 0


def _doubled(step, most):
    found, batch = 0, 8
    while batch <= most:
        try:
            step(batch)
        except torch.OutOfMemoryError:
            break
        found, batch = batch, 2 * batch
    return found


def _from_below(catch: type, up: bool = True):
    def largest_batch(step, most):
        sizes = range(8, most + 1, 8)
        found = 0
        for batch in sizes if up else reversed(sizes):
            try:
                step(batch)
                found = batch
                if not up:
                    break
            except catch:
                if up:
                    break
        return found

    return largest_batch


_ALL_ERRORS = ("It catches errors that are not of memory, and a step that is broken looks like one that does not fit. Catch "
               "`torch.OutOfMemoryError` and nothing else.")
_HOLDS = ("Something still holds the memory of an earlier trial, and the next one has less. ")

LARGEST_MISTAKES = (
    Mistake(functions.largest_batch, "It tries one size after the other. Whatever fits, smaller sizes fit too: try the "
                                     "middle, and half of what is left is decided."),
    Mistake(_from_below(torch.OutOfMemoryError), "It tries one size after the other. Try the middle: half of what is left "
                                                 "is decided."),
    Mistake(_from_below(torch.OutOfMemoryError, up=False), "It tries one size after the other, from above. Try the middle: "
                                                           "half of what is left is decided."),
    Mistake(_bisection(RuntimeError), _ALL_ERRORS),
    Mistake(_bisection(keeps=True), _HOLDS + "An error that is kept (`errors.append(error)`, `last = error`) keeps its "
                                             "traceback, that the frames of the step, and those its tensors."),
    Mistake(_inside_except, _HOLDS + "Inside `except` the error is alive, with the frames and tensors of the failed step: "
                                     "note there that it failed, leave, and only then try again."),
    Mistake(_keeps_results, _HOLDS + "What a step returned is kept, and with it its tensors: throw it away."),
    Mistake(_halved, "Halving until it fits can end at little more than half of what would fit: go on between the last size "
                     "that fitted and the first that did not."),
    Mistake(_doubled, "Doubling until it fails leaves up to half of the memory empty: go on between the last size that "
                      "fitted and the first that did not."),
    Mistake(_bisection(unit=1), "That is how many eights fit: return the batch, a multiple of 8."),
    Mistake(_bisection(multiple=1, unit=1), "Sizes that are no multiple of 8 were tried: look among 8, 16, 24, …"),
    Mistake(_bisection(beyond=0), "The largest size allowed is never tried, and it may fit: `most` itself belongs to the "
                                  "range."),
    Mistake(_bisection(low=1), "Where not even 8 fits, the answer is 0: nobody has tried 8."),
    Mistake(_bisection(half=True), "It stops at the first size that fits: a larger one may fit too."),
)

# -- warmup_schedule ---------------------------------------------------------------------------------


def _schedule(warm: Callable | None = None, after: Callable | None = None, scale: Callable = lambda factor: factor):
    """``warm(factor, share)``: in the warm-up, of which this share has passed; ``after(factor, share)``: of the rest."""

    def warmup_schedule(optimizer, factor, warmup, total):
        factor = scale(factor)

        def of(step):
            if step < warmup:
                return (warm or (lambda factor, share: 1 + (factor - 1) * share))(factor, step / warmup)
            share = min((step - warmup) / (total - warmup), 1.0)
            return (after or (lambda factor, share: factor * (1 + math.cos(math.pi * share)) / 2))(factor, share)

        return torch.optim.lr_scheduler.LambdaLR(optimizer, of)

    return warmup_schedule


def _lambda(of: Callable):
    """``of(step, factor, warmup, total)``."""
    return lambda optimizer, factor, warmup, total: torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: of(step, factor, warmup, total))


def _cosine(share: float) -> float:
    return (1 + math.cos(math.pi * share)) / 2


def _line(step, factor, warmup):
    return 1 + (factor - 1) * step / warmup


SCHEDULE_MISTAKES = (
    Mistake(functions.warmup_schedule, "The full rate from the first step on: at random weights that is where a large batch "
                                       "diverges. Begin at the old rate, and come to `factor` times it in `warmup` steps."),
    Mistake(_schedule(warm=lambda factor, share: factor * share), "The warm-up begins at 0. It is to begin at the rate that "
                                                                  "the optimizer has, that of the small batch."),
    Mistake(_lambda(lambda step, factor, warmup, total: factor * (step + 1) / warmup if step < warmup else
                    factor * _cosine(min((step - warmup) / (total - warmup), 1.0))),
            "The warm-up begins at a fraction of the full rate. It is to begin at the rate that the optimizer has."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step + 1, factor, warmup) if step < warmup else
                    factor * _cosine(min((step - warmup) / (total - warmup), 1.0))),
            "The warm-up is a step too early: at step 0 the rate is the optimizer's own, at step `warmup` it is `factor` "
            "times that."),
    Mistake(_schedule(warm=lambda factor, share: factor**share), "The warm-up is exponential: a line is wanted, the same "
                                                                 "amount more in each step."),
    Mistake(_schedule(warm=lambda factor, share: 1.0), "The rate stays low in the warm-up and then jumps: let it grow a "
                                                       "little in each step."),
    Mistake(_schedule(after=lambda factor, share: factor), "After the warm-up the rate stays high: half a cosine brings it "
                                                           "to 0 at step `total`."),
    Mistake(_schedule(after=lambda factor, share: factor * (1 - share)), "After the warm-up it falls in a line: half a "
                                                                         "cosine is wanted."),
    Mistake(_schedule(after=lambda factor, share: factor * math.cos(math.pi * share / 2)),
            "A quarter of a cosine: `(1 + cos(π · share)) / 2` goes from 1 to 0."),
    Mistake(_schedule(after=lambda factor, share: factor * (1 + math.cos(180 * share)) / 2),
            "`math.cos` takes radians: half a cosine goes from 0 to `math.pi`, not to 180."),
    Mistake(_schedule(after=lambda factor, share: 1 + (factor - 1) * _cosine(share)),
            "The cosine ends at the optimizer's own rate: at step `total` it is to be 0."),
    Mistake(_schedule(after=lambda factor, share: _cosine(share)), "After the warm-up the factor is lost: the cosine "
                                                                   "begins at `factor`."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine(min(step / total, 1.0))),
            "The cosine began at step 0 already: its share is `(step - warmup) / (total - warmup)`, or the rate jumps "
            "where the warm-up ends."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine(min((step - warmup) / total, 1.0))),
            "The cosine has `total - warmup` steps: so it is not at 0 when the training ends."),
    Mistake(_lambda(lambda step, factor, warmup, total: _line(step, factor, warmup) if step < warmup else
                    factor * _cosine((step - warmup) / (total - warmup))),
            "After `total` steps the cosine rises again: keep the rate at 0 (`min(share, 1)`)."),
    Mistake(_schedule(scale=lambda factor: factor**0.5), "The root of the factor is a rule for Adam-like optimizers; for "
                                                         "SGD the rate grows with the batch."),
    Mistake(_lambda(lambda step, factor, warmup, total: factor * _cosine(min(step / total, 1.0))),
            "There is no warm-up: the full rate from the first step on."),
    Mistake(_schedule(warm=lambda factor, share: factor), "There is no warm-up: the full rate from the first step on."),
    Mistake(_lambda(lambda step, factor, warmup, total: min(_line(step, factor, warmup) if warmup else factor, factor) * max(
        1 - step / total, 0.0)), "It falls in a line, and from the first step on: after the warm-up, half a cosine is "
                                 "wanted."),
)

# -- lars_step ---------------------------------------------------------------------------------------


def _ratio(weight, grad, decay, trust):
    return torch.where((weight > 0) & (grad > 0), trust * weight / (grad + decay * weight), 1.0)


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(tensor, dtype=torch.float32)


def _lars(ratio: Callable = _ratio, norm: Callable = _norm, update: Callable | None = None, decays: Callable | None = None,
          skip: bool = True):
    """LARS with parts exchanged. ``update(param, moment, grad, rate, momentum)`` changes the first two;
    ``decays(grad, param, weight_decay)`` is the gradient with its weight decay."""

    @torch.no_grad()
    def lars_step(params, momenta, lr, momentum, weight_decay, trust):
        for param, moment in zip(params, momenta):
            if param.grad is None and skip:
                continue
            grad = torch.zeros_like(param) if param.grad is None else param.grad
            rate = lr * ratio(norm(param), norm(grad), weight_decay, trust)
            grad = (decays or (lambda grad, param, decay: grad + decay * param))(grad, param, weight_decay)
            if update is None:
                moment.mul_(momentum).add_(rate * grad)
                param.sub_(moment)
            else:
                update(param, moment, grad, rate, momentum)

    return lars_step


def _rate_last(param, moment, grad, rate, momentum):
    moment.mul_(momentum).add_(grad)
    param.sub_(rate * moment)


def _dampened(param, moment, grad, rate, momentum):
    moment.mul_(momentum).add_((1 - momentum) * rate * grad)
    param.sub_(moment)


def _nesterov(param, moment, grad, rate, momentum):
    moment.mul_(momentum).add_(rate * grad)
    param.sub_(rate * grad + momentum * moment)


def _stale(param, moment, grad, rate, momentum):
    param.sub_(moment)
    moment.mul_(momentum).add_(rate * grad)


def _upwards(param, moment, grad, rate, momentum):
    moment.mul_(momentum).add_(rate * grad)
    param.add_(moment)


def _without_momentum(param, moment, grad, rate, momentum):
    param.sub_(rate * grad)


@torch.no_grad()
def _one_rate(params, momenta, lr, momentum, weight_decay, trust):
    """One ratio for all parameters."""
    having = [(param, moment) for param, moment in zip(params, momenta) if param.grad is not None]
    if not having:
        return
    weight = torch.stack([_norm(param) for param, _ in having]).norm()
    grad = torch.stack([_norm(param.grad) for param, _ in having]).norm()
    rate = lr * _ratio(weight, grad, weight_decay, trust)
    for param, moment in having:
        moment.mul_(momentum).add_(rate * (param.grad + weight_decay * param))
        param.sub_(moment)


@torch.no_grad()
def _decoupled(params, momenta, lr, momentum, weight_decay, trust):
    """The weight decay beside the momentum, as AdamW has it."""
    _lars(decays=lambda grad, param, decay: grad)(params, momenta, lr, momentum, weight_decay, trust)
    for param in params:
        if param.grad is not None:
            param.mul_(1 - lr * weight_decay)


def _lr_twice(params, momenta, lr, momentum, weight_decay, trust):
    _lars()(params, momenta, lr**2, momentum, weight_decay, trust)


def _without_lr_at_zero(params, momenta, lr, momentum, weight_decay, trust):
    _lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / (g + decay * w), 1 / lr))(
        params, momenta, lr, momentum, weight_decay, trust)


@torch.no_grad()
def _momentum_again(params, momenta, lr, momentum, weight_decay, trust):
    _lars()(params, momenta, lr, momentum, weight_decay, trust)
    for param, moment in zip(params, momenta):
        if param.grad is not None:
            param.sub_(momentum * moment)


LARS_MISTAKES = (
    Mistake(_decoupled, "The weight decay was applied to the weights by itself, as AdamW does: here it is a part of the "
                         "update, `grad + weight_decay * param`, before rate and momentum."),
    Mistake(_lr_twice, "`lr` is in the rate twice."),
    Mistake(_without_lr_at_zero, "Where a norm is 0 the rate is to be `lr` itself, not 1: multiply by `lr` after the "
                                 "choice."),
    Mistake(_momentum_again, "That is Nesterov's momentum: the weights are to change by the momentum itself."),
    Mistake(_one_rate, "All parameters have the same rate: the norms are those of each parameter by itself, which is what "
                       "LARS (“layer-wise adaptive rate scaling”) is about."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.ones_like(w)), "The trust ratio is missing: that is SGD with "
                                                                        "momentum."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / g, 1.0)),
            "The weight decay is missing below the fraction: `trust * weights / (gradients + weight_decay * weights)`, of "
            "norms."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), w / (g + decay * w), 1.0)),
            "`trust` is missing in the ratio."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / (g + decay * w), trust)),
            "Where a norm is 0 the rate is `lr` itself: without `trust`."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: trust * w / (g + decay * w)),
            "Where a norm is 0 the rate is to be `lr` itself: weights that are all 0 would never leave it, and 0 / 0 is "
            "nan. Choose with `torch.where`."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: trust * w / (g + decay * w + 1e-8)),
            "A small number below the fraction avoids nan, and where the weights are all 0 the rate is still 0: there it "
            "is to be `lr` itself. Choose with `torch.where`."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where(g > 0, trust * w / (g + decay * w), 1.0)),
            "Where the norm of the *weights* is 0 the rate is to be `lr` itself too, or they never leave it."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where(w > 0, trust * w / (g + decay * w), 1.0)),
            "Where the norm of the *gradient* is 0 the rate is to be `lr` itself too."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * (g + decay * w) / w, 1.0)),
            "The fraction is upside down: large weights and small gradients make a large rate."),
    Mistake(_lars(decays=lambda grad, param, decay: grad), "The weight decay is missing in the update: "
                                                           "`grad + weight_decay * param`."),
    Mistake(_lars(decays=lambda grad, param, decay: grad - decay * param), "The weight decay has the wrong sign."),
    Mistake(_lars(decays=lambda grad, param, decay: grad + decay * param.sign()),
            "The weight decay is `weight_decay * param`, not by its sign."),
    Mistake(_lars(update=_rate_last), "The rate multiplies what is in the momentum. LARS puts the rate in first: "
                                      "`moment = momentum * moment + rate * (…)`, `param -= moment`, so that earlier steps "
                                      "keep the rates that they had."),
    Mistake(_lars(update=_dampened), "The new part is not multiplied by `1 - momentum`."),
    Mistake(_lars(update=_nesterov), "That is Nesterov's momentum: the weights are to change by the momentum itself."),
    Mistake(_lars(update=_stale), "The weights change by the momentum of the step before: first bring it up to date."),
    Mistake(_lars(update=_upwards), "The momentum is subtracted from the weights."),
    Mistake(_lars(update=_without_momentum), "The momenta stay as they are: they are to be kept in the tensors of "
                                             "`momenta`, changed in place."),
    Mistake(_lars(norm=lambda tensor: _norm(tensor)**2), "Those are squares of norms: the root is missing."),
    Mistake(_lars(norm=lambda tensor: tensor.abs().sum(dtype=torch.float32)), "Those are sums of absolute values: the norm "
                                                                              "is the root of the sum of squares."),
    Mistake(_lars(norm=lambda tensor: tensor.abs().max().float()), "Those are the largest numbers: the norm is the root of "
                                                                   "the sum of squares."),
    Mistake(_lars(norm=torch.linalg.vector_norm), "A norm was computed in float16, whose largest number is 65 504: ask for "
                         "float32 (`torch._foreach_norm(tensors, 2, torch.float32)`)."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.full_like(w, trust)), "`trust` alone is no ratio: it is "
                                                                               "multiplied by the norm of the weights, and "
                                                                               "divided."),
    Mistake(lambda params, momenta, lr, momentum, weight_decay, trust: None, "Nothing has changed: the parameters and "
                                                                             "`momenta` are to be changed in place."),
    Mistake(_lars(skip=False), "A parameter without a gradient is left alone: its weight decays and its momentum goes on "
                               "otherwise."),
)
