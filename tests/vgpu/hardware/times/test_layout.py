import pytest
import torch

from gapless.vgpu.hardware.times import layout

LAST = torch.channels_last


@pytest.mark.parametrize("shape, expected", [((2, 8, 4, 4), True), ((2, 1, 4, 4), False), ((2, 8, 1, 1), False),
                                             ((1, 1, 1, 1), False)])
def test_what_channels_last_strides_are(shape, expected):
    tensor = torch.empty(shape, device="meta").contiguous(memory_format=LAST)
    assert layout.suggests_channels_last(tensor) == expected
    assert not layout.suggests_channels_last(torch.empty(2, 8, 4, 4, device="meta"))


def test_a_convolution_works_in_channels_last_if_images_or_weights_are():
    x, weight = torch.empty(2, 8, 4, 4, device="meta"), torch.empty(6, 8, 3, 3, device="meta")
    assert not layout.channels_last(x, weight)
    assert layout.channels_last(x.contiguous(memory_format=LAST), weight)
    assert layout.channels_last(x, weight.contiguous(memory_format=LAST))
    assert not layout.channels_last(x.double().contiguous(memory_format=LAST), weight.double())


def test_only_what_lies_otherwise_is_converted():
    x = torch.empty(2, 8, 4, 4, device="meta")
    assert layout.is_converted(x, True) and not layout.is_converted(x, False)
    assert not layout.is_converted(torch.empty(2, 8, 1, 1, device="meta"), True)  # one position: both formats are the same
