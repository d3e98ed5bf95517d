"""Lesson 07: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import math
import statistics
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import OVERWRITTEN, Unusable, left_alone
from ...measure.compile_calls import CompileCalls

COMPARED = 600  # elements of a tensor, of more about as many
# What is seen, in the words of the answer.
OUTPUTS, DTYPE, LOSS = "outputs", "dtype", "loss"
SECOND, REFUSED = "second derivative", "refused"


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "math": math, "statistics": statistics}


def ask_reckoned(function, given, device):
    """What ``function`` says of plain numbers."""
    before = copy.deepcopy(given.options)
    yield
    found = function(*given.options.values())  # by place, here and below: a learner may call the parameters otherwise
    yield
    for name, now in given.options.items():
        left_alone(name, now, before[name])
    return found


def compiles(ask):
    """Decorator: raises Unusable where the function asked calls ``torch.compile`` for the same inputs again."""

    @functools.wraps(ask)
    def patient(function, given, device):
        def call(*args, **kwargs):
            with CompileCalls() as calls:
                found = function(*args, **kwargs)
            if calls.count:
                with CompileCalls() as again:
                    found = function(*args, **kwargs)
                if again.count:
                    raise Unusable("it calls `torch.compile` in each call, so the compiled code has to be found again "
                                   "each time. Call it once, outside of the function, and keep what it returns.")
            return found

        return ask(call, given, device)

    return patient


@contextlib.contextmanager
def quiet():
    """Inside, the compiler does not write its warnings: the slow function's would come in every check, and Inductor
    recommends TF32 on a real GPU."""
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
            yield
    finally:
        logger.setLevel(before)


def tensor_of(outputs, like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``outputs``. Raises Unusable where they are no tensor of the shape of ``like``, there where it is."""
    if not isinstance(outputs, torch.Tensor):
        nothing = "nothing: is there a `return`?" if outputs is None else f"a {type(outputs).__name__}, not a tensor."
        raise Unusable(f"it returned {nothing}")
    if outputs.shape != like.shape:
        raise Unusable(f"it returned a tensor of shape {tuple(outputs.shape)}, not {tuple(like.shape)}.")
    return _there(outputs, device)


def number_of(loss, device: torch.device) -> torch.Tensor:
    """``loss``. Raises Unusable where it is no tensor without dimensions on the device."""
    if not isinstance(loss, torch.Tensor):
        nothing = "nothing: is there a `return`?" if loss is None else (
            f"a {type(loss).__name__}, not a tensor, which the device can fill later.")
        raise Unusable(f"it returned {nothing}")
    if loss.dim():
        raise Unusable(f"it returned a tensor of shape {tuple(loss.shape)}, not one number without dimensions.")
    return _there(loss, device)


def _there(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device.type != device.type:
        raise Unusable(f"it returned a tensor on {tensor.device}: the result must stay on the inputs' device.")
    return tensor


def gradients_of(**tensors: torch.Tensor) -> dict:
    """By name."""
    return {f"gradient of `{name}`": gradient_of(tensor) for name, tensor in tensors.items()}


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Zero where none has come back."""
    return some(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)


def second_derivative(function, x: torch.Tensor, gradient: torch.Tensor):
    """Of ``x · function(x)``, such that a part that is cut off makes it wrong and no error; or that it is refused, as for a
    function that is differentiable once."""
    x, gradient = x.detach().requires_grad_(), gradient.to(x.dtype)
    outputs = x * function(x)
    try:
        first, = torch.autograd.grad(outputs, x, gradient, create_graph=True)
        first.backward(gradient)  # `torch.autograd.grad` would go past a refusal that leads nowhere
    except Exception:  # an error of any kind is a refusal
        return REFUSED
    return gradient_of(x)


def ready(tensor: torch.Tensor, options: dict) -> torch.Tensor:
    """The same memory, requiring a gradient unless a case says otherwise or there is none."""
    return tensor.detach().requires_grad_(tensor.is_floating_point() and options.get("grad", True))


def stays(outputs: torch.Tensor, again, device: torch.device) -> None:
    """Raises Unusable where ``again``, another call of the function, writes into the ``outputs`` of the first. Not on a real
    GPU: there `mode="reduce-overhead"` reuses the memory of its graphs, and PyTorch itself says so."""
    if device.type == "cuda":
        return
    before = outputs.detach().clone()
    again()
    if not torch.equal(outputs.detach(), before):
        raise Unusable(OVERWRITTEN)


def some(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten()[::max(1, -(-tensor.numel() // COMPARED))]
