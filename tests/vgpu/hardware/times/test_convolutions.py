"""Float32 convolutions: which algorithm, how long, and what the operators' rules make of their arguments."""

import dataclasses
import timeit

import pytest
import torch

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.times.convolutions import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Convolution, algorithms, ways

DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)


def square(direction=FORWARD, batch=32, channels_in=64, channels_out=64, size=28, window=3, stride=1, dilation=1, groups=1,
           channels_last=False):
    padding = dilation * (window // 2)
    out = (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1
    return Convolution(direction, batch, channels_in, channels_out, (size, size), (out, out), (window, window),
                       (stride, stride), (padding, padding), (dilation, dilation), groups, 4, channels_last)


def seconds(problem, card="v100_pcie"):
    return sum(problem.start_and_busy_s(CARDS[card], "float32"))


def names(problem, card="v100_pcie"):
    return {found.name for found in algorithms(problem, CARDS[card])}


def parts(problem, name, tile, card="v100_pcie"):
    way, = [way for way in ways(problem, CARDS[card]) if (way.name, way.tile) == (name, tile)]
    return dict(way.math + way.memory)


# -- hand-worked ----------------------------------------------------------------------------------------


def test_an_implicit_gemm_is_tiles_in_whole_waves():
    # 81 tiles of 128 positions, one of 64 channels: on 80 SMs the fullest SM has two.
    problem = square(batch=81 * 8, channels_in=10, channels_out=64, size=4)
    card = CARDS["v100_pcie"]
    found = parts(problem, "implicit_gemm", "128x64")
    assert found["gemm_128x64"] == pytest.approx(2 * 80 * 128 * 64 * 90 * 2 / card.peak_flops["float32"])
    one_wave = parts(dataclasses.replace(problem, batch=80 * 8), "implicit_gemm", "128x64")
    assert one_wave["gemm_128x64"] == found["gemm_128x64"] / 2
    x, w, y = 648 * 10 * 16, 64 * 90, 648 * 64 * 16
    assert problem.sizes == (x, w, y)
    assert found["gemm_traffic"] == pytest.approx(4 * (x + w + y) / card.bandwidth_bytes_per_s)


def test_a_fused_winograd_block_is_8_by_16_results_of_32_channels():
    # 9 × 17 results need four blocks an image, 33 channels two: 8 blocks, less than the SMs.
    problem = Convolution(FORWARD, 1, 100, 33, (9, 17), (9, 17), (3, 3), (1, 1), (1, 1), (1, 1))
    found = parts(problem, "winograd", "1x8x16")
    assert found["winograd"] == pytest.approx(80 * 32 * 32 * 16 * 100 * 2 / CARDS["v100_pcie"].peak_flops["float32"])
    assert found["winograd_filter"] == pytest.approx(4 * 100 * 33 * (9 + 16) / 900e9)


def test_only_from_ampere_do_four_small_images_share_a_fused_block():
    tiles = {card: {way.tile for way in ways(square(size=7), CARDS[card]) if way.name == "winograd"} for card in ("t4", "a100")}
    assert tiles == {"t4": {"1x8x16"}, "a100": {"1x8x16", "4x8x4"}}


def test_non_fused_winograd_holds_36_numbers_for_each_tile_in_its_workspace():
    found, = [a for a in algorithms(square(batch=2, size=10), CARDS["t4"]) if a.name == "winograd_non_fused"]
    assert found.workspace_bytes == 4 * 36 * (2 * 3 * 3 * (64 + 64) + 64 * 64)


def test_a_strided_input_gradient_has_the_flops_of_its_forward_in_one_wave_for_each_phase():
    strided = square(INPUT_GRADIENT, batch=80 * 128, channels_in=64, channels_out=64, size=2, window=3, stride=2)
    found = parts(strided, "implicit_gemm", "128x64")  # four phases of one position each, 9 taps shared among them
    assert found["gemm_128x64"] == pytest.approx(4 * 80 * 128 * 64 * 64 * 9 / 4 * 2 / CARDS["v100_pcie"].peak_flops["float32"])
    pointwise = square(INPUT_GRADIENT, window=1, stride=2)  # three phases of four have no tap
    assert parts(pointwise, "implicit_gemm", "128x64")["gemm_128x64"] == parts(
        square(window=1, stride=2), "implicit_gemm", "128x64")["gemm_128x64"]


def test_a_weight_gradient_splits_its_long_sum_among_the_sms():
    few_results = square(WEIGHT_GRADIENT, batch=64, channels_in=16, channels_out=16, size=112)
    unsplit = min(sum(dict(way.math).values()) for way in ways(few_results, CARDS["v100_pcie"]) if way.kernels == 2)
    assert seconds(few_results) < unsplit / 5


# -- which algorithms apply -----------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_winograd_and_fft_are_for_stride_1_without_dilation_and_groups(direction):
    fused = set() if direction == WEIGHT_GRADIENT else {"winograd"}
    assert names(square(direction)) == {"implicit_gemm", "winograd_non_fused", "fft"} | fused
    assert names(square(direction, window=5)) == {"implicit_gemm", "winograd_non_fused", "fft"}
    assert names(square(direction, window=7)) == {"implicit_gemm", "fft"}
    for other in (square(direction, stride=2), square(direction, dilation=2), square(direction, groups=4),
                  square(direction, window=1)):
        assert names(other) == {"implicit_gemm"}


def test_depthwise_has_atens_kernels():
    assert names(square(groups=64)) == {"depthwise"}
    assert names(square(groups=64, channels_out=128)) == {"depthwise"}


def test_large_windows_are_left_to_the_fft_and_wide_3x3_to_winograd():
    best = {window: min(algorithms(square(window=window, size=56), CARDS["t4"]), key=lambda a: a.seconds).name
            for window in (1, 3, 11)}
    assert best[1] == "implicit_gemm" and best[3].startswith("winograd") and best[11] == "fft"


# -- sane times everywhere ------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("changed", [{}, {"window": 1}, {"window": 7, "stride": 2}, {"stride": 2}, {"dilation": 2},
                                     {"groups": 8}, {"groups": 64}], ids=str)
