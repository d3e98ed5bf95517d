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


def _wide(grad: torch.Tensor) -> torch.Tensor:
    """In float32 at least."""
    return grad if grad.dtype == torch.float64 else grad.float()


def of_norms(grads: list[torch.Tensor]) -> torch.Tensor:
    """The norm of all of them together."""
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(_wide(grad)) for grad in grads]))


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


def _each_dtype_by_itself(parameters, max_norm):
    dtypes: dict[torch.dtype, list] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            dtypes.setdefault(parameter.grad.dtype, []).append(parameter)
    norms = [torch.nn.utils.clip_grad_norm_(of_dtype, max_norm).float() for of_dtype in dtypes.values()]
    return torch.stack(norms).norm() if norms else torch.zeros(())


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


_ALONE = ("You clipped each gradient by its own norm, which changes the direction of the step. Use the norm of all of "
          "them together: the root of the sum of the squares of their norms.")
_FINITE = ("If the norm is inf or nan, `clip_grad_norm_` returns that norm, and multiplies by a factor that is 0 or nan. "
           "So a later look at the norm shows that something went wrong. Do not add a special case.")
CLIP_MISTAKES = (
    Mistake(_each_by_itself, _ALONE),
    Mistake(_each_but_right_norm, _ALONE),
    Mistake(clipping(factor_of=lambda norm, limit: limit / (norm + 1e-6)), (
        "You scaled gradients below the limit up to it. The factor is at most 1: `.clamp(max=1.0)`.")),
    Mistake(clipping(norm_of=lambda grads: of_norms(grads).square()),
            "That is the norm's square: the square root is missing."),
    Mistake(clipping(norm_of=lambda grads: sum(torch.linalg.vector_norm(_wide(grad)) for grad in grads)), (
        "You added up the norms. The norm of all is the root of the sum of their squares: the norm of the norms.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([grad.abs().max().float() for grad in grads]).max()), (
        "That is the largest element. The norm is the root of the sum of squares.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([torch.linalg.vector_norm(_wide(grad)) for grad in grads]).max()), (
        "That is the largest gradient's norm. The norm of all is the root of the sum of their squares.")),
    Mistake(_values, ("You limited each element separately (as `clip_grad_value_` does). The *norm* of all must be at "
                      "most the limit.")),
    Mistake(clipping(returned=lambda norm, factor: norm.half().float()), (
        "You cast the norm to float16, whose largest number is 65 504. Keep it in float32.")),
    Mistake(clipping(norm_of=lambda grads: of_norms(grads) / sum(grad.numel() for grad in grads)**0.5), (
        "That is the root of the *mean* of the squares: the norm is the root of their sum.")),
    Mistake(clipping(returned=lambda norm, factor: factor), (
        "You returned the factor. Return the norm that the gradients had before.")),
    Mistake(clipping(returned=lambda norm, factor: norm * factor), (
        "You returned the norm after clipping. Return the one before: it shows when a training goes wrong.")),
    Mistake(clipping(returned=lambda norm, factor: norm.clamp(max=1.0)), (
        "You returned the norm after clipping. Return the one before: it shows when a training goes wrong.")),
    Mistake(clipping(scale=lambda grad, factor: grad * factor), (
        "The gradients have not changed: `grad * factor` is a new tensor, which nothing uses. Multiply in place with "
        "`mul_`.")),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-6)).clamp(min=1.0)), (
        "Your factor is at least 1, so it scales gradients up and never down. It must be at most 1: `.clamp(max=1.0)`.")),
    Mistake(clipping(norm_of=lambda grads: torch.stack([torch.linalg.vector_norm(_wide(grad)) for grad in grads]).mean()), (
        "That is the mean of the norms. The norm of all is the root of the sum of their squares: the norm of the norms.")),
    Mistake(lambda parameters, max_norm: torch.zeros(()), (
        "Nothing was clipped, and no gradient is in the norm. Take the norm of the gradients, `parameter.grad`. The "
        "parameters themselves are 0 here.")),
    Mistake(clipping(which=lambda parameters: [each.grad for each in parameters if each.grad is not None][:1]), (
        "You used only the first gradient.")),
    Mistake(clipping(which=lambda parameters: [each.grad for each in parameters if each.requires_grad
                                               and each.grad is not None]), (
        "You left out the frozen parameters. As long as nobody clears its gradient, a frozen parameter has one, and it is "
        "part of the total norm. Ask for `parameter.grad`, not for `requires_grad`.")),
    Mistake(clipping(factor_of=lambda norm, limit: torch.where(norm.isfinite(), (limit / (norm + 1e-6)).clamp(max=1.0),
                                                               1.0)), _FINITE),
    Mistake(clipping(factor_of=lambda norm, limit: torch.where(norm > limit, limit / (norm + 1e-6), 1.0)), (
        "A norm that is nan is neither above nor below the limit: every comparison with it is false. `clamp` keeps the "
        "nan. " + _FINITE)),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-6)).clamp(max=1.0).nan_to_num(0.0)), _FINITE),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / norm).clamp(max=1.0)), (
        "If norm and limit are 0, their quotient is nan. Add 10⁻⁶ to the norm.")),
    Mistake(clipping(factor_of=lambda norm, limit: limit / (norm + 1e-6).clamp(min=limit)), (
        "An infinite limit gives inf / inf, a nan. Limit the quotient to 1 with `.clamp(max=1.0)`.")),
    Mistake(clipping(factor_of=lambda norm, limit: (limit / (norm + 1e-2)).clamp(max=1.0)), (
        "You add too much to the norm, so small gradients become smaller than the limit asks for. Add 10⁻⁶.")),
    Mistake(_each_dtype_by_itself, (
        "You clipped the gradients of each dtype by their own norm. All gradients have one factor, from the norm of all of "
        "them together.")),
    Mistake(clipping(norm_of=lambda grads: of_norms([grad for grad in grads if grad.dtype == grads[-1].dtype])), (
        "That is the norm of one dtype's gradients. Take the norm of all of them together.")),
    Mistake(_used_up, ("The parameters may come as an iterator, which is empty after one pass. Use `parameters = "
                       "list(parameters)` first, or a single loop.")),
)
