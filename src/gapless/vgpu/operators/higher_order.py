"""Operators that take functions, without ``torch.compile``: ``cond``, ``while_loop``, ``scan``, ``map``, FlexAttention.

PyTorch traces their functions with Dynamo even in an eager program. On tensors of the device they run as they are written,
as PyTorch's eager kernels of these operators run them; in a graph that ``torch.compile`` has traced as well.
"""

# mypy: disable-error-code="arg-type"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
from contextlib import contextmanager

import torch
from torch._C._functorch import TransformType
from torch._guards import TracingContext
from torch._higher_order_ops import utils
from torch._ops import _higher_order_ops
from torch.autograd.graph import register_multi_grad_hook
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..core.tensor import VirtualTensor
from ..process.eager import eager
from ..process.imports import after_import
from ..process.state import DEVICE
from .sparse import SparseTensor

DENSE, OURS = torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.AutogradPrivateUse1


def _formed(kernel):
    """``kernel`` of an operator, with functions that return a flat tuple, and a result in the form that theirs had: Dynamo
    would find that out."""

    @functools.wraps(kernel)
    def call(*args, **kwargs):
        forms = []

        def flat(function):
            def leaves(*given):
                found, form = pytree.tree_flatten(function(*given))
                forms.append(form)
                return tuple(found)

            return leaves

        out = kernel(*[flat(each) if callable(each) else each for each in args], **kwargs)
        return pytree.tree_unflatten(list(out), forms[0]) if forms else out

    return call


def cond(pred, true_fn, false_fn, operands):
    """The operator. Its backward pass is another ``cond``, which reads the predicate again (``cond.py``,
    ``CondAutogradOp``)."""
    out = (true_fn if pred else false_fn)(*operands)
    differentiable = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if differentiable and isinstance(pred, VirtualTensor):
        register_multi_grad_hook(differentiable, lambda grad: bool(pred) and None, mode="any")
    return out


def _without_modes(kernel):
    """``kernel``, some of which refuse to run in a dispatch mode: what counts the host's operators is one."""

    @functools.wraps(kernel)
    def call(*args, **kwargs):
        with _disable_current_modes():
            return kernel(*args, **kwargs)

    return call


def _unless_traced(kernel, operator):
    """``kernel`` of ``operator``, which PyTorch's own takes the place of while a compiler traces it, without values."""
    usual = operator.py_kernels[torch._C.DispatchKey.Autograd]

    @functools.wraps(kernel)
    def call(*args, **kwargs):
        return (kernel if TracingContext.try_get() is None else usual)(*args, **kwargs)

    return call


def _kernels() -> dict:
    """Operator → what it does: PyTorch's eager kernels, under which autograd sees what the functions do, and so what they
    close over, of which Dynamo would make operands."""
    eager = {name: _higher_order_ops[name].py_kernels[DENSE] for name in
             ("map_impl", "scan", "while_loop", "while_loop_stack_output", "associative_scan", "flex_attention")}
    return {**eager, "associative_scan": _formed(eager["associative_scan"]), "cond": cond}


def _unless_here(compile):
    """``torch.compile`` that leaves functions alone which are called with tensors of the device: inside another compiled
    function too, where Dynamo would try, fail, and not compile them for the CPU's tensors any more."""

    @functools.wraps(compile)
    def make(function, **options):
        compiled = compile(function, **options)

        @functools.wraps(function)
        @eager
        def call(*args, **kwargs):
            here = any(isinstance(leaf, torch.Tensor) and leaf.device.type == DEVICE.type
                       for leaf in pytree.tree_leaves((args, kwargs)))  # vmap's and grad's wrappers, too
            return (function if here else compiled)(*args, **kwargs)

        return call

    return make


def _unless_of_the_device(validate):
    """FlexAttention's question whether it knows the device: what CUDA has, this one has."""

    @functools.wraps(validate)
    def ask(query, key, value):
        if query.device.type != DEVICE.type:
            validate(query, key, value)

    return ask


def _accept(flex) -> None:
    flex._validate_device = _unless_of_the_device(flex._validate_device)
    flex.setup_compilation_env = utils.setup_compilation_env


def install() -> None:
    """Say what the operators do on tensors of the device, and change what they compile with."""
    for name, kernel in _kernels().items():
        operator, kernel = _higher_order_ops[name], _without_modes(kernel)
        operator.py_impl(OURS)(_unless_traced(kernel, operator))
        for kind in (VirtualTensor, SparseTensor):
            operator.py_impl(kind)(kernel)
    rules = _higher_order_ops["cond"].functorch_table
    rules[TransformType.Vmap] = _formed(rules[TransformType.Vmap])
    original = utils.setup_compilation_env

    @contextmanager
    def setup_compilation_env():
        with original() as backend:
            before = torch.compile
            torch.compile = _unless_here(before)
            try:
                yield backend
            finally:
                torch.compile = before

    utils.setup_compilation_env = setup_compilation_env
    after_import("torch.nn.attention.flex_attention", _accept)
