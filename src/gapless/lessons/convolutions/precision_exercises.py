"""Lesson 05: the exercises on mixed precision and on sizes for tensor cores."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import functions, precision_cases, precision_explain, precision_mistakes, size_cases, size_mistakes
from .mixed_training import ask_train_step
from .right_precision import right_sizes, right_train_step
from .sized_networks import ask_tensor_core_sizes

PRECISION = (
    Exercise(
        name="train_step",
        slow=functions.train_step,
        right=right_train_step,
        truth_on_device=True,
        cases=precision_cases.train_step_cases,
        ask=ask_train_step,
        mistakes=precision_mistakes.TRAIN_STEP_MISTAKES,
        explain=precision_explain.train_step,
        full=precision_cases.full_train_step,
        trial=precision_cases.TRAIN_STEP_TRIAL,
        points={"values": 4, "step_time": 3},
        max_time_ratio={"step_time": 0.85},
        relative_tolerance=0.02,  # of half precision: what differs in the order of its operators differs so much
        absolute_tolerance=1e-3,
        hints=(
            "Which part of the step has the convolutions and the linear layers in it, and which part only looks after the "
            "weights? The first may compute in half precision. And what becomes of a gradient of 10⁻⁸ there?",
            "`torch.autocast(x.device.type, dtype=dtype)` around the forward pass and the loss. "
            "`scaler.scale(loss).backward()` after it, outside. At the end, once: `scaler.step(optimizer)`, "
            "`scaler.update()`. The clipping wants the gradients as they are: without the scale.",
            "In this order: `zero_grad`; for each micro-batch forward pass and loss in autocast, the loss divided by their "
            "number, `scaler.scale(loss).backward()`; then `scaler.unscale_(optimizer)`, `clip_grad_norm_`, "
            "`scaler.step(optimizer)`, `scaler.update()`. A scaler that is switched off passes everything through.",
        ),
    ),
    Exercise(
        name="tensor_core_sizes",
        slow=functions.tensor_core_sizes,
        right=right_sizes,
        cases=size_cases.size_cases,
        ask=ask_tensor_core_sizes,
        mistakes=size_mistakes.SIZE_MISTAKES,
        explain=size_mistakes.explain,
        full=size_cases.full_sizes,
        trial=size_cases.SIZE_TRIAL,
        points={"values": 3, "step_time": 2},
        max_time_ratio={"step_time": 0.95},
        advice={"step_time": "Which layer still has a size that is no multiple of 8? In channels-last order cuDNN pads it "
                             "in each pass: look for `nhwcAddPaddingKernel`."},
        step_is="a pass in mixed precision and channels-last order",
        relative_tolerance=2e-3,  # a sum with zeros in it is added up in another order, and then trained on
        absolute_tolerance=5e-4,
        hints=(
            "Which sizes does a convolution or a linear layer have, as a product of matrices? And what has to stand in the "
            "places that are new, so that nothing changes, now and after a training step?",
            "`F.pad` appends zeros: to both dimensions of a weight (of the first convolution's only to the outputs), to "
            "biases, to the norms' weights, biases and running statistics. A layer takes a new `nn.Parameter` in place of "
            "its old one. The classes are the first columns of the outputs.",
            "`-size % 8` zeros are missing at a size. `F.pad` counts from the last dimension: for a weight O×I×3×3 it is "
            "`F.pad(weight, [0, 0, 0, 0, 0, -I % 8, 0, -O % 8])`. At the end of the Sequential a module whose `forward` "
            "returns `outputs[:, :classes]`.",
        ),
    ),
)
