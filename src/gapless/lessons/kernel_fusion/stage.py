"""Lesson 07: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import Unusable

COMPARED = 600  # elements of a tensor, of more about as many

# What is seen, in the words of the answer.
OUTPUTS, DTYPE, LOSS = "outputs", "dtype", "loss"


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "math": math, "statistics": statistics}


def ask_reckoned(function, given, device):
    """What ``function`` says of plain numbers."""
    yield
    found = function(**given.options)
    yield
    return found


def compiles(ask):
    """Decorator: the function asked may be compiled for more shapes and dtypes than one program has, and what a cell has
    changed of Dynamo's limits is left out."""

    @functools.wraps(ask)
    def patient(function, given, device):
        def call(*args, **kwargs):
            dynamo = sys.modules.get("torch._dynamo")
            with dynamo.config.patch(recompile_limit=_MOST_CASES) if dynamo is not None else contextlib.nullcontext():
                return function(*args, **kwargs)

        return ask(call, given, device)

    return patient


_MOST_CASES = 64


@compiles
def ask_elementwise(function, given, device):
    """What ``function`` makes of ``x``, and the gradient that comes back."""
    x = given.inputs["x"].detach().requires_grad_()
    yield
    outputs = _tensor(function(x), x, device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    return {DTYPE: str(outputs.dtype), OUTPUTS: _some(outputs.detach()), **_gradients(x=x)}


def ask_forward(function, given, device):
    """The loss and its gradients, ``function`` compiled, anew where graphs are counted. What it prints is not shown."""
    tensors = {name: tensor.detach().requires_grad_() for name, tensor in given.inputs.items()}
    compiled = function
    if device.type != "cpu":
        if given.options["counts"]:
            torch._dynamo.reset()
        compiled = _compiled(function)
    yield
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        loss = _number(compiled(**tensors), device)
    if loss.requires_grad:
        loss.backward()
    yield
    return {DTYPE: str(loss.dtype), LOSS: loss.detach(), **_gradients(**tensors)}


@functools.lru_cache(maxsize=4)
def _compiled(function):
    """Once for all calls."""
    return torch.compile(function)


@contextlib.contextmanager
def quiet():
    """Inside, Dynamo does not write its warnings: the slow function's would come in every check."""
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


WIDTH = 8
LOSSES, LENGTHS = "losses", "lengths"


def ask_lengths(function, given, device):
    """The losses of batches of many lengths, the gradients that they leave, and the lengths that were written down."""
    options = given.options
    generator = torch.Generator().manual_seed(options["seed"])
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    model = model.to(device)
    batches = [torch.randn(options["batch"], length, WIDTH, generator=generator).to(device) for length in options["lengths"]]
    if device.type != "cpu":
        torch._dynamo.reset()  # what was compiled for an earlier model would count for this one
    yield
    made = function(model)
    if not isinstance(made, (tuple, list)) or len(made) != 2 or not callable(made[0]):
        raise Unusable("the two things `step, lengths` are wanted: a function, and the list of the lengths that it was "
                       "given.")
    step, lengths = made
    losses = []
    # With a lower limit it would soon run as it is written, and compile no more.
    with quiet(), torch._dynamo.config.patch(recompile_limit=8):
        for batch in batches:
            loss = _number(step(batch), device)
            if loss.requires_grad:
                loss.backward()
            losses.append(loss.detach())
    yield
    return {LOSSES: torch.stack(losses), LENGTHS: list(lengths), **_gradients(**{
        name.replace(".", " "): parameter for name, parameter in model.named_parameters()})}


@compiles
def ask_attention(function, given, device):
    """What is attended to, and the gradients of queries, keys and values."""
    tensors = {name: given.inputs[name].detach().requires_grad_() for name in "qkv"}
    yield
    outputs = _tensor(function(**tensors, mask=given.inputs["mask"]), tensors["v"], device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    return {DTYPE: str(outputs.dtype), OUTPUTS: _some(outputs.detach()), **_gradients(**tensors)}


@compiles
def ask_head_loss(function, given, device):
    """The loss, and the gradients of all that has one."""
    tensors = {name: tensor.detach().requires_grad_(tensor.is_floating_point()) for name, tensor in given.inputs.items()}
    yield
    loss = _number(function(**tensors), device)
    if loss.requires_grad:
        loss.backward()
    yield
    return {DTYPE: str(loss.dtype), LOSS: loss.detach(),
            **_gradients(**{name: tensor for name, tensor in tensors.items() if tensor.requires_grad})}


SECOND, REFUSED = "second derivative", "refused"


@compiles
def ask_swish(function, given, device):
    """A chain of so many layers: outputs and gradient; of the first layer, the gradient's gradient, unless it is refused."""
    x, gradient, depth = given.inputs["x"].detach().requires_grad_(), given.inputs["gradient"], given.options["depth"]
    yield
    outputs = x
    for _ in range(depth):
        outputs = _tensor(function(outputs), x, device)
    if outputs.requires_grad:
        outputs.backward(gradient.to(outputs.dtype))
    yield
    found = {DTYPE: str(outputs.dtype), OUTPUTS: _some(outputs.detach()), **_gradients(x=x)}
    if given.options["second"]:
        found[SECOND] = second_derivative(function, x.detach().requires_grad_(), gradient)
    return found


def second_derivative(function, x: torch.Tensor, gradient: torch.Tensor):
    """Of ``x · function(x)``, such that a part that is cut off makes it wrong and no error; or that it is refused, as for a
    function that is differentiable once."""
    gradient = gradient.to(x.dtype)
    first, = torch.autograd.grad(x * function(x), x, gradient, create_graph=True)
    try:
        first.backward(gradient)  # `torch.autograd.grad` would go past a refusal that leads nowhere
    except RuntimeError:
        return REFUSED
    return _some(x.grad)


# -- what comes back --------------------------------------------------------------------------------


def _tensor(outputs, like: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``outputs``. Raises Unusable where they are no tensor of the shape of ``like``, there where it is."""
    if not isinstance(outputs, torch.Tensor):
        nothing = "nothing: is there a `return`?" if outputs is None else f"a {type(outputs).__name__}; a tensor is wanted."
        raise Unusable(f"it returned {nothing}")
    if outputs.shape != like.shape:
        raise Unusable(f"it returned a tensor of shape {tuple(outputs.shape)}; {tuple(like.shape)} is wanted.")
    return _there(outputs, device)


def _number(loss, device: torch.device) -> torch.Tensor:
    """``loss``. Raises Unusable where it is no tensor without dimensions on the device."""
    if not isinstance(loss, torch.Tensor):
        nothing = "nothing: is there a `return`?" if loss is None else (
            f"a {type(loss).__name__}; a tensor is wanted, which the device fills when it gets there.")
        raise Unusable(f"it returned {nothing}")
    if loss.dim():
        raise Unusable(f"it returned a tensor of shape {tuple(loss.shape)}; one number, without dimensions, is wanted.")
    return _there(loss, device)


def _there(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device.type != device.type:
        raise Unusable(f"it returned a tensor on {tensor.device}: the result stays where the inputs are.")
    return tensor


def _gradients(**tensors: torch.Tensor) -> dict:
    """By name; one that has not come back is zero."""
    return {f"gradient of `{name}`": _some(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)
            for name, tensor in tensors.items()}


def _some(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten()[::max(1, -(-tensor.numel() // COMPARED))]
