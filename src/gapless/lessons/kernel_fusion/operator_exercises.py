"""Lesson 07: the exercises that need no compiler: operators that are one kernel already, and one to be written."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import cases, explain, functions, operator_mistakes, stage
from .second_derivative import seen

ATTENTION = Exercise(
    name="attention",
    slow=functions.attention,
    cases=cases.attention_cases,
    ask=stage.ask_attention,
    mistakes=operator_mistakes.ATTENTION,
    explain=explain.attention,
    trial=cases.ATTENTION_TRIAL,
    points={"values": 2, "kernels": 1, "peak_bytes": 2, "step_time": 1},
    fewer_kernels=5,
    max_peak_ratio=0.5,
    max_time_ratio={"step_time": 0.7},
    advice={"kernels": "Scores, mask, softmax and the product with the values are one operator of PyTorch's.",
            "peak_bytes": "B×H×L×L scores are written, masked into a copy, and kept for the backward pass: who needs them "
                          "as a whole?",
            "step_time": "The scores go to memory and come back, several times over."},
    step_is="a forward and backward pass",
    hints=(
        "How large are the scores beside the inputs? Each of the slow function's lines writes all of them. Which function "
        "of `torch.nn.functional` gives the last line's result straight from `q`, `k`, `v`?",
        "`F.scaled_dot_product_attention` divides by √D by itself. Its `attn_mask` may be of bool: what does True mean "
        "there, and what here?",
        "`F.scaled_dot_product_attention(q, k, v, attn_mask=mask)`. (True: takes part, in both.)",
    ),
)

HEAD_LOSS = Exercise(
    name="head_loss",
    slow=functions.head_loss,
    cases=cases.head_cases,
    ask=stage.ask_head_loss,
    mistakes=operator_mistakes.HEAD_LOSS,
    explain=explain.head_loss,
    trial=cases.HEAD_TRIAL,
    points={"values": 2, "kernels": 2, "peak_bytes": 1},
    fewer_kernels=38,
    max_peak_ratio=0.75,
    advice={"kernels": "Three groups of lines are one operator each: a + b·c·number, the norm by the root of the "
                       "mean of squares, and the loss of its logits.",
            "peak_bytes": "The logits are the largest tensor by far, and each line of the loss makes another one of their "
                          "size, forward or backward."},
    step_is="a forward and backward pass",
    hints=(
        "Put names to three groups of lines. The first adds a product; the second divides by the root of a mean of squares; "
        "the third is a loss that PyTorch has, ignored targets and all.",
        "`torch.addcmul(a, b, c, value=…)`, `F.rms_norm(h, shape, weight, eps)`, `F.cross_entropy(logits, target)`.",
        "`h = torch.addcmul(residual, gate, x, value=0.5)`, `h = F.rms_norm(h, h.shape[-1:], weight, 1e-6)`, "
        "`F.cross_entropy(h @ projection.T, target)`, whose `ignore_index` is -100 unless told otherwise.",
    ),
)

SWISH = Exercise(
    name="swish",
    slow=functions.swish,
    cases=cases.swish_cases,
    ask=stage.ask_swish,
    see=seen,
    mistakes=operator_mistakes.SWISH,
    explain=explain.swish,
    trial=cases.SWISH_TRIAL,
    points={"values": 3, "peak_bytes": 2},
    max_peak_ratio=0.6,
    advice={"peak_bytes": "What does each line keep for the backward pass? `ctx.save_for_backward(x)` alone would do: the "
                          "rest can be computed again from `x`."},
    step_is="a forward and backward pass of six layers",
    hints=(
        "The slow function keeps three tensors of a layer's size until the backward pass: what `exp` gave, the sum below "
        "the line, and `x`. From which one can the other two be computed again?",
        "Write a `torch.autograd.Function` with `forward(ctx, x)` and `backward(ctx, gradient)`. With s = sigmoid(x) the "
        "derivative is s · (1 + x · (1 − s)). What should happen if somebody asks for the derivative of the derivative?",
        "`ctx.save_for_backward(x)` in `forward`, which returns `x * torch.sigmoid(x)`; in `backward`: "
        "`x, = ctx.saved_tensors`, `s = torch.sigmoid(x)`, `return gradient * s * (1 + x * (1 - s))`. Made of operators "
        "that "
        "autograd knows it has a second derivative too, a right one. `swish = Swish.apply` at the end.",
    ),
)

OPERATORS = (ATTENTION, HEAD_LOSS, SWISH)
