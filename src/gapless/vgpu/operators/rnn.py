"""LSTM, GRU and plain RNN: one call of cuDNN forward and one backward, as on CUDA, with the CPU's values.

PyTorch would take them apart into some operators for every time step, whose calls a CUDA host never pays for. So the
whole operator is caught where autograd begins. Its kernels are those of cuDNN's standard algorithm: one product
for the inputs of all time steps, then a small product and a pointwise kernel for each step (cuDNN developer guide,
``CUDNN_RNN_ALGO_STANDARD``). Not modelled: the persistent algorithms, layers that run side by side.

The cells (``LSTMCell``, ``GRUCell``) are products and one fused pointwise kernel. Packed sequences are here too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..core import shapes
from ..core.dispatch import (
    COMPOSITE_HANDLED,
    Operator,
    begin,
    end,
    handles,
    launch_all,
    of_the_device,
    unwrap,
    used,
    wrap_results,
)
from ..core.inner_autograd import Graph
from ..core.operands import check_wanted
from ..core.tensor import VirtualTensor, wrap
from ..hardware.kernels import costs
from ..hardware.kernels.costs import Kernel
from ..hardware.times import precision
from ..process.eager import eager
from ..process.state import state
from . import autocast

OPERATORS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
OVERLOADS = ("input", "data")  # padded, packed

# Values that cuDNN keeps of every unit and time step for the backward pass, beside one for each gate. An assumption.
KEPT_VALUES = 2

COMPOSITE_HANDLED.update(OPERATORS)


# -- kernels --------------------------------------------------------------------------------------


def _place(func, name: str) -> int:
    return next(i for i, argument in enumerate(func._schema.arguments) if argument.name == name)


def _steps(func, args) -> list[int]:
    """Batch size at each time step."""
    if func._overloadname == "data":
        return args[1].tolist()
    x, batch_first = args[0], args[_place(func, "batch_first")]
    batch, length = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    return [batch] * length


def _layers(func, args) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The two matrices (input, hidden) of each layer and direction."""
    params, layers, both = (args[_place(func, name)] for name in ("params", "num_layers", "bidirectional"))
    directions = layers * (2 if both else 1)
    each = len(params) // directions
    return [(params[i], params[i + 1]) for i in range(0, len(params), each)]


def _product(name: str, rows: int, weight: torch.Tensor, work=None) -> Kernel:
    dtype = precision.math_dtype(weight, "rnn")
    wide, deep = weight.shape
    size = weight.element_size()
    return Kernel(f"gemm_{dtype}(cudnn rnn {name})", "matmul", (rows * (deep + wide) + wide * deep) * size,
                  2.0 * rows * wide * deep, dtype, work=work or (rows, wide, 1))


def _pointwise(name: str, rows: int, weight: torch.Tensor) -> Kernel:
    return Kernel(f"elementwise_kernel(cudnn rnn {name})", "pointwise", 3 * rows * weight.shape[0] * weight.element_size(),
                  work=(rows * weight.shape[0],))


def forward_kernels(func, args) -> list[Kernel]:
    """What cuDNN runs forward."""
    steps, found = _steps(func, args), []
    for w_input, w_hidden in _layers(func, args):
        found.append(_product("input", sum(steps), w_input))
        for rows in steps:
            found += [_product("step", rows, w_hidden), _pointwise("step", rows, w_hidden)]
    return found


def backward_kernels(func, args) -> list[Kernel]:
    """What cuDNN runs backward: each step again, then the inputs' gradients and both matrices' for all steps at once."""
    steps, found = _steps(func, args), []
    for w_input, w_hidden in reversed(_layers(func, args)):
        for rows in reversed(steps):
            found += [_pointwise("backward step", rows, w_hidden), _product("backward step", rows, w_hidden)]
        rows = sum(steps)
        found += [_product("input gradient", rows, w_input, (rows, w_input.shape[1], 1)),
                  _product("input weight gradient", rows, w_input, (*w_input.shape, 1, rows)),
                  _product("hidden weight gradient", rows, w_hidden, (*w_hidden.shape, 1, rows))]
    return found


