"""torch.vgpu.set_sync_debug_mode: what asks for it is told of, and nothing else."""

import warnings

import pytest
import torch

from gapless import vgpu


@pytest.fixture(autouse=True)
def default_afterwards():
    yield
    torch.vgpu.set_sync_debug_mode("default")


def ask_waits(device):
    x = torch.ones(3, device=device)
    return [lambda: x.sum().item(), lambda: x.cpu(), lambda: x.nonzero(), lambda: torch.ones(3).to(device),
            lambda: torch.vgpu.current_stream().synchronize()]


def asks_not(device):
    x = torch.ones(3, device=device)
    event = torch.vgpu.Event()
    event.record()
    return [lambda: x + 1, lambda: torch.vgpu.synchronize(), event.synchronize,
            lambda: torch.ones(3).pin_memory().to(device, non_blocking=True),
            lambda: torch.ones(3).to(device, non_blocking=True)]


def test_error(device):
    waiting, others = ask_waits(device), asks_not(device)
    torch.vgpu.set_sync_debug_mode("error")
    assert torch.vgpu.get_sync_debug_mode() == 2
    for use in waiting:
        with pytest.raises(RuntimeError, match=r"called a synchronizing CUDA operation \(.*test_sync_debug.py"):
            use()
    for use in others:
        use()


def test_warn(device):
    waiting, others = ask_waits(device), asks_not(device)
    torch.vgpu.set_sync_debug_mode(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for use in (*waiting, *others):
            use()
    assert len(told) == len(waiting)
    assert "aten::_local_scalar_dense" in str(told[0].message)


def test_default_and_what_is_no_mode(device):
    torch.vgpu.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.vgpu.set_sync_debug_mode("loud")
    torch.vgpu.set_sync_debug_mode("default")
    assert torch.ones(2, device=device).sum().item() == 2
    assert torch.vgpu.get_sync_debug_mode() == 0


def test_it_stays_with_another_card(device):
    torch.vgpu.set_sync_debug_mode("error")
    vgpu.enable("h100")
    with pytest.raises(RuntimeError, match="synchronizing"):
        torch.ones(2, device=device).sum().item()
