"""Lesson 06: the exercises on gradients, averages and the optimizer."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import (
    average_mistakes,
    clearing_cases,
    clearing_mistakes,
    clip_mistakes,
    functions,
    list_cases,
    optimizer_cases,
    optimizer_mistakes,
)
from .optimizers import ask_make_optimizer
from .parameter_lists import ask_clear_grads, ask_clip, ask_update_average
from .right import right_clear_grads

_LISTS = ("A `_foreach_` function of a list takes one kernel for dozens of tensors, if all of them, and a number on "
          "the device, have one dtype, and the tensors of a pair one shape. Else it goes from tensor to tensor.")

PARAMETERS = (
    Exercise(
        name="clear_grads",
        slow=functions.clear_grads,
        right=right_clear_grads,
        cases=clearing_cases.clearing_cases,
        ask=ask_clear_grads,
        mistakes=clearing_mistakes.CLEARING_MISTAKES,
        explain=clearing_mistakes.explain,
        trial=clearing_cases.CLEARING_TRIAL,
        points={"values": 2, "kernels": 1},
        fewer_kernels=2 * (clearing_cases.FEWEST - 5),
        advice={"kernels": "Each zero is a kernel, and so is each addition to it in the backward pass. What is not there "
                           "has neither to be cleared nor to be added to."},
        hints=(
            "What does an optimizer do with a parameter whose gradient is zero? And with one that has none?",
            "`parameter.grad` may be anything that the backward pass can begin with. What says \"there is none\"?",
            "`parameter.grad = None`, for each of them, whatever it was.",
        ),
    ),
    Exercise(
        name="update_average",
        slow=functions.update_average,
        cases=list_cases.average_cases,
        ask=ask_update_average,
        mistakes=average_mistakes.AVERAGE_MISTAKES,
        trial=list_cases.AVERAGE_TRIAL,
        points={"values": 2, "kernels": 2, "host_time": 1},
        fewer_kernels=2 * (list_cases.FEWEST - 10),
        max_time_ratio={"host_time": 0.4},
        advice={"kernels": _LISTS},
        step_is="an update",
        hints=(
            "Two kernels for each parameter, and the same two for all. Which functions take a whole list? And which of "
            "these tensors may be in one list?",
            "`torch._foreach_lerp_(averages, parameters, 1 - decay)` does it for a list, or `_foreach_mul_` and "
            "`_foreach_add_(…, alpha=…)`. Make a list for each dtype, in a dict. An empty list is an error.",
            "Go through `zip(averages, parameters)` once and put both into `lists.setdefault(average.dtype, ([], []))`, the "
            "parameter as `parameter.to(average.dtype)`, which is itself where the dtype is that already. Then one "
            "`_foreach_lerp_` for each entry.",
        ),
    ),
    Exercise(
        name="clip",
        slow=functions.clip,
        cases=list_cases.clip_cases,
        ask=ask_clip,
        mistakes=clip_mistakes.CLIP_MISTAKES,
        trial=list_cases.CLIP_TRIAL,
        busy_ms=2.0,
        points={"values": 2, "syncs": 2, "kernels": 1, "host_time": 1},
        fewer_kernels=2 * (list_cases.FEWEST - 10),
        max_time_ratio={"host_time": 0.25},
        advice={"kernels": _LISTS,
                "item": "a norm is read back for each gradient. All norms fit into one tensor, their norm is another, and "
                        "so is the factor: multiply by it always, at most 1"},
        relative_tolerance=3e-3,  # float16's: a norm in it has three digits
        absolute_tolerance=1e-3,
        hints=(
            "Who needs the norm as a number? And which two things are done to each gradient alike?",
            "`torch._foreach_norm(grads)` gives all norms, `torch.stack` makes one tensor of them, and its norm is the norm "
            "of all. The factor stays a tensor, with `.clamp(max=1.0)` in place of `if`. `torch._foreach_mul_` takes it.",
            "Collect the gradients that are there by dtype. `norm = torch.linalg.vector_norm(torch.stack(norms))`, `factor "
            "= (max_norm / (norm + 1e-6)).clamp(max=1.0)`, `torch._foreach_mul_(grads, factor.to(dtype))` for each dtype. "
            "Without any gradient the norm is `torch.zeros(())`.",
        ),
    ),
    Exercise(
        name="make_optimizer",
        slow=functions.make_optimizer,
        cases=optimizer_cases.optimizer_cases,
        ask=ask_make_optimizer,
        mistakes=optimizer_mistakes.OPTIMIZER_MISTAKES,
        explain=optimizer_mistakes.explain,
        trial=optimizer_cases.OPTIMIZER_TRIAL,
        points={"values": 2, "syncs": 2, "kernels": 1, "step_time": 1},
        fewer_kernels=6 * optimizer_cases.FEWEST,
        max_time_ratio={"step_time": 0.2},
        advice={"item": "`GradScaler` reads whether a gradient overflowed, in order to leave out the step. A fused "
                        "optimizer takes that answer to its kernel, and needs no number",
                "kernels": "Each group is a list of its own: a group for each parameter leaves nothing to take together. "
                           "How many different settings are there? And `fused=True` does all of AdamW in one kernel for "
                           "dozens of parameters."},
        step_is="a step of the GradScaler",
        hints=(
            "How many groups are needed for two settings? And why does `scaler.step` wait?",
            "Two groups, by `parameter.dim()`. `fused=True` makes one kernel of AdamW's dozen, which is also told whether a "
            "gradient overflowed. Not every dtype can be fused: what does the error say?",
            "`fused = all(parameter.is_floating_point() for parameter in parameters)`, then `torch.optim.AdamW(groups, "
            "lr=1e-3, fused=fused or None)`: None leaves the choice to PyTorch, False would mean the loop. `list(parameters)"
            "` first; leave out a group without parameters.",
        ),
    ),
)
