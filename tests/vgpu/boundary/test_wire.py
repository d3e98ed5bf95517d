"""Values as messages: what goes in comes out, and nothing else does."""

import socket

import pytest
import torch

from gapless.vgpu.boundary.wire import Channel, Decoder, Encoder, WireError
from gapless.vgpu.ordering.pinned import is_pinned, pin


def there_and_back(value, **options):
    encoder = Encoder(lambda tensor, encoder: encoder.host(tensor, **options))
    one, other = socket.socketpair()
    sender, receiver = Channel(one), Channel(other)
    sender.send(encoder(value), encoder.blob)
    message, blob = receiver.receive()
    sender.close(), receiver.close()
    return Decoder(None, torch.device, blob)(message)


@pytest.mark.parametrize("value", [
    None, True, -(2**70), 1.5, float("inf"), "text 😀", [1, [2.0, "x"]], {"a": [1], "b": {"c": None}}, 1 + 2j,
    torch.float16, torch.strided, torch.channels_last, torch.device("cpu"),
], ids=str)
def test_plain_values(value):
    found = there_and_back(value)
    assert found == value and type(found) is type(value)


def test_tuples_arrive_as_lists_and_nan_as_nan():
    assert there_and_back((1, (2,), torch.Size([3]))) == [1, [2], [3]]
    assert there_and_back(float("nan")) != there_and_back(float("nan"))


@pytest.mark.parametrize("tensor", [
    torch.arange(6.0).reshape(2, 3), torch.arange(6).reshape(2, 3).t(), torch.tensor(2.5), torch.empty(0, 3), torch.ones(2, dtype=torch.bool),
    torch.arange(3, dtype=torch.bfloat16), torch.arange(3).to(torch.complex64) * 1j, torch.ones(4, 3)[::2], torch.ones(4)[::2][:1], torch.ones(1).expand(3),
    torch.arange(3.0).requires_grad_(), torch.tensor([1j]).conj(),
], ids=lambda tensor: f"{tuple(tensor.shape)}-{tensor.dtype}")
def test_host_tensors(tensor):
    found = there_and_back(tensor)
    assert torch.equal(found, tensor.detach()) and found.dtype == tensor.dtype and found.shape == tensor.shape
    if 0 not in tensor.stride():
        assert found.stride() == tensor.stride()


def test_pinned_memory_stays_pinned_and_values_may_be_left_out():
    from gapless import vgpu

    vgpu.enable()
    assert is_pinned(there_and_back(pin(torch.ones(3)), pinned=True))
    assert there_and_back(torch.ones(5, 2), values=False).shape == (5, 2)


@pytest.mark.parametrize("value", [object(), {1: 2}, print, b"bytes", {"a": object()}], ids=["object", "keys", "function", "bytes", "inside"])
def test_raises_when_a_value_has_no_form(value):
    with pytest.raises(WireError):
        there_and_back(value)