def _kept_bytes(func, args) -> int:
    rows = sum(_steps(func, args))
    gates = {"lstm": 4, "gru": 3}.get(func._schema.name.split("::")[1], 1)
    return sum(rows * (w.shape[0] + KEPT_VALUES * (w.shape[0] // gates)) * w.element_size()
               for w, _ in _layers(func, args))


# -- values ---------------------------------------------------------------------------------------


def _inner(value, leaves: list, wanted):
    """The arguments with inner tensors in place of the wrappers; ``leaves``: those, in order."""
    if isinstance(value, VirtualTensor):
        leaf = value.within.detach()
        leaf.requires_grad_(wanted[len(leaves)] and leaf.is_floating_point())
        leaves.append(leaf)
        return leaf
    if type(value) in (list, tuple):
        return type(value)([_inner(item, leaves, wanted) for item in value])
    return value


def _wrappers(value) -> list[VirtualTensor]:
    if isinstance(value, VirtualTensor):
        return [value]
    if type(value) in (list, tuple):
        return [found for item in value for found in _wrappers(item)]
    return []


class _Rnn(torch.autograd.Function):
    """The operator ``func`` with ``args``; ``tensors`` are the wrappers in them, which autograd must see."""

    @staticmethod
    def forward(ctx, func, args, *tensors):
        ctx.set_materialize_grads(False)
        wanted = ctx.needs_input_grad[2:]
        leaves: list[torch.Tensor] = []
        begin("aten::_cudnn_rnn")
        try:
            inner_args = _inner(args, leaves, wanted)
            graph = Graph(func, inner_args, leaves)
            launch_all(forward_kernels(func, inner_args))
            if any(wanted):
                ctx.graph = graph
                ctx.save_for_backward(*tensors)
                ctx.kept = state.memory.allocate(_kept_bytes(func, inner_args))
            results = tuple(wrap(out.detach(), state.memory) for out in graph.out)
            used(tensors, results)
            if state.tape is not None:
                state.tape.repeats(graph.repeated([out.within for out in results]), results)
            return results
        finally:
            end()

    @staticmethod
    @eager
    @of_the_device
    def backward(ctx, *grads):
        func, args = ctx.graph.function, ctx.graph.args
        if not args[_place(func, "train")]:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        begin("aten::_cudnn_rnn_backward")
        try:
            saved = ctx.saved_tensors  # raises PyTorch's own error where the graph is gone
            inner_grads = tuple(None if grad is None else grad.within for grad in grads)
            found = ctx.graph.gradients(inner_grads, torch._C._autograd._get_current_graph_task_keep_graph())
            launch_all(backward_kernels(func, args))
            results = [None if grad is None else wrap(grad, state.memory) for grad in found]
            used((grads, saved), results)
            if state.tape is not None:
                inner = [None if each is None else each.within for each in results]
                state.tape.repeats(ctx.graph.repeated_gradients(inner_grads, inner), results)
        finally:
            end()
        if torch.is_grad_enabled():  # create_graph=True
            results = _NoSecond.apply(results, *ctx.saved_tensors)
        return None, None, *results


class _NoSecond(torch.autograd.Function):
    """Gradients by ``tensors`` that have none themselves, as cuDNN's."""

    @staticmethod
    def forward(ctx, grads, *tensors):
        return tuple(None if grad is None else grad.detach() for grad in grads)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("the derivative for '_cudnn_rnn_backward' is not implemented: use "
                           "torch.backends.cudnn.flags(enabled=False) around the forward pass")


@of_the_device
def run(func, args):
    """The recurrent operator ``func``."""
    if torch.is_autocast_enabled("vgpu"):
        args = autocast.cast(args, autocast.lower_dtype())
    if state.link is not None:
        return state.link.fused(func, args)
    return _Rnn.apply(func, args, *_wrappers(args))


def _acceptable(args) -> bool:
    """Whether CUDA would call cuDNN: all tensors on the device, and values in them. The sizes of packed steps stay on the
    host. Anything else (tensors of torch.compile among them) PyTorch takes apart."""
    tensors = [*costs.tensors(args[0]), *costs.tensors(args[2:])] if _packed(args) else costs.tensors(args)
    return (torch.backends.cudnn.enabled and all(type(t) is VirtualTensor for t in tensors) and args[0].numel() > 0)


def _packed(args) -> bool:
    return isinstance(args[1], torch.Tensor) and args[1].device.type == "cpu" and args[1].dtype == torch.int64


def install(library: torch.library.Library) -> None:
    """Catch the operators where autograd begins."""

    def register(func):
        @eager
        def kernel(*args):
            return run(func, args) if _acceptable(args) else func.decompose(*args)

        library.impl(func, kernel, "AutogradPrivateUse1")

    for name in OPERATORS:
        for overload in OVERLOADS:
            register(getattr(getattr(torch.ops.aten, name), overload))
    for name, values in _CELLS.items():  # for torch.compile: PyTorch knows the shapes of an LSTM's alone
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(getattr(torch.ops.aten, name).default, values, "Meta")


@handles(*OPERATORS)
def _without_autograd(operator, args, kwargs):
    return run(operator.func, args) if _acceptable(args) else operator.func.decompose(*args, **kwargs)


# -- cells ----------------------------------------------------------------------------------------

_CELLS: dict[str, Callable] = {}  # operator → its values


def _cell(name: str):
    """Decorator: the function gives the values of the operator ``name``, one pointwise kernel on CUDA."""

    def register(values):
        _CELLS[name] = values
        handles(name)(_fused)
        return values

    return register


def _fused(operator: Operator, args, kwargs):
    values = _CELLS[operator.name]
    inner_args, inner_kwargs, seen = unwrap(operator, args, kwargs)
    if state.shape_only is not None or shapes.has_no_values(inner_args):
        out, _ = shapes.remembered(values, inner_args, inner_kwargs)
    else:
        out = values(*inner_args, **inner_kwargs)
    launch_all([Kernel(f"{operator.name.strip('_')}_kernel", "pointwise", costs.traffic(inner_args, inner_kwargs, out))],
               inner_args, out)
    return wrap_results(operator, out, seen, args)


def _sum(*terms):
    present = [term for term in terms if term is not None]
    total = present[0]
    for term in present[1:]:
        total = total + term
    return total


@_cell("_thnn_fused_lstm_cell")
def _lstm_cell(from_input, from_hidden, cx, bias_input=None, bias_hidden=None):
    i, f, g, o = _sum(from_input, from_hidden, bias_input, bias_hidden).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


@_cell("_thnn_fused_lstm_cell_backward_impl")
def _lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    i, f, g, o = workspace.chunk(4, 1)
    t = cy.tanh()
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = _sum(grad_hy * o * (1 - t * t), grad_cy)
    gates = torch.cat([grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g),
                       grad_hy * t * o * (1 - o)], 1)
    return gates, grad_c * f, gates.sum(0) if has_bias else None


@_cell("_thnn_fused_gru_cell")
def _gru_cell(from_input, from_hidden, hx, bias_input=None, bias_hidden=None):
    ir, iz, i_new = _sum(from_input, bias_input).chunk(3, 1)
    hr, hz, h_new = _sum(from_hidden, bias_hidden).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (i_new + r * h_new).tanh()
    return new + z * (hx - new), torch.cat([r, z, new, hx, h_new], 1)


@_cell("_thnn_fused_gru_cell_backward")
def _gru_cell_backward(grad_hy, workspace, has_bias):
    r, z, new, hx, h_new = workspace.chunk(5, 1)
    grad_new = grad_hy * (1 - z) * (1 - new * new)
    grad_r = grad_new * h_new * r * (1 - r)
    grad_z = grad_hy * (hx - new) * z * (1 - z)
    to_input = torch.cat([grad_r, grad_z, grad_new], 1)
    to_hidden = torch.cat([grad_r, grad_z, grad_new * r], 1)
    biases = (to_input.sum(0), to_hidden.sum(0)) if has_bias else (None, None)
    return to_input, to_hidden, grad_hy * z, *biases


@handles("_pack_padded_sequence")
def _pack(operator, args, kwargs):
    # Lengths are the host's, and the sizes of the steps that they give stay there (ATen, PackedSequence.cpp).
    # Steps of one size are made contiguous together, where not the whole batch is among them; then all are joined.
    check_wanted(operator.func, args)
    (inner, *_), _, _ = unwrap(operator, args[:1], {})
    data, sizes = operator.func(inner, *args[1:], **kwargs)
    found = sizes.tolist()
    for size in sorted(set(found), reverse=True):
        if size < found[0]:
            moved = 2 * size * found.count(size) * (costs.nbytes(data) // max(data.shape[0], 1))
            launch_all([Kernel("elementwise_kernel(copy_)", "pointwise", moved)])
    launch_all([Kernel("CatArrayBatchedCopy", "pointwise", 2 * costs.nbytes(data))], (data,), data)
    return wrap(data, state.memory), sizes
