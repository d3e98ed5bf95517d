"""What the virtual GPU does not do, why, and what to do instead. Each is an error that says so, unless the reason says
otherwise; a test tries each."""

from __future__ import annotations

import torch

from ..process.state import DEVICE

UNSUPPORTED: dict[str, str] = {
    "sparse tensors of another layout than COO":
        "PyTorch makes no wrapper for CSR, CSC, BSR and BSC: stay with torch.sparse_coo_tensor, or .to_dense()",
    "operators of sparse tensors that have no rule":
        "CUDA's kernels and waits are written down for those that programs use: .to_dense(), or compute it on the .cpu()",
    "sparse tensors in vgpu.shape_only()":
        "how many elements there are is a matter of values: small sizes with values, or a dense tensor",
    "checks of values in vgpu.shape_only()":
        "they find zeros, so what asks whether all is well raises its own error: "
        "torch.distributions.Distribution.set_default_validate_args(False)",
    "sparse tensors on a device in another process":
        "only dense ones go over the wire: nn.Embedding(sparse=False), .to_dense()",
    "nested tensors of the strided layout":
        "they are there for nn.TransformerEncoder in eval mode only: layout=torch.jagged",
    "nested tensors in vgpu.shape_only()":
        "their sizes are a matter of values: nn.TransformerEncoder(…, enable_nested_tensor=False)",
    "tensor classes with a __torch_dispatch__, made by as_subclass":
        "two dispatches in one tensor: let the class hold tensors of the device (torch.Tensor._make_wrapper_subclass)",
    "DLPack":
        "there is no memory that another library could read: .cpu() first",
    "NumPy without a copy":
        "the same, as on CUDA: .cpu() first, or .numpy(force=True)",
    "a second device":
        "each process has one card, vgpu:0 on every rank: torch.device(\"vgpu\", 0), device_ids=[0]",
    "moving the data of a tensor that a graph or other tensors hold":
        "tensor.data = tensor.data.cpu() moves none of the others, nor FullyShardedDataParallel what it offloads to the "
        "CPU: .to(), or fully_shard(…, offload_policy=CPUOffloadPolicy()) and get_model_state_dict",
    "rare collectives where the device is at the other end of a link":
        "among the ranks of a graded cell there are all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor and "
        "barrier, of the group of all: others outside a graded cell",
    "DistributedDataParallel(mixed_precision=…)":
        "no error but a warning: in the first backward pass PyTorch sums memory that nobody has written, on CUDA too: drop "
        "that pass's gradients, or torch.autocast",
    "a second PrivateUse1 backend":
        "PyTorch allows one a process: start a new process",
    "another card while a profile records":
        "the clocks would start again: change the card before or after it",
    "the device in a forked process":
        "an error on CUDA too: the 'spawn' start method (DataLoader: multiprocessing_context='spawn'), or CPU tensors there",
    "memory shared between processes":
        "there is none to share: a tensor or storage that is sent goes as its values, and changes there are not seen here",
    "saving TorchScript modules of the device":
        "C++ would read memory that is not there: .cpu() first. torch.jit.load(map_location=\"vgpu\") works",
    "memory that untyped_storage().resize_() has taken away":
        "an illegal access on CUDA: give the storage its bytes back before the next use",
    "events of another process":
        "the clocks are a process's own",
    "the backward pass of cuDNN's RNN in eval mode":
        "an error on CUDA too: call .train() on the layer, or torch.backends.cudnn.flags(enabled=False)",
    "second derivatives of cuDNN's RNN":
        "an error on CUDA too: torch.backends.cudnn.flags(enabled=False)",
    "a CPU generator for values of the device":
        'an error on CUDA too: torch.Generator(device="vgpu")',
    "pinning what is on the device":
        "an error on CUDA too: only dense CPU tensors can be pinned",
}

# Keys of tensors that are not dense → what they are.
_NOT_DENSE = {"SparseCsrPrivateUse1": "sparse", "NestedTensorPrivateUse1": "strided nested",
              "QuantizedPrivateUse1": "quantized"}
_INSTEAD = {"strided nested": "layout=torch.jagged"}


def _refusing(kind: str):
    def refuse(operator, *args, **kwargs):
        raise NotImplementedError(f"{kind} tensors are not supported on {DEVICE}: use "
                                  f"{_INSTEAD.get(kind, 'a dense one')} ({operator})")

    return refuse


def _to_dlpack(original):
    def to_dlpack(tensor, *args, **kwargs):
        """A DLPack capsule of ``tensor``."""
        if tensor.device.type == DEVICE.type:
            tensor.__dlpack__()  # raises
        return original(tensor, *args, **kwargs)

    return to_dlpack


def install() -> list[torch.library.Library]:
    """Register the refusals that no other place makes. They last as long as what is returned."""
    everything = torch.library.Library("_", "IMPL")
    for key, kind in _NOT_DENSE.items():
        everything.fallback(_refusing(kind), key)
    for name in ("_to_dlpack", "_to_dlpack_versioned"):  # which the methods call
        if hasattr(torch._C, name):
            setattr(torch._C, name, _to_dlpack(getattr(torch._C, name)))
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = _to_dlpack(torch.utils.dlpack.to_dlpack)
    return [everything]
