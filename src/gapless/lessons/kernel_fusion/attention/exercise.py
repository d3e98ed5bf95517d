"""Lesson 07: the exercise ``attention``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="attention",
    slow=slow.attention,
    cases=cases.attention_cases,
    ask=stage.ask_attention,
    mistakes=mistakes.ATTENTION,
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
