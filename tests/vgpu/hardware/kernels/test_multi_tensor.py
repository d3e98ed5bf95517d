"""Launches of multi-tensor operators and their bytes, by hand from ATen's sources."""

import pytest
import torch

from gapless.vgpu.hardware.kernels import multi_tensor
from gapless.vgpu.hardware.kernels.multi_tensor import LARGE, SMALL, launches


def meta(*shape):
    return torch.empty(shape, device="meta")


@pytest.fixture(params=[SMALL, LARGE], ids=["4 KiB", "32 KiB"])
def limits(request, monkeypatch):
    """Of a PyTorch built before and for CUDA 13."""
    monkeypatch.setattr(multi_tensor, "limits", lambda: request.param)
    return request.param


def count(name, *args, out=None, **kwargs):
    return len(multi_tensor.kernels(name, args, kwargs, out))


def test_a_launch_ends_when_its_tensors_or_its_blocks_are_full():
    assert launches([10] * 5, 2, 100) == [20, 20, 10]
    assert launches([10, 0, 10, 0], 2, 100) == [20]  # empty ones have no place
    chunk = 65_536
    assert launches([5 * chunk], 10, 2) == [2 * chunk, 2 * chunk, chunk]
    # What is left of a tensor takes a place in the next launch.
    assert launches([3 * chunk, 1, 1], 2, 2) == [2 * chunk, chunk + 1, 1]
    assert launches([2 * chunk, 1, 1], 2, 2) == [2 * chunk, 2]
    assert launches([], 10, 10) == launches([0], 10, 10) == []


def test_so_many_tensors_a_launch_by_the_number_of_lists(limits):
    for depth, most in limits[0].items():
        lists = [[meta(10) for _ in range(most + 1)] for _ in range(depth)]
        assert count("_foreach_addcmul_", *lists) == 2
        assert count("_foreach_addcmul_", *(each[1:] for each in lists)) == 1
    one = [meta(10) for _ in range(limits[0][2] + 1)]
    assert count("_foreach_mul_", one, 2.0) == 1
    assert count("_foreach_mul", one, 2.0, out=one) == 2  # the results are a list too
    numbers = [meta(10) for _ in range(limits[1][1] + 1)]
    assert count("_foreach_mul_", numbers, [2.0] * len(numbers)) == 2
    assert count("_foreach_mul_", numbers, 2.0) == 1


def test_so_many_chunks_a_launch(limits):
    assert count("_foreach_mul_", [meta(limits[2] * 65_536)], 2.0) == 1
    assert count("_foreach_mul_", [meta(limits[2] * 65_536 + 1)], 2.0) == 2


def test_this_pytorchs_arguments():
    small = (torch.version.cuda or "13").split(".")[0] < "13" or torch.__version__.startswith("2.11.")
    assert multi_tensor.limits() is (SMALL if small else LARGE)


def moved(name, *args, out=None, **kwargs):
    return sum(kernel.bytes for kernel in multi_tensor.kernels(name, args, kwargs, out) if kernel.kind == "optimizer")


def test_what_is_read_and_written():
    each, size = [meta(1000)], 4000
    assert moved("_foreach_mul_", each, 2.0) == 2 * size
    assert moved("_foreach_add_", each, each) == 3 * size
    assert moved("_foreach_add", each, each, out=each) == 3 * size
    assert moved("_foreach_copy_", each, each) == 2 * size
    assert moved("_foreach_zero_", each) == size
    steps, scale = [meta()], meta()
    assert moved("_fused_adamw_", *[each] * 4, [], steps) == (4 + 3) * size + 4
    assert moved("_fused_adamw_", *[each] * 5, steps) == (5 + 4) * size + 4  # amsgrad
    assert moved("_fused_adamw_", *[each] * 4, [], steps, grad_scale=scale) == (4 + 4) * size + 4
    assert moved("_fused_sgd_", each, each, []) == (2 + 1) * size
    assert moved("_fused_sgd_", each, each, each) == (3 + 2) * size
    assert moved("_fused_adagrad_", each, each, each, steps) == (3 + 2) * size + 4


def test_launches_share_the_bytes_by_their_elements(limits):
    first, last = multi_tensor.kernels("_foreach_mul_", ([meta((limits[2] + 1) * 65_536)], 2.0), {}, None)
    assert first.bytes == limits[2] * last.bytes


def test_a_norm_is_cleared_reduced_and_cleaned_up():
    found = multi_tensor.kernels("_foreach_norm", ([meta(100_000), meta(3)],), {}, [meta(), meta()])
    assert [kernel.name for kernel in found] == ["Memset (Device)", "multi_tensor_apply_kernel(_foreach_norm)",
                                                 "cleanup_kernel(_foreach_norm)"]
    assert found[0].bytes == 2 * 2 * 4
    assert len(multi_tensor.kernels("_foreach_norm", ([meta(3) for _ in range(513)],), {}, None)) >= 1 + 1 + 2
