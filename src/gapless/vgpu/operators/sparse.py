"""Sparse COO tensors on the virtual GPU.

The values are those of a sparse CPU tensor; kernels and waits are CUDA's (:mod:`..hardware.kernels.sparse`). Sums of two
sparse tensors are put one after the other, as on CUDA, where the CPU merges them.
"""

# mypy: disable-error-code="arg-type, attr-defined"
# Redefines a class of PyTorch's: its methods are more than the stubs name, and take other tensors.
from __future__ import annotations

from collections.abc import Callable

import torch

from ..core.dispatch import COMPOSITE_HANDLED, Operator, _dispatch, aside, handles, launch_all, read_back, unwrap, used
from ..core.dispatch import dispatch as dense_dispatch
from ..core.tensor import KINDS, VirtualTensor, wrap
from ..hardware.kernels import costs
from ..hardware.kernels import sparse as plans
from ..process import forks, lazy_bits
from ..process.eager import eager
from ..process.state import DEVICE, state
from .copies import _copy_in, _copy_out, aten, nonzero

NUMBERS_BYTES = 64  # of a few numbers that the host sends


class SparseTensor(VirtualTensor):
    """A sparse COO tensor on ``vgpu:0``. ``inner``: a sparse CPU tensor. ``parts``: its indices and values on the device.

    Raises NotImplementedError where there are no values."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        if inner.is_meta:
            raise NotImplementedError("sparse tensors are not supported in vgpu.shape_only(): use a dense one")
        self = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, layout=inner.layout, device=DEVICE)
        self.allocation = self.density = None
        self.holds(inner)
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    @eager
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    def holds(self, inner: torch.Tensor) -> None:
        """Have the values of ``inner`` from now on."""
        self.within = inner
        self.parts = wrap(inner._indices(), state.memory), wrap(inner._values(), state.memory)

    @property
    def data(self) -> torch.Tensor:
        """The tensor outside autograd; assigning gives this tensor the other's values."""
        return torch._C.TensorBase.data.__get__(self)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        torch._C.TensorBase.data.__set__(self, other)
        self.holds(other.within)

    def __repr__(self, *, tensor_contents=None):
        text = repr(self.detach().cpu())  # two read-backs
        return f"{text.rpartition('layout=')[0]}device='{DEVICE}', layout={text.rpartition('layout=')[2]}"

    def __reduce_ex__(self, protocol):
        return (torch._utils._rebuild_sparse_tensor,
                (self.layout, (self._indices(), self._values(), self.size(), self.is_coalesced())))

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be deep-copied: call .detach() first")
        if id(self) not in memo:
            memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return memo[id(self)]

    def record_stream(self, stream) -> None:
        """See :meth:`VirtualTensor.record_stream`."""
        for part in self.parts:
            part.record_stream(stream)


# Operator → how it is done on tensors of which one is sparse.
RULES: dict[str, Callable] = {}

_known: dict = {}


def rule(*names: str):
    """Decorator: the function does these operators (names without ``aten::``) where an argument is sparse."""

    def register(function):
        for name in names:
            RULES[name] = function
        return function

    return register


def dispatch(func, args, kwargs):
    """Run ``func`` on arguments of which one is sparse. Raises NotImplementedError for an operator that has no rule."""
    operator = _known.get(func)
    if operator is None:
        operator = _known[func] = Operator(func)
        operator.handler = _handle
        # These say what a tensor is, and take the host no longer than a view.
        operator.is_view = operator.is_view or operator.name in _OF_FORM
    if operator.composite:
        return func.decompose(*args, **kwargs)
    if state.link is not None:
        raise NotImplementedError(f"{operator.full_name}: sparse tensors are not supported on a {DEVICE} in another "
                                  "process: use a dense one")
    return _dispatch(operator, args, kwargs) if state.counting is None else aside(_dispatch, operator, args, kwargs)


@eager
def call(func, *args, **kwargs):
    """Where PyTorch switches Python dispatch off: an operator on sparse tensors, or one that makes one."""
    given = costs.tensors(args, kwargs)
    return (dispatch if any(isinstance(each, SparseTensor) for each in given) else dense_dispatch)(func, args, kwargs)


