"""CTC loss: its lengths are the host's.

Those in tensors of the device are read first. ATen's own kernels get theirs by three copies, forward and backward: the
lengths of inputs and of targets, and where each target begins (ATen, ``LossCTC.cpp``, ``ctc_loss``, and
``cuda/LossCTC.cu``, ``ctc_loss_gpu_template``). Before them the forward pass reads something back: one wait with lengths of
the host, two with the device's, as counted on an H100 (torch 2.11). cuDNN's kernel, which takes targets on the CPU, waits
five times there.
"""

from __future__ import annotations

import torch

from ..core.dispatch import COMPOSITES, handles, launch_all, of_the_device, read_back, run, unwrap
from ..core.tensor import VirtualTensor, wrap
from ..hardware.kernels import costs
from ..process.eager import eager
from ..process.state import state

aten = torch.ops.aten
_lists, _tensors = aten.ctc_loss.IntList, aten.ctc_loss.Tensor

_MEAN, _SUM = 1, 2  # at::Reduction
_LONGEST_TARGET = 255  # of cuDNN


def _on_host(lengths):
    return lengths.cpu().reshape(-1).tolist() if isinstance(lengths, torch.Tensor) else lengths


def _by_cudnn(log_probs, targets, input_lengths, target_lengths, blank: int) -> bool:
    """ATen, ``cudnn/LossCTC.cpp``, ``_use_cudnn_ctc_loss``."""
    return (torch.backends.cudnn.enabled and blank == 0 and log_probs.dim() == 3 and log_probs.dtype == torch.float32
            and targets.device.type == "cpu" and targets.dtype == torch.int32 and targets.dim() == 1
            and targets.is_contiguous() and all(length == log_probs.shape[0] for length in input_lengths)
            and all(target <= min(length, _LONGEST_TARGET) for target, length in zip(target_lengths, input_lengths)))


@handles("_cudnn_ctc_loss")
def _cudnn_ctc_loss(operator, args, kwargs):
    # One kernel for the loss and its gradient, which is kept for the backward pass.
    log_probs, targets, input_lengths, target_lengths, blank, _, zero_infinity = args
    (inner,), _, _ = unwrap(operator, (log_probs,), {})
    given = (inner, targets.long(), input_lengths, target_lengths)
    loss, alpha = aten._ctc_loss(*given, blank, zero_infinity)
    gradient = aten._ctc_loss_backward(torch.ones_like(loss), *given, loss, alpha, blank, zero_infinity)
    if zero_infinity:
        loss.masked_fill_(loss.isinf(), 0.0)
    for _ in range(5):
        state.timeline.copy("HtoD", 8 * len(input_lengths), pinned=False, blocking=True)
    launch_all([costs.Kernel("ctc_loss_kernel(cudnn)", "pointwise", costs.nbytes(inner) + costs.nbytes(gradient))], (inner,))
    return wrap(loss, state.memory), wrap(gradient, state.memory)


@of_the_device
@eager
def _with_lists(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=_MEAN, zero_infinity=False):
    if not (isinstance(log_probs, VirtualTensor) and not log_probs.within.is_meta
            and _by_cudnn(log_probs, targets, input_lengths, target_lengths, blank)):
        return _lists.decompose(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    loss, _ = aten._cudnn_ctc_loss.default(log_probs, targets, input_lengths, target_lengths, blank,
                                           torch.backends.cudnn.deterministic, zero_infinity)
    if reduction == _MEAN:
        return (loss / torch.tensor(target_lengths, dtype=loss.dtype, device=loss.device).clamp_min(1)).mean()
    return loss.sum() if reduction == _SUM else loss


@of_the_device
@eager
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, *rest, **options):
    if not isinstance(log_probs, VirtualTensor):  # a tensor of torch.compile
        return _tensors.decompose(log_probs, targets, input_lengths, target_lengths, *rest, **options)
    if isinstance(input_lengths, VirtualTensor):
        read_back()
    return _lists(log_probs, targets, _on_host(input_lengths), _on_host(target_lengths), *rest, **options)


COMPOSITES.update({_tensors: _ctc_loss, _lists: _with_lists})


def _native(places: slice, with_lists):
    """The handler of ATen's kernel, whose lengths stand at ``places``. ``with_lists``: the overload that takes lists."""

    def handler(operator, args, kwargs):
        if operator.func is not with_lists:
            args = (*args[:places.start], *map(_on_host, args[places]), *args[places.stop:])
            return with_lists(*args, **kwargs)
        if with_lists is aten._ctc_loss.default:
            read_back()
        for _ in range(3):
            state.timeline.copy("HtoD", 8 * len(args[places.start]), pinned=False, blocking=True)
        return run(operator, args, kwargs)

    return handler


handles("_ctc_loss")(_native(slice(2, 4), aten._ctc_loss.default))
handles("_ctc_loss_backward")(_native(slice(3, 5), aten._ctc_loss_backward.default))


def _gradient_without_values(gradient, log_probs, *rest, **options) -> torch.Tensor:
    """What PyTorch has no shape-only kernel for (ATen, ``cuda/LossCTC.cu``, ``ctc_loss_backward_gpu_template``)."""
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def install(library: torch.library.Library) -> None:
    """Catch the operators where autograd begins."""
    library.impl(aten._ctc_loss_backward.default, _gradient_without_values, "Meta")
    for func, kernel in ((_tensors, _ctc_loss), (_lists, _with_lists)):
        library.impl(func, kernel, "AutogradPrivateUse1")
