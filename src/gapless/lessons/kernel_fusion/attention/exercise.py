"""Lesson 07: the exercise ``attention``."""

from __future__ import annotations

from ....course.checks import PeakBytes, StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, slow, stage

EXERCISE = Exercise(
    name="attention",
    slow=slow.attention,
    cases=cases.attention_cases,
    asked=Asked(ask=stage.ask_attention),
    measurement=Measurement(trial=cases.ATTENTION_TRIAL, step_is="a forward and backward pass"),
    checks=(
        Values(2),
        PeakBytes(2, at_most=0.7, advice=(
            "The B×H×L×L scores are written, masked into a copy, and kept for the backward pass. Does anything need "
            "them as a whole?")),
        StepTime(2, at_most=0.7, advice=(
            "The scores go to memory and come back several times. Scores, mask, softmax and the product with the values are "
            "one PyTorch operator.")),
    ),
    teaching=Teaching(
        hints=(
            "How large are the scores compared with the inputs? Each of the slow function's lines writes all of them. "
            "Which function of `torch.nn.functional` computes the last line's result directly from `q`, `k`, `v`?",
            "`F.scaled_dot_product_attention` already divides by √D. Its `attn_mask` may be boolean: what does True mean "
            "there, and what here?",
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=mask)`. (True means \"takes part\", in both.)",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.attention,
    ),
)
