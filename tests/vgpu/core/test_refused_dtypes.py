"""What CUDA has no kernel for is an error in its words, though the CPU could do it."""

import pytest
import torch
import torch.nn.functional as F

import gapless


@pytest.fixture
def device():
    return gapless.device("vgpu")


@pytest.mark.parametrize("call, words", [
    (lambda x: x @ x, "\"addmm_cuda\" not implemented for 'Long'"),
    (lambda x: x.bool() @ x.bool(), "\"addmm_cuda\" not implemented for 'Bool'"),
    (lambda x: x[None] @ x[None], "\"baddbmm_cuda\" not implemented for 'Long'"),
    (lambda x: x @ x[0], "\"addmv_impl_cuda\" not implemented for 'Long'"),
    (lambda x: F.linear(x.int(), x.int()), "\"addmm_cuda\" not implemented for 'Int'"),
    (lambda x: F.conv2d(x[None, None], x[None, None]), "not supported for Long"),
    (lambda x: F.max_pool2d(x[None, None], 2), "\"max_pool2d_with_indices_out_cuda_frame\" not implemented for 'Long'"),
    (lambda x: torch.histc(x.half()), "\"histc\" not implemented for 'Half'"),
])
def test_it_says_what_cuda_says(device, call, words):
    with pytest.raises(NotImplementedError, match=words):
        call(torch.eye(4, dtype=torch.int64, device=device))


def test_in_place_too(device):
    x = torch.eye(2, dtype=torch.int64, device=device)
    with pytest.raises(NotImplementedError, match="addmm_cuda"):
        x.addmm_(x, x)
    assert x.tolist() == [[1, 0], [0, 1]]


def test_nothing_to_launch_is_no_error(device):
    x = torch.zeros(0, 3, dtype=torch.int64, device=device)
    assert (x @ x.t()).shape == (0, 0)


def test_what_cuda_has_works(device):
    x = torch.eye(4, dtype=torch.int64, device=device)
    assert (x * x).sum().item() == 4 and (x.float() @ x.float()).sum().item() == 4
