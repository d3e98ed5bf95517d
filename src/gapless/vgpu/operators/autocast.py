"""Autocast on the virtual GPU: the casts that ``torch.autocast("cuda")`` makes, operator by operator.

The tables follow PyTorch's "CUDA Ops" lists (documentation of ``torch.amp``, "Autocast Op Reference"; ATen,
``autocast_mode.h``). A test compares them with the operators that PyTorch itself registers for CUDA. What is in
no table runs in the dtypes that it is given.
"""

from __future__ import annotations

import functools
import weakref

import torch

from ..process.eager import eager
from ..process.state import NAME

KEY = "AutocastPrivateUse1"

# In the lower precision (``dtype`` of the autocast).
LOWER = """
    _convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution prelu
    matmul mm mv bmm baddbmm addmm addmv addr addbmm linear linalg_vecdot linalg_multi_dot chain_matmul einsum
    lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _thnn_fused_lstm_cell _thnn_fused_gru_cell
    scaled_dot_product_attention _scaled_dot_product_flash_attention
""".split()

# In float32: a wide range of values, or many summands.
FLOAT32 = """
    acos asin cosh sinh tan erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt softplus
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar
    layer_norm native_layer_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim renorm logsumexp
    cosine_similarity dist pdist cdist
    poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
    upsample_bicubic2d _upsample_bicubic2d_aa
""".split()

# With a result in float32, unless the program names a dtype: these take one.
FLOAT32_RESULT = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
""".split()

# The same, where another overload takes the dtype: overload → that overload.
FLOAT32_OVERLOAD = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}

# In the widest dtype among the arguments.
WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()

# In float32 too, in newer versions of PyTorch.
NEWER_FLOAT32 = ("rms_norm", "linalg_matrix_sqrth")

REFUSED = "binary_cross_entropy"

# Parameter (by its id) → (weak reference to it, its lower-precision copy): a weight is cast once in a region.
_copies: dict[int, tuple[weakref.ref, torch.Tensor]] = {}


def _eligible(value) -> bool:
    return (isinstance(value, torch.Tensor) and value.device.type == NAME and value.is_floating_point()
            and value.dtype != torch.float64)


def cast(value, dtype: torch.dtype):
    """``value``, or the tensors in it if it is a list, converted to ``dtype`` where autocast may."""
    if _eligible(value):
        if value.dtype == dtype:
            return value
        keep = (dtype == lower_dtype() and value.dtype == torch.float32 and value.requires_grad and value.is_leaf
                and not value._is_view() and torch.is_autocast_cache_enabled())
        if not keep:
            return value.to(dtype)
        known = _copies.get(id(value))
        if known is None or known[0]() is not value:
            known = _copies[id(value)] = (weakref.ref(value), value.to(dtype))
        return known[1]
    if type(value) in (list, tuple):
        return type(value)([cast(item, dtype) for item in value])
    return value


def lower_dtype() -> torch.dtype:
    """The dtype that the autocast region asks for."""
    return torch.get_autocast_dtype(NAME)


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from _tensors(value)


def _lower(func, args, kwargs):
    dtype = lower_dtype()
    return func(*cast(args, dtype), **{name: cast(value, dtype) for name, value in kwargs.items()})


def _float32(func, args, kwargs):
    return func(*cast(args, torch.float32), **{name: cast(value, torch.float32) for name, value in kwargs.items()})


def _float32_result(func, args, kwargs):
    place = next(i for i, argument in enumerate(func._schema.arguments) if argument.name == "dtype")
    given = args[place] if len(args) > place else kwargs.get("dtype")
    if given is not None or not _eligible(args[0]):
        return func(*args, **kwargs)
    return func(*args[:place], **{**kwargs, "dtype": torch.float32}) if len(args) <= place else func(
        *args[:place], torch.float32, *args[place + 1:], **kwargs)


def _float32_overload(name: str):
    other = getattr(torch.ops.aten.norm, FLOAT32_OVERLOAD[name])

    def run(func, args, kwargs):
        if not _eligible(args[0]):
            return func(*args, **kwargs)
        given = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
        return other(**given, dtype=torch.float32)

    return run


def _widest(func, args, kwargs):
    dtype = lower_dtype()
    for tensor in _tensors((*args, *kwargs.values())):
        if _eligible(tensor) and tensor.dtype == torch.float32:
            dtype = torch.float32
    return func(*cast(args, dtype), **{name: cast(value, dtype) for name, value in kwargs.items()})


def _refused(func, args, kwargs):
    raise RuntimeError("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: leave the "
                       "sigmoid out and use binary_cross_entropy_with_logits or BCEWithLogitsLoss")


def _overload(name: str):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _forget_copies(original):
    """``torch.clear_autocast_cache``, which PyTorch calls at the end of a region, that forgets the copies here too."""

    @functools.wraps(original)
    def clear() -> None:
        _copies.clear()
        original()

    return clear


def cuda_casts(name: str) -> bool:
    """Whether this PyTorch has the operator and casts for it on CUDA."""
    name = f"aten::{name}"
    return torch._C._dispatch_has_kernel(name) and torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCUDA")


def rules() -> dict:
    """Name of the operator → how autocast calls it: a function of (operator, args, kwargs)."""
    found = {}
    for rule, names in ((_lower, LOWER), (_float32, FLOAT32), (_float32_result, FLOAT32_RESULT), (_widest, WIDEST)):
        found.update(dict.fromkeys(names, rule))
    found.update({name: _float32 for name in NEWER_FLOAT32 if cuda_casts(name)})
    found.update({name: _float32_overload(name) for name in FLOAT32_OVERLOAD})
    found[REFUSED] = _refused
    return found


def install() -> list[torch.library.Library]:
    """Register the casts. The registrations last as long as what is returned."""
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, KEY)
    aten = torch.library.Library("aten", "IMPL")
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))

    def register(name, rule):
        func = _overload(name)

        @eager
        def kernel(*args, **kwargs):
            with torch._C._ExcludeDispatchKeyGuard(key):
                return rule(func, args, kwargs)

        aten.impl(func, kernel, KEY)

    for name, rule in rules().items():
        register(name, rule)
    torch.clear_autocast_cache = _forget_copies(torch.clear_autocast_cache)
    return [everything, aten]