def _handle(operator, args, kwargs):
    does = RULES.get(operator.name)
    if does is None:
        raise NotImplementedError(f"{operator.full_name} of a sparse tensor is not supported on {DEVICE}: take .to_dense(), "
                                  "or compute it on the .cpu()")
    if state.forked:
        forks.refuse()
    unseen = lazy_bits.see()
    try:
        result = does(operator, args, kwargs)
    finally:
        if unseen:
            lazy_bits.unsee()
    if state.watched and not operator.is_view:
        used(_parts((args, kwargs)), _parts(result))
    return result


def _parts(tree) -> list[torch.Tensor]:
    return [part for tensor in costs.tensors(tree) for part in getattr(tensor, "parts", (tensor,))]


def wrapped(inner: torch.Tensor) -> VirtualTensor:
    """The tensor of the device around ``inner``. Raises NotImplementedError for layouts other than COO."""
    return wrap(inner, state.memory)


KINDS[torch.sparse_coo] = SparseTensor


def play(plan: plans.Plan, args: tuple = (), out=None) -> None:
    """Launch the kernels of ``plan``, and wait where it waits."""
    for step in plan:
        if step == plans.WAIT:
            state.timeline.synchronize_stream()
        elif step == plans.READ:
            read_back()
        elif step in (plans.UPLOAD, plans.SENT):
            state.timeline.copy("HtoD", NUMBERS_BYTES, pinned=False, blocking=step == plans.UPLOAD)
        else:
            launch_all([step], args, out)


def _coalesced(inner: torch.Tensor) -> torch.Tensor:
    """``inner``, coalesced, with the time that it takes."""
    if inner.is_coalesced():
        return inner
    found = inner.coalesce()
    play(plans.coalesced(inner, found))
    return found


def _on_values(name: str, args, kwargs, out) -> None:
    """The kernels of the operator ``name`` on the values of sparse arguments, giving the values of ``out``."""
    given, found = _values(args), _values(out)
    launch_all(costs.kernels(name, given, _values(kwargs), found), given, found)


def _values(tree):
    if isinstance(tree, torch.Tensor):
        return tree if tree.layout is torch.strided else tree._values()
    if isinstance(tree, (list, tuple)):
        return type(tree)(_values(each) for each in tree)
    if isinstance(tree, dict):
        return {name: _values(each) for name, each in tree.items()}
    return tree


def _finish(operator, args, kwargs, out):
    """The result for the program. What was written in place is the argument that it was."""
    if not operator.mutates:
        return tuple(map(wrapped, out)) if isinstance(out, (tuple, list)) else wrapped(out)
    target = operator.written_of(args, kwargs)[0]
    if isinstance(target, SparseTensor):
        target.holds(out)
    return target


# -- what a tensor is ---------------------------------------------------------------------------------

_OF_FORM = ("sparse_dim", "dense_dim", "_nnz", "is_coalesced", "_dimI", "_dimV", "is_same_size", "is_pinned")


