"""Kernels that memory holds back: hand-worked times, their order, and measured ones."""

import dataclasses
import timeit

import pytest
import torch

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.cards import fitted
from gapless.vgpu.hardware.kernels import costs, multi_tensor
from gapless.vgpu.hardware.times import streaming
from gapless.vgpu.hardware.times.streaming import Chunks, Indexed, Rows

A100, T4 = CARDS["a100_pcie"], CARDS["t4"]


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def kernels(name, *args, out=None, **kwargs):
    return costs.kernels(name, args, kwargs, out)


def busy_s(problem, card=A100):
    return problem.start_and_busy_s(card, "float32")[1]


# -- the card -------------------------------------------------------------------------------------------


def test_a_cards_own_constants_come_before_those_of_its_kind_of_memory():
    found = fitted.constants("streaming")
    assert T4.memory_share("pointwise") == fitted.constants("streaming", "t4")["pointwise"]
    assert CARDS["h100"].memory_share("pointwise") == found["hbm"]
    assert CARDS["a10g"].memory_share("pointwise") == found["gddr"]
    assert CARDS["rtx4090"].memory_share("pointwise") == found["hbm"]  # without error codes among its data


@pytest.mark.parametrize("problem", [Rows("softmax", 50_000, 2500), Rows("softmax_backward", 50_000, 300), Rows("norm", 9000, 768),
                                     Rows("norm_backward", 9000, 768), Indexed(10**8, 10**7, 3), Chunks(1e8, 32)])
def test_a_slowed_card_is_slower_in_all_of_it(problem):
    assert busy_s(problem, A100.slowed(3)) == pytest.approx(3 * busy_s(problem))


# -- the L2 cache ---------------------------------------------------------------------------------------


def test_what_fits_into_the_l2_cache_comes_faster():
    factors = [streaming.over_l2(A100, size * A100.l2_bytes) for size in (0.1, 0.5, 0.7, 1.0, 2.0, 5.0)]
    assert factors == sorted(factors)
    assert factors[0] == pytest.approx(1 / streaming.L2_RATE, rel=1e-3) and factors[-1] == 1


def test_a_kernel_without_a_footprint_finds_nothing_in_the_cache():
    cold, warm = costs.Kernel("", "pointwise", 8e6), costs.Kernel("", "pointwise", 8e6, footprint=8_000_000)
    assert cold.duration_ns(A100) == round(2000 + 8e6 / (1555 * A100.memory_share("pointwise")))
    assert warm.duration_ns(A100) - 2000 == pytest.approx((cold.duration_ns(A100) - 2000) / streaming.L2_RATE, rel=0.01)


def test_in_place_memory_is_touched_once_and_moved_twice():
    x = meta(1000, 1000)
    kernel, = kernels("relu_", x, out=x)
    assert (kernel.bytes, kernel.footprint) == (8e6, 4e6)
    kernel, = kernels("copy_", x, meta(1000, 1000), out=x)
    assert (kernel.bytes, kernel.footprint) == (8e6, 8e6)


# -- elements -------------------------------------------------------------------------------------------


def problem_of(name, *args, out):
    return kernels(name, *args, out=out)[0].problem


def test_operands_that_lie_alike_are_one_row():
    x = meta(8, 16, 32)
    assert problem_of("add", x, meta(8, 16, 32), out=x) is None
    nhwc = meta(2, 8, 4, 4).to(memory_format=torch.channels_last)
    assert problem_of("relu", nhwc, out=nhwc) is None
    assert problem_of("view_copy", meta(128, 32), out=x) is None  # the same elements in the same order


@pytest.mark.parametrize("other, dimensions", [
    ((), 1), ((32,), 2), ((16, 32), 2), ((16, 1), 3), ((8, 1, 1), 2), ((8, 16, 1), 2), ((1, 16, 1), 3)])
def test_a_broadcast_costs_by_the_dimensions_that_cannot_be_merged(other, dimensions):
    x = meta(8, 16, 32)
    problem = problem_of("add", x, meta(*other), out=x)
    assert (problem.elements, problem.dimensions) == (x.numel(), dimensions)


def test_a_transposed_operand_is_read_in_part_used_sectors():
    out, plain, turned = meta(64, 32), meta(64, 32), meta(32, 64).t()
    assert problem_of("clone", turned, out=out).bytes == (1 + streaming.TRANSPOSED) * 64 * 32 * 4
    assert problem_of("clone", plain, out=out) is None
    heads = meta(4, 10, 8, 16).transpose(1, 2)  # rows of 16 stay whole
    assert problem_of("clone", heads, out=meta(4, 8, 10, 16)).bytes == 2 * 4 * 10 * 8 * 16 * 4


def test_other_shapes_are_no_broadcast():
    assert problem_of("cat", [meta(3, 5), meta(4, 5)], out=meta(7, 5)) is None


