"""What Dynamo is told of tensors of the device: all of their form, none of their values."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from gapless import vgpu
from gapless.vgpu.compiling.traced_tensors import twin

TENSORS = {
    "plain": lambda device: torch.ones(3, 4, device=device),
    "a view": lambda device: torch.ones(6, 8, device=device)[1:, ::2].t(),
    "expanded": lambda device: torch.ones(3, 1, device=device).expand(3, 4),
    "no dimension": lambda device: torch.tensor(2.0, device=device),
    "no element": lambda device: torch.ones(0, 3, device=device),
    "half": lambda device: torch.ones(3, device=device, dtype=torch.bfloat16),
    "a leaf": lambda device: torch.ones(3, device=device, requires_grad=True),
    "not a leaf": lambda device: torch.ones(3, device=device, requires_grad=True) * 2,
    "a parameter": lambda device: nn.Parameter(torch.ones(3, device=device)),
    "an imaginary part": lambda device: torch.ones(3, device=device, dtype=torch.complex64).imag,
}


@pytest.mark.parametrize("values", [vgpu.exact, vgpu.shape_only], ids=["exact", "shape_only"])
@pytest.mark.parametrize("name", TENSORS)
def test_a_stand_in_is_of_the_same_form(name, values, device):
    with values():
        tensor = TENSORS[name](device)
    stand_in = FakeTensorMode().from_tensor(tensor)
    for asked in ("shape", "dtype", "device", "requires_grad", "is_leaf"):
        assert getattr(stand_in, asked) == getattr(tensor, asked), asked
    for asked in ("stride", "storage_offset", "is_conj", "is_neg", "dim"):
        assert getattr(stand_in, asked)() == getattr(tensor, asked)(), asked
    assert isinstance(stand_in, nn.Parameter) == isinstance(tensor, nn.Parameter)


def test_a_twin_keeps_what_the_program_has_hung_on_the_tensor(device):
    tensor = torch.ones(3, 4, device=device)
    torch._dynamo.mark_dynamic(tensor, 0)
    assert twin(tensor)._dynamo_dynamic_indices == {0}
    assert twin(tensor).untyped_storage().nbytes() == 48


def test_tracing_runs_nothing_on_the_device(device):
    before = vgpu.timeline().kernel_count
    with FakeTensorMode():
        torch.tensor([1.0, 2.0], device=device) + 1
    assert vgpu.timeline().kernel_count == before


@pytest.mark.slow
def test_functions_that_dynamo_knew_before_the_device_was_there():
    """In a process of its own: the device puts its own in the place of some of PyTorch's functions."""
    import subprocess
    import sys

    code = """
import torch, torch._dynamo
torch.compile(lambda: torch.ones(2), backend="eager")()
from gapless import vgpu
device = vgpu.enable()
print(torch.compile(lambda: torch.arange(3, device=device) * 2, fullgraph=True)().tolist())
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100)
    assert ran.stdout.strip() == "[0, 2, 4]", ran.stderr