def test_times_are_of_the_order_of_their_work(direction, changed):
    problem = square(direction, **changed)
    for card in CARDS.values():
        time = sum(problem.start_and_busy_s(card, "float32"))
        flops_s = 2 * problem.multiply_adds / card.peak_flops["float32"]
        bytes_s = 4 * sum(problem.sizes) / card.bandwidth_bytes_per_s
        assert max(flops_s / 5, bytes_s) < time < 60 * (flops_s + bytes_s)
        assert time < 1e-3 if card.key == "h100" else time < 30e-3


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_more_work_takes_no_less_time(direction):
    for size in ("batch", "channels_in", "channels_out"):
        times = [seconds(square(direction, **{size: count})) for count in (8, 32, 128, 512, 2048)]
        assert times == sorted(times) and times[-1] > 3 * times[0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_slowed_card_is_slower_by_that_factor_in_all_that_grows(direction):
    start, busy = square(direction).start_and_busy_s(CARDS["t4"], "float32")
    slow_start, slow_busy = square(direction).start_and_busy_s(CARDS["t4"].slowed(2.0), "float32")
    assert (slow_start, slow_busy) == (start, pytest.approx(2 * busy))


@pytest.mark.parametrize("problem", [
    Convolution(FORWARD, 16, 40, 64, (1000,), (998,), (3,), (1,), (0,), (1,)),
    Convolution(FORWARD, 2, 16, 32, (16, 32, 32), (16, 32, 32), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    Convolution(WEIGHT_GRADIENT, 1, 1, 1, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    Convolution(INPUT_GRADIENT, 7, 3, 5, (11, 13), (4, 5), (3, 2), (3, 3), (1, 1), (1, 1)),
], ids=("1-D", "3-D", "one number", "odd"))
def test_other_dimensions_and_odd_sizes(problem):
    assert 0 < seconds(problem) < 10e-3


def test_a_first_answer_takes_microseconds():
    problem = square(batch=64, size=56)
    assert min(timeit.repeat(lambda: problem.start_and_busy_s(CARDS["a100"], "float32"), number=50, repeat=20)) / 50 < 200e-6


# -- the operators' rules -------------------------------------------------------------------------------


@pytest.fixture
def float32():
    before, torch.backends.cudnn.conv.fp32_precision = torch.backends.cudnn.conv.fp32_precision, "ieee"
    yield
    torch.backends.cudnn.conv.fp32_precision = before


def meta(*shape, memory_format=torch.contiguous_format):
    return torch.empty(shape, device="meta").to(memory_format=memory_format)


def test_a_forward_convolution_is_the_problem_of_its_arguments(float32):
    x, weight, out = meta(2, 6, 9, 8), meta(4, 3, 3, 3), meta(2, 4, 4, 3)
    kernel, = costs.kernels("convolution", (x, weight, None, [2], [0, 0], [1], False, [0, 0], 2), {}, out)
    assert kernel.dtype == "float32"
    assert kernel.problem == Convolution(FORWARD, 2, 6, 4, (9, 8), (4, 3), (3, 3), (2, 2), (0, 0), (1, 1), 2)


def test_a_transposed_convolution_is_the_input_gradient_of_the_one_that_it_transposes(float32):
    x, weight, out = meta(2, 4, 4, 3), meta(4, 6, 3, 3), meta(2, 6, 9, 7)
    settings = ([2, 2], [0, 0], [1, 1], True, [0, 0], 1)
    kernel, = costs.kernels("convolution", (x, weight, None, *settings), {}, out)
    plain = Convolution(INPUT_GRADIENT, 2, 6, 4, (9, 7), (4, 3), (3, 3), (2, 2), (0, 0), (1, 1))
    assert kernel.problem == plain
    of_input, of_weight = costs.kernels("convolution_backward", (out, x, weight, None, *settings, [True, True, False]), {},
                                        (x, weight, None))
    assert of_input.problem == dataclasses.replace(plain, direction=FORWARD)
    assert of_weight.problem == dataclasses.replace(plain, direction=WEIGHT_GRADIENT)


def test_backward_is_two_kernels_of_the_same_shapes(float32):
    x, weight, out = meta(2, 6, 9, 9), meta(4, 6, 3, 3), meta(2, 4, 9, 9)
    settings = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    found = costs.kernels("convolution_backward", (out, x, weight, [4], *settings, [True, True, True]), {}, (x, weight, meta(4)))
    assert [kernel.problem.direction for kernel in found[:2]] == [INPUT_GRADIENT, WEIGHT_GRADIENT]
    assert len({dataclasses.replace(kernel.problem, direction=FORWARD) for kernel in found[:2]}) == 1
    assert found[2].problem is None


def test_the_memory_format_is_noticed():
    def last(*shape):
        x = meta(*shape, memory_format=torch.channels_last)
        return costs.kernels("convolution", (x, meta(4, shape[1], 1, 1), None, [1], [0], [1], False, [0], 1), {},
                             meta(shape[0], 4, *shape[2:]))[-1].problem.of.channels_last

    assert last(2, 6, 9, 9)
    # With these strides ATen takes one channel, or one position, for channels-last too.
    assert last(2, 1, 9, 9)
    assert last(2, 6, 1, 1)


# -- a whole network, which nothing here was fitted to ----------------------------------------------------


def resnet50():
    """ResNet-50 v1.5 at 224 × 224: channels in and out, size, window, stride of its convolutions."""
    yield 3, 64, 224, 7, 2
    channels, size = 64, 56
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            yield channels, width, size, 1, 1
            yield width, width, size, 3, step
            if block == 0:
                yield channels, 4 * width, size, 1, step
            size //= step
            yield width, 4 * width, size, 1, 1
            channels = 4 * width


def test_resnet50s_convolutions_take_most_of_a_published_step():
    # Nvidia, DeepLearningExamples, ResNet-50 v1.5 for PyTorch (21.03), FP32 images a second on one GPU: 1261 (V100 16 GB) and
    # 415 (T4) in inference with batches of 256, 367 in training on the V100. Batch norms, ReLUs and the rest take time too.
    def step_s(card, batch, directions):
        return sum(seconds(square(direction, batch, channels_in, channels_out, size, window, stride), card)
                   for channels_in, channels_out, size, window, stride in resnet50() for direction in directions)

    assert 0.5 < step_s("v100", 256, (FORWARD,)) / (256 / 1261) < 0.9
    assert 0.5 < step_s("t4", 256, (FORWARD,)) / (256 / 415) < 0.9
    assert 0.5 < step_s("v100", 128, DIRECTIONS) / (128 / 367) < 0.9