def test_a_bias_added_through_a_broadcast_is_as_slow_as_in_the_trace():
    # AlexNet's first convolution on an A100 (SXM) with 40 GB: 96800 blocks of 256 elements, 187 µs.
    count = 96_800 * 256
    kernel = costs.Kernel("", "pointwise", 8 * count, problem=Indexed(8 * count, count, 3))
    assert kernel.duration_ns(CARDS["a100"]) == pytest.approx(187e3, rel=0.03)


def test_powers_are_arithmetic_where_they_are_no_products():
    x = meta(1000)
    assert kernels("pow", x, 2, out=x)[0].flops == kernels("pow", x, 0.5, out=x)[0].flops == 0
    assert kernels("pow", x, 2.5, out=x)[0].flops == kernels("pow", x, meta(1000), out=x)[0].flops > 50_000


# -- rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what, length, expected", [
    ("softmax", 100, ("warp", 16, 0, 4)), ("softmax", 1024, ("warp", 32, 0, 32)),
    ("softmax", 1025, ("block", 128, 2, 3)),  # two steps of 512 elements in vectors, and one element
    ("softmax", 2048, ("block", 256, 2, 2)), ("softmax", 3072, ("block", 512, 2, 3)),
    ("softmax_backward", 16384, ("block", 512, 1, 8)), ("norm", 768, ("norm", 128, 1, 2))])
def test_how_rows_are_shared_out(what, length, expected):
    assert streaming.launch(what, length, 4) == expected


def test_half_precision_rows_are_longer_in_a_warp_only_by_elements():
    assert streaming.launch("softmax", 1024, 8)[0] == "block"  # 8 KiB
    assert streaming.launch("softmax", 1024, 2)[0] == "warp"
    assert streaming.launch("softmax", 1025, 2)[0] == "block"


@pytest.mark.parametrize("what", ["softmax", "softmax_backward", "norm", "norm_backward"])
@pytest.mark.parametrize("length", [1, 7, 333, 1024, 1026, 5000, 20_000])
def test_more_rows_never_take_less(what, length):
    times = [busy_s(Rows(what, rows, length)) for rows in (1, 10, 1000, 30_000, 300_000, 3_000_000)]
    assert times == sorted(times) and times[0] > 0


def test_a_backward_kernel_takes_longer_than_a_forward_one():
    for what in ("softmax", "norm"):
        for length in (512, 2048, 8192):
            assert busy_s(Rows(f"{what}_backward", 100_000, length)) > 1.1 * busy_s(Rows(what, 100_000, length))


def test_long_rows_are_read_from_memory_again():
    per_byte = [busy_s(Rows("softmax", 2**30 // length, length), T4) for length in (2048, 16_384)]
    assert per_byte[1] > 1.6 * per_byte[0]


def test_rows_of_operators():
    x = meta(8, 128, 768)
    assert problem_of("_softmax", x, -1, False, out=x) == Rows("softmax", 1024, 768)
    assert problem_of("_softmax_backward_data", x, x, 2, torch.float32, out=x) == Rows("softmax_backward", 1024, 768)
    assert problem_of("_softmax", x, 1, False, out=x) is None
    assert problem_of("native_layer_norm", x, [128, 768], out=(x, meta(8), meta(8))) == Rows("norm", 8, 128 * 768)
    first, second = kernels("native_layer_norm_backward", x, x, [768], out=(x, meta(768), meta(768)))
    assert first.problem == Rows("norm_backward", 1024, 768) and second.bytes == 2 * 4 * x.numel()
    assert len(kernels("native_layer_norm_backward", x, x, [768], out=(x, None, None))) == 1
    assert kernels("_softmax", meta(0, 5), -1, False, out=meta(0, 5)) == []


# -- many tensors ---------------------------------------------------------------------------------------


def test_a_full_chunk_takes_its_steps_even_alone():
    one, = multi_tensor.kernels("_foreach_mul_", ([meta(65_536)], 2.0), {}, None)
    small, = multi_tensor.kernels("_foreach_mul_", ([meta(64) for _ in range(100)], 2.0), {}, None)
    assert (one.problem.steps, small.problem.steps) == (32, 1)
    assert 20_000 < one.duration_ns(A100) < 35_000 and small.duration_ns(A100) < 4000


# -- speed ----------------------------------------------------------------------------------------------


def test_a_problem_is_worked_out_fast():
    problem = Rows("norm", 65_536, 3072)
    assert min(timeit.repeat(lambda: problem.start_and_busy_s(A100, "float32"), number=100, repeat=5)) / 100 < 50e-6


def test_rows_and_cards_are_hashable_and_remembered():
    card = dataclasses.replace(A100)
    kernel = costs.Kernel("", "normalization", 1, problem=Rows("norm", 100, 100))
    assert kernel.duration_ns(card) == kernel.duration_ns(card) and len(card.times) == 1
