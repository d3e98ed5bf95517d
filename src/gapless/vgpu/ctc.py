"""CTC loss with its lengths in tensors: the host reads them first, as for CUDA (ATen, ``LossCTC.cpp``, ``ctc_loss``)."""

from __future__ import annotations

import torch

from .dispatch import COMPOSITE_HANDLED, handles, of_the_device
from .eager import eager
from .tensor import VirtualTensor

_lists = torch.ops.aten.ctc_loss.IntList
_tensors = torch.ops.aten.ctc_loss.Tensor

COMPOSITE_HANDLED.add("ctc_loss")


@of_the_device
@eager
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, *rest, **options):
    if not isinstance(log_probs, VirtualTensor):  # a tensor of torch.compile
        return _tensors.decompose(log_probs, targets, input_lengths, target_lengths, *rest, **options)
    lengths = [lengths.cpu().tolist() for lengths in (input_lengths, target_lengths)]
    return _lists(log_probs, targets, *lengths, *rest, **options)


@handles("ctc_loss")
def _without_autograd(operator, args, kwargs):
    return _ctc_loss(*args, **kwargs) if operator.func is _tensors else operator.func.decompose(*args, **kwargs)


def install(library: torch.library.Library) -> None:
    """Catch the operator where autograd begins."""
    library.impl(_tensors, _ctc_loss, "AutogradPrivateUse1")
