"""PyTorch's operator database against the virtual GPU: does an entry give the CPU's values and gradients?

``check(entry, dtype)`` raises where it does not. ``EXCEPTIONS`` lists what is left, with the reason of each.
"""

from __future__ import annotations

import warnings

import torch
from torch.testing._internal import common_cuda
from torch.utils._pytree import tree_leaves

import gapless

# The database asks the machine's GPU what it can. The modelled ones can all of this.
for _ability in ("SM53OrLater", "SM60OrLater", "SM70OrLater", "SM75OrLater", "SM80OrLater"):
    setattr(common_cuda, _ability, True)
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool, "complex64": torch.complex64}

# Uninitialised memory has no value to compare; only shapes, dtypes and devices are.
NO_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# They make tensors where they are told to, and some of their samples do not tell.
FACTORIES = {"arange", "linspace", "logspace"}

# Of ``linalg.lstsq`` (ATen, BatchLinearAlgebra.cpp, ``get_default_lstsq_driver``).
CUDA_DRIVERS = (None, "gels")

# Entry → why it is left out.
EXCEPTIONS: dict[str, str] = {
    "sparse.mm.reduce": "for CSR, which the virtual GPU does not have (unsupported.py)",
    "sparse.sampled_addmm": "for CSR, which the virtual GPU does not have (unsupported.py)",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "for the CPU; the virtual GPU has what CUDA has",
    "tensor_split": "PyTorch wants its tensor of indices on the CPU, on CUDA too; the samples move it to the device",
    "to": "its samples move the tensor to the CPU, where it then is",
}


def entries(dtype: torch.dtype) -> list[str]:
    """The entries that the CPU and CUDA support for ``dtype``, each as ``name`` or ``name.variant``."""
    return [full_name(op) for op in op_db if dtype in op.supported_dtypes("cpu") & op.supported_dtypes("cuda")]


def full_name(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def find(name: str):
    """The entry of that name."""
    return next(op for op in op_db if full_name(op) == name)


def check(name: str, dtype: torch.dtype, most_samples: int | None = None) -> tuple[int, int]:
    """Compare an entry on the virtual GPU with the CPU: (samples compared, of these with gradients).

    Raises what the virtual GPU raises, and AssertionError where a value, a gradient, a device or a kernel's launch is
    wrong.
    Samples that the CPU itself refuses are left out, and those that name another driver of LAPACK's than CUDA has.
    """
    op = find(name)
    device = gapless.device("vgpu")
    grads = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
    forward = backward = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grads)):
            if most_samples is not None and number >= most_samples:
                break
            # Also on the CPU: some samples say that they want a gradient and have nowhere to put it.
            sample, moved = (sample.transform(lambda t: move(t, to) if isinstance(t, torch.Tensor) else t)
                             for to in (torch.device("cpu"), device))
            if sample.kwargs.get("driver") not in CUDA_DRIVERS:
                continue
            try:
                torch.manual_seed(1)
                wanted = op(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue
            torch.manual_seed(1)
            with gapless.profiler.profile(device=device) as profiler:
                found = op(moved.input, *moved.args, **placed(op, moved.kwargs, device))
            _check_launches(profiler.trace)
            compare(found, wanted, values=op.name not in NO_VALUES, what=f"sample {number}")
            forward += 1
            if grads:
                with gapless.profiler.profile(device=device) as profiler:
                    backward += _compare_gradients(op, sample, wanted, moved, found, number)
                _check_launches(profiler.trace)
    return forward, backward


def move(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return tensor
    length = tensor.untyped_storage().nbytes() // tensor.element_size()
    with torch.no_grad():
        if length == tensor.numel() or tensor.is_conj() or tensor.is_neg():
            moved = tensor.detach().to(device)
        else:  # a view of something larger: the rest of its storage may matter
            whole = tensor.detach().as_strided((length,), (1,), 0).to(device)
            moved = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return moved.requires_grad_(tensor.requires_grad)


def placed(op, kwargs: dict, device: torch.device) -> dict:
    moved = {k: (device if k == "device" else v) for k, v in kwargs.items()}
    return {"device": device, **moved} if op.name in FACTORIES else moved


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _check_launches(trace) -> None:
    """Every kernel was launched with some blocks and threads."""
    for event in trace.events:
        if event.get("cat") == "kernel":
            assert event["args"]["grid"][0] >= 1 and event["args"]["block"][0] >= 1, event


def compare(found, wanted, values: bool, what: str, rtol: float = 1e-5, atol: float = 2e-6) -> None:
    found, wanted = _tensors(found), _tensors(wanted)
    assert len(found) == len(wanted), f"{what}: {len(found)} tensors, not {len(wanted)}"
    for a, b in zip(found, wanted):
        assert a.device.type == "vgpu", f"{what}: the result is on {a.device}"
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        if values:
            torch.testing.assert_close(a.detach().cpu(), b.detach(), equal_nan=True, rtol=rtol, atol=atol)


def _compare_gradients(op, sample, wanted, moved, found, number: int) -> bool:
    """Gradients of the results' weighted sum with respect to every input that has one."""
    pairs = [(a, b) for a, b in zip(_tensors(found), _tensors(wanted)) if b.requires_grad]
    leaves = [(a, b) for a, b in zip(_tensors((moved.input, moved.args, moved.kwargs)),
                                     _tensors((sample.input, sample.args, sample.kwargs))) if b.requires_grad]
    if not pairs or not leaves:
        return False
    weights = [torch.linspace(0.5, 1.5, b.numel()).reshape(b.shape).to(b.dtype) for _, b in pairs]
    weights = [w * (1 + 0.3j) if w.is_complex() else w for w in weights]
    try:
        reference = torch.autograd.grad([b for _, b in pairs], [b for _, b in leaves], weights, allow_unused=True)
    except RuntimeError:
        return False  # the CPU cannot either
    own = torch.autograd.grad([a for a, _ in pairs], [a for a, _ in leaves], [w.to("vgpu:0") for w in weights],
                              allow_unused=True)
    for a, b in zip(own, reference):
        assert (a is None) == (b is None), f"sample {number}: a gradient is missing"
        if a is not None:
            torch.testing.assert_close(a.cpu(), b, equal_nan=True, rtol=1e-4, atol=1e-5)
    return True


__all__ = ["DTYPES", "EXCEPTIONS", "check", "entries"]
