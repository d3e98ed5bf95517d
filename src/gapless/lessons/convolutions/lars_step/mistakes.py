"""Lesson 05: the usual wrong versions of ``lars_step``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.mistakes import Mistake


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


def _not_in_place(param, moment, grad, rate, momentum):
    param.sub_(momentum * moment + rate * grad)


def _decayed_last(param, moment, grad, rate, momentum):
    moment.add_(rate * grad).mul_(momentum)
    param.sub_(moment)


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


def _at_zero(ratio: Callable[[float], float]) -> Callable:
    """``ratio(lr)``: where a norm is 0."""
    def lars_step(params, momenta, lr, momentum, weight_decay, trust):
        _lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / (g + decay * w), ratio(lr)))(
            params, momenta, lr, momentum, weight_decay, trust)

    return lars_step


@torch.no_grad()
def _momentum_again(params, momenta, lr, momentum, weight_decay, trust):
    _lars()(params, momenta, lr, momentum, weight_decay, trust)
    for param, moment in zip(params, momenta):
        if param.grad is not None:
            param.sub_(momentum * moment)


LARS_MISTAKES = (
    Mistake(_lars(update=_not_in_place), "The momenta have not changed: change them in place, for the next step."),
    Mistake(_lars(update=_decayed_last), "You multiply the new part by `momentum` too. Multiply only the old momentum."),
    Mistake(_decoupled, "You apply the weight decay to the weights separately, as AdamW does. Here it is part of the "
                        "update, `grad + weight_decay * param`, before rate and momentum."),
    Mistake(_lr_twice, "`lr` is in the rate twice."),
    Mistake(_at_zero(lambda lr: lr), "If a norm is 0, the rate must be `lr` itself, not its square: the ratio is 1."),
    Mistake(_at_zero(lambda lr: 1 / lr), "If a norm is 0, the rate must be `lr` itself, not 1. Multiply by `lr` after "
                                         "the selection."),
    Mistake(_momentum_again, "That is Nesterov's momentum. The weights must change by the momentum itself."),
    Mistake(_one_rate, "All parameters have the same rate. Take the norms of each parameter separately: that is the idea "
                       "of LARS (“layer-wise adaptive rate scaling”)."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.ones_like(w)), "The trust ratio is missing: that is SGD with "
                                                                        "momentum."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / g, 1.0)),
            "The denominator lacks the weight decay: `trust * weights / (gradients + weight_decay * weights)`, of norms."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), w / (g + decay * w), 1.0)),
            "`trust` is missing in the ratio."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / (g + decay * w), trust)),
            "If a norm is 0, the rate is `lr` itself, without `trust`."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: trust * w / (g + decay * w)),
            "If a norm is 0, the rate must be `lr` itself. Otherwise weights that are all 0 stay 0, and 0 / 0 is nan. "
            "Select with `torch.where`."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: trust * w / (g + decay * w + 1e-8)),
            "If the weights are all 0, your rate is 0, but it must be `lr` itself. A small number in the denominator "
            "does not help, nor does `|` between two conditions. Select with `torch.where`: both norms above 0."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where(g > 0, trust * w / (g + decay * w), 1.0)),
            "If the norm of the *weights* is 0, the rate must be `lr` itself too. Otherwise the weights stay 0."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where(w > 0, trust * w / (g + decay * w), 1.0)),
            "If the norm of the *gradient* is 0, the rate must be `lr` itself too."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * (g + decay * w) / w, 1.0)),
            "The fraction is upside down: large weights and small gradients make a large rate."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: _ratio(w, g, decay, trust).clamp(max=1.0)),
            "You limit the ratio to 1. It has no upper limit here."),
    *(Mistake(_lars(ratio=lambda w, g, decay, trust, least=least: torch.where(
        (w > least) & (g > least), trust * w / (g + decay * w), 1.0)),
        "You take a small norm for 0. The ratio is left out only where a norm is 0.") for least in (1e-3, 1e-6)),
    *(Mistake(_lars(ratio=lambda w, g, decay, trust, eps=eps: torch.where(
        (w > 0) & (g > 0), trust * w / (g + decay * w + eps), 1.0)),
        "You add a small number to the denominator, which is too large beside small gradients. Both norms are above 0 "
        "here.") for eps in (1e-4, 1e-6, 1e-8)),
    Mistake(_lars(decays=lambda grad, param, decay: grad), "The update lacks the weight decay: `grad + weight_decay * "
                                                           "param`."),
    Mistake(_lars(decays=lambda grad, param, decay: grad - decay * param), "The weight decay has the wrong sign."),
    Mistake(_lars(decays=lambda grad, param, decay: grad + decay * param.sign()),
            "The weight decay is `weight_decay * param`, not `weight_decay` times its sign."),
    Mistake(_lars(update=_rate_last), "Your rate multiplies the whole momentum. LARS applies the rate first, so that "
                                      "earlier steps keep their own rates: `moment = momentum * moment + rate * (…)`, "
                                      "`param -= moment`."),
    Mistake(_lars(update=_dampened), "Do not multiply the new part by `1 - momentum`."),
    Mistake(_lars(update=_nesterov), "That is Nesterov's momentum. The weights must change by the momentum itself."),
    Mistake(_lars(update=_stale), "The weights change by the previous step's momentum. Update the momentum first."),
    Mistake(_lars(update=_upwards), "Subtract the momentum from the weights."),
    Mistake(_lars(update=_without_momentum), "The momenta have not changed. Keep them in the tensors of `momenta`, and "
                                             "change those in place."),
    Mistake(_lars(norm=lambda tensor: _norm(tensor)**2), "Those are squared norms: the square root is missing."),
    Mistake(_lars(norm=lambda tensor: tensor.abs().sum(dtype=torch.float32)), "Those are sums of absolute values: the norm "
                                                                              "is the root of the sum of squares."),
    Mistake(_lars(norm=lambda tensor: tensor.abs().max().float()), "Those are the largest numbers: the norm is the root of "
                                                                   "the sum of squares."),
    Mistake(_lars(norm=torch.linalg.vector_norm), "You compute a norm in float16, whose largest number is 65 504. Ask "
                                                  "for float32 (`torch._foreach_norm(tensors, 2, torch.float32)`)."),
    Mistake(_lars(ratio=lambda w, g, decay, trust: torch.full_like(w, trust)),
            "`trust` alone is not the ratio: multiply it by the norm of the weights, and divide."),
    Mistake(lambda params, momenta, lr, momentum, weight_decay, trust: None,
            "Nothing has changed. Change the parameters and `momenta` in place."),
    Mistake(_lars(skip=False), "Leave a parameter without a gradient alone. Here its weight decays and its momentum goes "
                               "on."),
)
