"""Lesson 06: gradients that are clipped in another way than is asked for, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake


def clipping(norm_of=lambda grads: of_norms(grads), factor_of=lambda norm, limit: (limit / (norm + 1e-6)).clamp(max=1.0),
             which=lambda parameters: [each.grad for each in parameters if each.grad is not None],
             scale=lambda grad, factor: grad.mul_(factor), returned=lambda norm, factor: norm):
    """Clipping that does not wait, with a part exchanged."""
    @torch.no_grad()
    def clip(parameters, max_norm):
        grads = which(parameters)
        if not grads:
            return torch.zeros(())
        norm = norm_of(grads)
        factor = factor_of(norm, max_norm)
        for grad in grads:
            scale(grad, factor)
        return returned(norm, factor)

    return clip


def of_norms(grads: list[torch.Tensor]) -> torch.Tensor:
    """The norm of all of them together."""
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad.float()) for grad in grads]))


def _each_by_itself(parameters, max_norm):
    for parameter in parameters:
        if parameter.grad is not None:
            torch.nn.utils.clip_grad_norm_([parameter], max_norm)
    return torch.zeros(())


@torch.no_grad()
def _each_but_right_norm(parameters, max_norm):
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = of_norms(grads) if grads else torch.zeros(())
    for grad in grads:
        grad.mul_((max_norm / (torch.linalg.vector_norm(grad) + 1e-6)).clamp(max=1.0))
    return norm


def _values(parameters, max_norm):
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = of_norms(grads) if grads else torch.zeros(())
    for grad in grads:
        grad.clamp_(-max_norm, max_norm)
    return norm


def _used_up(parameters, max_norm):
    norm = torch.nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


_ALONE = ("Each gradient was clipped by its own norm, which changes the direction of the step. The norm is of all of them "
          "together: the root of the sum of the squares of their norms.")
_FINITE = ("Where the norm is inf or nan, `clip_grad_norm_` gives that norm back, and multiplies by a factor that is 0 or "
           "nan: whoever looks at it later can see that something went wrong. Add no case of your own.")
CLIP_MISTAKES = (
    Mistake(_each_by_itself, _ALONE),
    Mistake(_each_but_right_norm, _ALONE),
    Mistake(clipping(factor_of=lambda norm, limit: limit / (norm + 1e-6)), (
        "The gradients were scaled up to the limit where they lie below it. The factor is at most 1: `.clamp(max=1.0)`.")),
    Mistake(clipping(norm_of=lambda grads: of_norms(grads).square()), "That is the norm's square: the root is missing."),
    Mistake(clipping(norm_of=lambda grads: sum(torch.linalg.vector_norm(grad.float()) for grad in grads)), (
        "The norms were added up. The norm of all is the root of the sum of their squares: the norm of the norms.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([grad.abs().max().float() for grad in grads]).max()), (
        "That is the largest element. The norm is the root of the sum of squares.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([torch.linalg.vector_norm(grad.float()) for grad in grads]).max()), (
        "That is the largest gradient's norm. The norm of all is the root of the sum of their squares.")),
    Mistake(_values, ("Each element was cut off at the limit by itself (`clip_grad_value_` does that). The *norm* of all is "
                      "to be at most the limit.")),
    Mistake(clipping(returned=lambda norm, factor: norm.half().float()), (
        "The norm was made float16, whose largest number is 65 504: it is float32's.")),
    Mistake(clipping(norm_of=lambda grads: of_norms(grads) / sum(grad.numel() for grad in grads)**0.5), (
        "That is the root of the *mean* of the squares: the norm is the root of their sum.")),
    Mistake(clipping(returned=lambda norm, factor: factor), (
        "The factor came back. The norm is wanted that the gradients had before.")),
    Mistake(clipping(returned=lambda norm, factor: norm * factor), (
        "The norm after clipping came back. The one before is wanted: it tells when a training goes wrong.")),
    Mistake(clipping(returned=lambda norm, factor: norm.clamp(max=1.0)), (
        "The norm after clipping came back. The one before is wanted: it tells when a training goes wrong.")),
    Mistake(clipping(scale=lambda grad, factor: grad * factor), (
        "The gradients are as before: `grad * factor` is a new tensor, which nobody takes. In place: `mul_`.")),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-6)).clamp(min=1.0)), (
        "The factor is at least 1, so the gradients are scaled up and never down. It is at most 1: `.clamp(max=1.0)`.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([torch.linalg.vector_norm(grad.float()) for grad in grads]).mean()), (
        "That is the mean of the norms. The norm of all is the root of the sum of their squares: the norm of the norms.")),
    Mistake(lambda parameters, max_norm: torch.zeros(()), (
        "Nothing was clipped, and no gradient is in the norm. It is that of the gradients, `parameter.grad`; the parameters "
        "themselves are 0 here.")),
    Mistake(clipping(which=lambda parameters: [each.grad for each in parameters if each.grad is not None][:1]), (
        "Only the first gradient was looked at.")),
    Mistake(clipping(factor_of=lambda norm, limit: torch.where(norm.isfinite(), (limit / (norm + 1e-6)).clamp(max=1.0),
                                                               1.0)), _FINITE),
    Mistake(clipping(factor_of=lambda norm, limit: torch.where(norm > limit, limit / (norm + 1e-6), 1.0)), (
        "A norm that is nan is not above the limit, nor is it below: every comparison with it is false. `clamp` keeps the "
        "nan. " + _FINITE)),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-6)).clamp(max=1.0).nan_to_num(0.0)), _FINITE),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / norm).clamp(max=1.0)), (
        "Where norm and limit are 0, their quotient is nan: 10⁻⁶ is added to the norm.")),
    Mistake(clipping(factor_of=lambda norm, limit: limit / (norm + 1e-6).clamp(min=limit)), (
        "An infinite limit gives inf / inf, a nan. It is the quotient that is at most 1: `.clamp(max=1.0)`.")),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-2)).clamp(max=1.0)), (
        "What is added to the norm is too large: small gradients become smaller than the limit asks for. It is 10⁻⁶.")),
    Mistake(clipping(norm_of=lambda grads: of_norms([grad for grad in grads if grad.dtype == grads[-1].dtype])), (
        "That is the norm of one dtype's gradients. The norm is of all of them together.")),
    Mistake(_used_up, ("The parameters may come as an iterator, which can be gone through once: after that it is empty. "
                       "`parameters = list(parameters)` first, or one loop.")),
)
