"""Packed sequences: lengths are the host's, and the sizes of the steps that they give stay there (ATen,
``PackedSequence.cpp``)."""

from __future__ import annotations

from ..core.dispatch import handles, launch_all, unwrap
from ..core.operands import check_wanted
from ..core.tensor import wrap
from ..hardware.kernels import costs
from ..process.state import state


@handles("_pack_padded_sequence")
def _pack(operator, args, kwargs):
    # Steps of one size are made contiguous together, where not the whole batch is among them; then all are joined.
    check_wanted(operator.func, args)
    (inner, *_), _, _ = unwrap(operator, args[:1], {})
    data, sizes = operator.func(inner, *args[1:], **kwargs)
    found = sizes.tolist()
    for size in sorted(set(found), reverse=True):
        if size < found[0]:
            moved = 2 * size * found.count(size) * (costs.nbytes(data) // max(data.shape[0], 1))
            launch_all([costs.Kernel("elementwise_kernel(copy_)", "pointwise", moved)])
    launch_all([costs.Kernel("CatArrayBatchedCopy", "pointwise", 2 * costs.nbytes(data))], (data,), data)
    return wrap(data, state.memory), sizes
