"""CTC loss: its lengths are the host's.

Those in tensors of the device are read first. ATen's own kernels get theirs by three copies, forward and backward: the
lengths of inputs and of targets, and where each target begins (ATen, ``LossCTC.cpp``, ``ctc_loss``, and
``cuda/LossCTC.cu``, ``ctc_loss_gpu_template``).
"""

from __future__ import annotations

import torch

from .dispatch import COMPOSITE_HANDLED, handles, of_the_device, run
from .eager import eager
from .state import state
from .tensor import VirtualTensor

_lists = torch.ops.aten.ctc_loss.IntList
_tensors = torch.ops.aten.ctc_loss.Tensor

COMPOSITE_HANDLED.add("ctc_loss")


def _on_host(lengths):
    return lengths.cpu().tolist() if isinstance(lengths, torch.Tensor) else lengths


@of_the_device
@eager
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, *rest, **options):
    if not isinstance(log_probs, VirtualTensor):  # a tensor of torch.compile
        return _tensors.decompose(log_probs, targets, input_lengths, target_lengths, *rest, **options)
    return _lists(log_probs, targets, _on_host(input_lengths), _on_host(target_lengths), *rest, **options)


@handles("ctc_loss")
def _without_autograd(operator, args, kwargs):
    return _ctc_loss(*args, **kwargs) if operator.func is _tensors else operator.func.decompose(*args, **kwargs)


def _native(places: slice, with_lists):
    """The handler of ATen's kernel, whose lengths stand at ``places``. ``with_lists``: the overload that takes lists."""

    def handler(operator, args, kwargs):
        if operator.func is not with_lists:
            args = (*args[:places.start], *map(_on_host, args[places]), *args[places.stop:])
            return with_lists(*args, **kwargs)
        for _ in range(3):
            state.timeline.copy("HtoD", 8 * len(args[places.start]), pinned=False, blocking=True)
        return run(operator, args, kwargs)

    return handler


handles("_ctc_loss")(_native(slice(2, 4), torch.ops.aten._ctc_loss.default))
handles("_ctc_loss_backward")(_native(slice(3, 5), torch.ops.aten._ctc_loss_backward.default))


def install(library: torch.library.Library) -> None:
    """Catch the operator where autograd begins."""
    library.impl(_tensors, _ctc_loss, "AutogradPrivateUse1")
