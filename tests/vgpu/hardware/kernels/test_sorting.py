"""The kernels of sorts, of ``unique`` and of histograms."""

import pytest
import torch

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.kernels.sorting import radix_sort


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def names(name, *args, out=None, **kwargs):
    return [kernel.name for kernel in costs.kernels(name, args, kwargs, out)]


def test_a_radix_sort_passes_over_all_bits_of_the_key():
    def passes(*args, **kwargs):
        return sum("Onesweep" in kernel.name for kernel in radix_sort(*args, **kwargs))

    assert passes(10_000, 8, 8) == 8
    assert passes(10_000, 8, 8, bits=20) == 3
    assert passes(10_000, 2, 0) == 2
    assert [kernel.name for kernel in radix_sort(1000, 8, 8)] == ["DeviceRadixSortSingleTileKernel"]


def test_a_pass_reads_and_writes_keys_and_values():
    sweep = radix_sort(10_000, 8, 8)[-1]
    assert sweep.bytes == 2 * 10_000 * 16 and sweep.workspace_bytes == 10_000 * 16


@pytest.mark.parametrize("shape, dim, sort", [
    ((100, 4096), -1, "radixSortKVInPlace"), ((1, 5000), -1, "DeviceRadixSortOnesweepKernel"),
    ((200, 5000), -1, "DeviceSegmentedRadixSortKernel"), ((5000, 2), 0, "sort_postprocess_kernel"), ((), -1, "radixSortKVInPlace"),
])
def test_a_sort_goes_by_length_and_number_of_segments(shape, dim, sort):
    found = names("sort", meta(*shape), dim)
    assert sort in found
    assert ("elementwise_kernel(transpose)" in found) == (dim == 0)


def test_nothing_to_sort_is_no_kernel():
    assert not names("sort", meta(0)) and not names("_unique2", meta(0))


def test_unique_takes_positions_along_only_where_they_are_asked_for():
    x = meta(10_000, dtype=torch.int64)
    plain, inverse = (costs.kernels("_unique2", (x, True, flag, False), {}, None) for flag in (False, True))
    assert sum(k.bytes for k in inverse) > 2 * sum(k.bytes for k in plain)
    assert not any("RadixSort" in name for name in names("unique_consecutive", x))
    assert not any("RadixSort" in name for name in names("_unique2", meta(10, dtype=torch.bool)))
    assert "DeviceRunLengthEncodeKernel" in names("_unique2", x, True, False, True)


def test_rows_are_merged():
    few, many = (names("unique_dim", meta(rows, 3), 0, True).count("DeviceMergeSortKernel") for rows in (2000, 16_384))
    assert (few, many) == (1, 4)


@pytest.mark.parametrize("shape, k, kernel", [((1, 100_000), 5, "radixFindKthValues"), ((10, 100), 5, "gatherTopK(sbtopk)")])
def test_topk(shape, k, kernel):
    out = (meta(shape[0], k), meta(shape[0], k, dtype=torch.int64))
    assert kernel in names("topk", meta(*shape), k, out=out)
    assert names("topk", meta(*shape), k, -1, True, False, out=out)[-1] != "radixSortKVInPlace"


def test_histograms_look_for_their_bounds_first():
    x, out = meta(1000, dtype=torch.int64), meta(10, dtype=torch.int64)
    assert names("bincount", x, out=out).count("reduce_kernel(bounds)") == 2
    assert names("histc", meta(1000), 10, 0, 1, out=meta(10)) == ["Memset (Device)", "kernelHistogram1D"]
    assert names("bincount", meta(0, dtype=torch.int64), out=out) == ["Memset (Device)"]


def test_a_search_in_more_takes_longer():
    def ns(boundaries):
        kernel, = costs.kernels("searchsorted", (meta(boundaries), meta(10_000_000)), {}, meta(10_000_000, dtype=torch.int64))
        return kernel.duration_ns(CARDS["a100"])

    assert ns(2**20) > ns(2**10)