@rule(*_OF_FORM)
def _form(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    return operator.func(*inner_args, **inner_kwargs)


@rule("_indices", "_values", "indices", "values", "detach", "alias")
def _view(operator, args, kwargs):
    return wrapped(operator.func(args[0].within))


@rule("_coalesced_")
def _say_coalesced(operator, args, kwargs):
    args[0].within._coalesced_(*args[1:])
    return args[0]


# -- making -------------------------------------------------------------------------------------------


@handles("_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_unsafe")
def _make(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    return wrapped(operator.func(*inner_args, **inner_kwargs))


COMPOSITE_HANDLED.add("_validate_sparse_coo_tensor_args")


@handles("_validate_sparse_coo_tensor_args")
def _validate(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    operator.func(*inner_args, **inner_kwargs)
    indices = inner_args[0]
    if indices.numel():  # the least and the largest of each dimension (ATen, SparseTensor.cpp)
        launch_all([costs.Kernel("reduce_kernel(min)", "reduction", costs.nbytes(indices), work=tuple(indices.shape)),
                    costs.Kernel("reduce_kernel(max)", "reduction", costs.nbytes(indices), work=tuple(indices.shape))])
        play([plans.READ, plans.READ])
    if indices.numel() and (inner_args[3:4] or [inner_kwargs.get("is_coalesced")])[0]:
        play([*plans.flattened(indices), *plans.copied(indices[0]), plans.READ])  # whether they are in order


@handles("_to_sparse")
def _to_sparse(operator, args, kwargs):
    dense = args[0]
    (inner, *given), options, _ = unwrap(operator, args, kwargs)
    if inner.is_meta or options.get("layout") not in (None, torch.sparse_coo):
        return wrapped(operator.func(inner, *given, **options))  # raises
    nonzero(dense)
    out = operator.func(inner, *given, **options)
    if out._nnz():
        found = out._indices()
        if out.dense_dim():
            launch_all(costs.kernels("unique_dim", (found, 1), {}, (found,)))
            play([plans.WAIT, plans.READ])
        play(plans.copied(found))
        launch_all(costs.kernels("index", (inner, list(found)), {}, out._values()))
        play(plans.copied(out._values()))
    return wrapped(out)


@handles("_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc", "sparse_compressed_tensor")
@rule("_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc")
def _to_another_layout(operator, args, kwargs):
    raise NotImplementedError(f"{operator.full_name}: of the sparse layouts {DEVICE} has COO: use .to_sparse()")


@rule("_to_sparse")
def _again(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    return wrapped(operator.func(*inner_args, **inner_kwargs))


@rule("zeros_like", "empty_like", "new_zeros", "new_empty")
def _like(operator, args, kwargs):
    given = {name: value for name, value in kwargs.items() if value is not None and name != "device"}
    (inner, *size), options, _ = unwrap(operator, args, given)
    out, device = operator.func(inner, *size, **options), kwargs.get("device") or DEVICE
    return wrapped(out) if device.type == DEVICE.type else out


# -- copies -------------------------------------------------------------------------------------------


@rule("_to_copy")
def _to_copy(operator, args, kwargs):
    source = args[0].within
    options = {name: value for name, value in kwargs.items() if value is not None and name not in ("device", "non_blocking")}
    device = kwargs.get("device")
    if device is None or device.type == DEVICE.type:
        out = operator.func(source, **options)
        play([*plans.copied(out._indices()), *plans.copied(out._values())])
        return wrapped(out)
    return _on_the_host(source, bool(kwargs.get("non_blocking"))).to(options.get("dtype"))


def _on_the_host(source: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    indices, values = (_copy_out(part, non_blocking, False)[0] for part in (source._indices(), source._values()))
    return torch.sparse_coo_tensor(indices, values, source.shape, is_coalesced=source.is_coalesced(), check_invariants=False)


@rule("copy_", "copy_sparse_to_sparse_")
def _copy_(operator, args, kwargs):
    target, source, *rest = args
    non_blocking = bool(rest[0]) if rest else kwargs.get("non_blocking", False)
    if not isinstance(target, VirtualTensor):
        return target.copy_(_on_the_host(source.within, non_blocking))
    if isinstance(source, VirtualTensor):
        target.within.copy_(source.within)
        if isinstance(target, SparseTensor):
            play([*plans.copied(target.within._indices()), *plans.copied(target.within._values())])
    else:
        target.within.copy_(source)
        for part in (target.within._indices(), target.within._values()):
            _copy_in(part, part, non_blocking)
    target.holds(target.within)
    return target


@rule("clone")
def _clone(operator, args, kwargs):
    out = operator.func(args[0].within, **kwargs)
    play([*plans.copied(out._indices()), *plans.copied(out._values())])
    return wrapped(out)


# -- elements: what is done is done to the values -----------------------------------------------------


@rule("mul", "div", "neg", "mul_", "div_", "neg_", "isnan", "_conj", "_conj_physical", "conj_physical", "resolve_conj",
      "resolve_neg", "true_divide")
def _elementwise(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    sparse = [a for a in inner_args if isinstance(a, torch.Tensor) and a.dim()]
    if operator.name == "mul" and len(sparse) == 2:
        return _times(operator, args, kwargs, sparse)
    out = operator.func(*inner_args, **inner_kwargs)
    if not operator.mutates:
        play(plans.copied(out._indices()))
    _on_values(operator.name, inner_args, inner_kwargs, out)
    return _finish(operator, args, kwargs, out)


def _times(operator, args, kwargs, operands):
    out = operator.func(*operands)
    left, right = operands
    if left.layout is right.layout:
        play(plans.intersected(left, right, out))
    else:
        play(plans.masked(right, left) if right.layout is torch.strided else plans.masked(left, right))
    return wrapped(out)


# CUDA coalesces before these, as the CPU does (ATen, sparse/SparseUnaryOps.cpp; SparseTensorMath.cpp, pow and norm).
_UNARY = ("abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "frac", "isinf",
          "isneginf", "isposinf", "log1p", "nan_to_num", "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh",
          "sqrt", "tan", "tanh", "threshold_backward", "trunc")


@rule(*_UNARY, *(f"{name}_" for name in _UNARY), "pow")
def _of_each(operator, args, kwargs):
    (inner, *given), inner_kwargs, _ = unwrap(operator, args, kwargs)
    inner = _coalesced(inner)
    given = [_coalesced(a) if isinstance(a, torch.Tensor) and a.layout is torch.sparse_coo else a for a in given]
    out = operator.func(inner, *given, **inner_kwargs)
    if not operator.mutates:
        play(plans.copied(out._indices()))
    _on_values(operator.name, (inner, *given), inner_kwargs, out)
    return _finish(operator, args, kwargs, out)


@rule("norm", "linalg_vector_norm", "native_norm")
def _norm(operator, args, kwargs):
    inner = _coalesced(args[0].within)
    out = operator.func(inner, *args[1:], **kwargs)
    _on_values("norm", (inner,), {}, out)
    return wrapped(out)


@rule("zero_")
def _zero(operator, args, kwargs):
    return _finish(operator, args, kwargs, args[0].within.zero_())


@rule("sparse_resize_", "sparse_resize_and_clear_")
def _resize(operator, args, kwargs):
    target, *given = args
    resized = SparseTensor(operator.func(target.within.clone(), *given, **kwargs))
    with torch._C._DisableTorchDispatch():
        target.data = resized
    return target


@rule("any", "sum")
def _over_all(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    out = operator.func(*inner_args, **inner_kwargs)
    _on_values(operator.name, inner_args, inner_kwargs, out)
    return wrapped(out)


# -- coalesce, dense and back -------------------------------------------------------------------------


@rule("_coalesce")
def _coalesce(operator, args, kwargs):
    return wrapped(_coalesced(args[0].within))


@rule("_to_dense")
def _to_dense(operator, args, kwargs):
    inner = args[0].within
    out = operator.func(inner, *args[1:], **kwargs)
    launch_all(costs.kernels("zeros", (), {}, out))
    play(plans.added_to_dense(out, inner, in_place=True))
    return wrapped(out)


@rule("sparse_mask", "_sparse_mask_projection")
def _mask(operator, args, kwargs):
    (source, mask, *given), inner_kwargs, _ = unwrap(operator, args, kwargs)
    out = operator.func(source, mask, *given, **inner_kwargs)
    if source.layout is torch.strided:
        play(plans.masked(source, mask))
    elif out is not source:
        play(plans.intersected(source, mask, out))
    return wrapped(out)


# -- sums ---------------------------------------------------------------------------------------------


@rule("add", "add_", "sub", "sub_")
def _add(operator, args, kwargs):
    (left, right), options, _ = unwrap(operator, args, kwargs)
    alpha = options.get("alpha", 1) * (-1 if operator.name.startswith("sub") else 1)
    if not isinstance(right, torch.Tensor) or (right.dim() == 0 and left.dim()):
        raise NotImplementedError(f"{operator.full_name}: a number cannot be added to a sparse tensor, as on CUDA: add it "
                                  "to the .values()")
    if left.layout is torch.strided or right.layout is torch.strided:
        dense, sparse = (left, right) if left.layout is torch.strided else (right, left)
        out = operator.func(left, right, **options)
        play(plans.added_to_dense(dense, sparse, operator.mutates))
        return _finish(operator, args, kwargs, out)
    dtype = operator.func(left._values().flatten()[:0], right._values().flatten()[:0], **options).dtype  # or refused
    return _finish(operator, args, kwargs, _sum(left, right, alpha).to(dtype))


def _sum(left: torch.Tensor, right: torch.Tensor, alpha) -> torch.Tensor:
    if left.shape != right.shape or left.sparse_dim() != right.sparse_dim():
        raise RuntimeError(f"add: sparse tensors of one shape and as many sparse dimensions expected, got "
                           f"{tuple(left.shape)} and {tuple(right.shape)}")
    scaled, dtype = alpha != 1, torch.result_type(left, right)
    added = right.to(dtype)  # before it is scaled: uint8 has no -1
    added = added * alpha if scaled else added
    if not right._nnz() or not left._nnz():
        out = left.to(dtype, copy=True) if not right._nnz() else added.clone()
        play([*plans.copied(out._indices()), *plans.copied(out._values())])
        return out
    indices = torch.cat((left._indices(), right._indices()), 1)
    values = torch.cat((left._values(), added._values()))
    play(plans.added(left, right, scaled))
    out = torch.sparse_coo_tensor(indices, values, left.shape, check_invariants=False)
    return _coalesced(out) if out._nnz() > out.numel() else out


@rule("_sparse_sum")
def _sparse_sum(operator, args, kwargs):
    inner = args[0].within
    out = operator.func(inner, *args[1:], **kwargs)
    _on_values("sum", (inner,), {}, out)
    if out.layout is torch.sparse_coo:
        play(plans.copied(out._indices()))
        play(plans.coalesced(inner, out))
    return wrapped(out)


@rule("_sparse_sum_backward")
def _sparse_sum_backward(operator, args, kwargs):
    (grad, inner, dims), _, _ = unwrap(operator, args, kwargs)
    inner = _coalesced(inner)
    if grad.layout is torch.sparse_coo:
        grad = _coalesced(grad)
    out = operator.func(grad, inner, dims)
    if grad.layout is torch.sparse_coo:
        play(plans.matched(grad, out))
    play([*plans.copied(out._indices()), *plans.copied(out._values())])
    return wrapped(out)


# -- products -----------------------------------------------------------------------------------------


def _resolved(args: tuple) -> list:
    """``args`` without lazy conjugates and negatives, which PyTorch's kernels for these take for what they are made of."""
    return [each.resolve_conj().resolve_neg() if isinstance(each, VirtualTensor) and each.layout is torch.strided else each
            for each in args]


@rule("mm", "addmm", "_sparse_addmm", "mv", "_sparse_mm", "addmm_", "sspaddmm", "hspmm")
def _product(operator, args, kwargs):
    given, args = args, _resolved(args)
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    *_, left, right = [a for a in inner_args if isinstance(a, torch.Tensor)]
    if left.layout is torch.strided:  # dense @ sparse: transposed, as on CUDA
        right, left = left.t(), right.t()
    if right.layout is torch.sparse_coo:
        if operator.name == "mm" and not operator.mutates:
            return _product_of_sparse(operator, args, kwargs)
        raise RuntimeError(f"{operator.full_name}: addmm of two sparse matrices is not supported, as on CUDA: use "
                           "torch.sparse.mm")
    left = _coalesced(left)
    out = operator.func(*inner_args, **inner_kwargs)
    matrix = right if right.dim() == 2 else right.unsqueeze(1)
    if matrix.shape[1]:
        values = out if out.layout is torch.strided else out._values()
        play(plans.product(left, matrix, values.reshape(-1, matrix.shape[1])))
    found = _finish(operator, args, kwargs, out)
    if not operator.mutates:
        return found
    target = operator.written_of(given, kwargs)[0]  # where that is a lazy conjugate, what it is made of was written
    return found if found is target else target.copy_(found)


@rule("bmm")
def _products(operator, args, kwargs):
    inner_args, _, _ = unwrap(operator, _resolved(args), kwargs)
    left, right = inner_args
    left = _coalesced(left)
    out = operator.func(left, right)
    play(plans.product_of_batch(left, right, out))
    return wrapped(out)


@rule("_sparse_sparse_matmul")
def _product_of_sparse(operator, args, kwargs):
    (left, right), _, _ = unwrap(operator, args, kwargs)
    left, right = _coalesced(left), _coalesced(right)
    out = operator.func(left, right)
    play(plans.product_of_sparse(left, right, out))
    return wrapped(out)


# -- softmax ------------------------------------------------------------------------------------------


@rule("_sparse_softmax", "_sparse_log_softmax")
def _softmax(operator, args, kwargs):
    (inner, dim, *given), _, _ = unwrap(operator, args, kwargs)
    inner = _coalesced(inner)
    out = operator.func(inner, dim, *given)
    if dim % inner.dim() >= inner.sparse_dim():
        play(plans.copied(inner._indices()))
        _on_values("_softmax", (inner, -1), {}, out)
    elif inner._nnz():
        play(plans.softmax(inner._indices(), inner._values()))
    return wrapped(out)


@rule("_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data")
def _softmax_backward(operator, args, kwargs):
    (grad, output, dim, inner), _, _ = unwrap(operator, args, kwargs)
    grad, output = _coalesced(grad), _coalesced(output)
    out = operator.func(grad, output, dim, inner)
    if out._nnz():
        play(plans.softmax_backward(output._indices(), output._values()))
    return wrapped(out)


# -- shapes -------------------------------------------------------------------------------------------


@rule("t", "transpose", "permute", "unsqueeze", "squeeze", "view", "reshape", "_reshape_alias", "cat",
      "select", "narrow_copy", "index_select", "narrow")
def _reshape(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    given = [a for a in costs.tensors(inner_args) if a.layout is torch.sparse_coo]
    if operator.name in ("select", "index_select", "narrow_copy", "narrow"):
        play(plans.selected(given[0]))
    out = operator.func(*inner_args, **inner_kwargs)
    if out.layout is torch.sparse_coo:
        play([*plans.copied(out._indices()), *plans.copied(out._values())])
        if operator.name in ("t", "transpose"):
            play(plans.swapped(out._indices()))
    return wrapped(out)


# -- lists --------------------------------------------------------------------------------------------


def _one_by_one(name: str, per_tensor: str):
    """PyTorch takes a list apart that has a sparse tensor in it (ATen, ForeachUtils.h, ``can_use_fast_route``)."""

    @rule(name)
    def each(operator, args, kwargs):
        overload = operator.func._overloadname
        single = getattr(getattr(aten, per_tensor), "Tensor" if overload == "List" else overload)
        found = [single(*[a[place] if isinstance(a, (list, tuple)) else a for a in args], **kwargs)
                 for place in range(len(args[0]))]
        return None if operator.mutates else found


for _name in ("_foreach_mul_", "_foreach_mul", "_foreach_div_", "_foreach_div", "_foreach_neg", "_foreach_add",
              "_foreach_add_"):
    _one_by_one(_name, _name.removeprefix("_foreach_"))


@rule("_foreach_norm")
def _norms(operator, args, kwargs):
    return [aten.norm.Scalar(tensor, *args[1:2]) if isinstance(tensor, SparseTensor) else
            aten.linalg_vector_norm(tensor, *args[1:2]) for tensor in args[0]]


def install(library: torch.library.Library) -> None:
    """Catch where autograd begins what PyTorch would take apart into kernels that only CUDA has."""
    func = aten._validate_sparse_coo_tensor_args.default
    library.impl(func, lambda *args, **kwargs: dense_dispatch(func, args, kwargs), "AutogradPrivateUse1")
