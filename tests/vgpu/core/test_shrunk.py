"""Tensors without their memory: an error that says so, and no read of what is not there."""

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.process.state import state


@pytest.mark.parametrize("use", [lambda x: x + 1, lambda x: x.cpu(), lambda x: x.zero_(), lambda x: x.view(2, 2).sum(),
                                 lambda x: x.copy_(torch.ones(4)), lambda x: torch.ones(4).copy_(x), lambda x: torch._foreach_add([x], 1),
                                 lambda x: x[x > 0], lambda x: torch.equal(x, x.clone()), print, lambda x: torch.cat([x, x])])
@pytest.mark.parametrize("valueless", [False, True])
def test_reads_and_writes_are_errors(use, valueless, device):
    with vgpu.shape_only() if valueless else vgpu.exact():
        x = torch.ones(4, device=device)
        x.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match="whose memory has been freed"):
            use(x)
        x.untyped_storage().resize_(16)
        x.zero_()
    assert not state.shrunk


def test_shapes_may_be_asked_for(device):
    x = torch.ones(4, device=device)
    x.untyped_storage().resize_(8)
    assert x.view(2, 2).shape == (2, 2) and torch.empty_like(x).shape == torch.zeros_like(x).shape == (4,)
    assert x[:2].tolist() == [1, 1]  # the half that is there
    del x
    assert not state.shrunk
