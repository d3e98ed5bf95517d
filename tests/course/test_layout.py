"""Other strides, the same values."""

import pytest
import torch

from gapless import vgpu
from gapless.course.layout import LAYOUTS, laid_out
from gapless.measure.device import device as choose_device


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (0, 3), (1, 1, 1)])
@pytest.mark.parametrize("layout", [*LAYOUTS, None])
def test_values_and_shape_stay(shape, layout):
    tensor = torch.randn(shape)
    found = laid_out(tensor, layout)
    assert found.shape == tensor.shape and torch.equal(found, tensor)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4, 5)])
def test_the_strides_are_others(shape, layout):
    found = laid_out(torch.randn(shape), layout)
    assert not found.is_contiguous()
    assert found.is_contiguous(memory_format=torch.channels_last) == (layout == "channels_last") or len(shape) != 4


def test_a_scalar_is_not_the_first_of_its_storage():
    assert laid_out(torch.tensor(2.0), "transposed").storage_offset() == 1


def test_the_virtual_gpu_keeps_them():
    choose_device("vgpu")
    found = vgpu.tensor_of(laid_out(torch.arange(12.0).reshape(3, 4), "transposed"))
    assert found.stride() == (1, 3) and (found + 1).tolist()[1] == [5, 6, 7, 8]


def test_another_layout_is_refused():
    with pytest.raises(ValueError, match="layout is 'sparse'; there are transposed, strided"):
        laid_out(torch.ones(2), "sparse")
