"""What the virtual GPU does not do, why, and what to do instead. Each is an error that says so, unless the reason says
otherwise; a test tries each."""

from __future__ import annotations

import torch

from .tensor import DEVICE

UNSUPPORTED: dict[str, str] = {
    "sparse tensors":
        "the wrapper around the values has sizes and strides only: use a dense tensor, nn.Embedding(sparse=False)",
    "nested tensors":
        "the same; nn.TransformerEncoder makes them in eval mode of a padding mask: enable_nested_tensor=False",
    "lazy modules on the device":
        "their parameters are of a type that PyTorch cannot give to a wrapper: make the module on the CPU, run it once, "
        "then move it",
    "DLPack":
        "there is no memory that another library could read: .cpu() first",
    "NumPy without a copy":
        "the same, as on CUDA: .cpu() first, or .numpy(force=True)",
    "a second device":
        "one card is modelled: vgpu:0",
    "a second PrivateUse1 backend":
        "PyTorch allows one a process: start a new process",
    "another card while a profile records":
        "the clocks would start anew: change the card before or after it",
    "the device in a forked process":
        "an error on CUDA too: the 'spawn' start method (DataLoader: multiprocessing_context='spawn'), or CPU tensors there",
    "tensors of a program's own class":
        "the device's tensors have a class of their own (torchvision's tv_tensors too): use them on the CPU, and move "
        "x.as_subclass(torch.Tensor)",
    "memory shared between processes":
        "there is none to share: a tensor or storage that is sent goes as its values, and changes there are not seen here",
    "saving TorchScript modules of the device":
        "C++ would read memory that is not there: .cpu() first. torch.jit.load(map_location=\"vgpu\") works",
    "memory that untyped_storage().resize_() has taken away":
        "an illegal access on CUDA: give the storage its bytes back before the next use",
    "events of another process":
        "the clocks are a process's own",
    "fullgraph=True of torch.compile":
        "Dynamo takes no tensor class with a dispatch of its own as an input. Without it torch.compile runs the program as "
        "it is written, with the same values and times as uncompiled: no backend's fusion is modelled",
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
_NOT_DENSE = {"SparsePrivateUse1": "sparse", "SparseCsrPrivateUse1": "sparse", "NestedTensorPrivateUse1": "nested",
              "QuantizedPrivateUse1": "quantized"}


def _refusing(kind: str):
    def refuse(operator, *args, **kwargs):
        raise NotImplementedError(f"{kind} tensors are not supported on {DEVICE}: use a dense one ({operator})")

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
