"""Lesson 05: the exercise ``without_bias``."""

from __future__ import annotations

from ....course.checks import Kernels, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, explain, right, slow, stage
from .mistakes import BIAS
from .stage import WIDE_PAIRS

EXERCISE = Exercise(
    name="without_bias",
    slow=slow.without_bias,
    cases=cases.bias_cases,
    asked=Asked(ask=stage.ask_without_bias),
    right=Right(function=right.without_bias),
    measurement=Measurement(trial=cases.BIAS_TRIAL, kernels_beside=200),  # who watches a forward pass needs some 35 a call
    checks=(
        Values(4),
        Kernels(1, fewer=2 * WIDE_PAIRS, advice=(
            "A bias costs a kernel forward, which adds it, and one backward, which sums its gradient. If a norm "
            "follows, both can go.")),
    ),
    teaching=Teaching(
        hints=(
            "Which number does the norm subtract from a channel, and how does a bias change that number? Follow the "
            "output of each convolution: which modules use it?",
            "Get the flow from a trace. `torch.fx.Tracer().trace(model).nodes` has a node for each call, and "
            "`node.users` are the nodes that use its result. If `node.op` is \"call_module\", "
            "`dict(model.named_modules(remove_duplicate=False))[node.target]` is its module. A bias can go if all users "
            "of all calls of its convolution are norms that subtract each channel's own mean. Then compare in evaluation "
            "mode: which number of the norm contains the bias?",
            "Do `norm.running_mean -= conv.bias.detach()` once for each norm after the convolution, then `conv.bias = "
            "None`. A norm with a running mean must have no input other than that convolution's output. `nn.BatchNorm…` "
            "and `nn.InstanceNorm…` cancel the bias if `norm.training` is True or they have no running mean. "
            "`nn.GroupNorm` does if `num_groups == num_channels`.",
        ),
        mistakes=BIAS,
        explain=explain.without_bias,
    ),
)
