from dataclasses import replace

import pytest

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times import convolutions, products, tensor_cores
from gapless.vgpu.hardware.times.convolutions import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from gapless.vgpu.hardware.times.tensor_cores import Attention, Pass, Product

CARD = CARDS["rtx3090"]
SHAPE = convolutions.Convolution(FORWARD, 64, 256, 256, (28, 28), (28, 28), (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, True)


def seconds(problem, card=CARD, dtype="float16"):
    return sum(problem.start_and_busy_s(card, dtype))


def product(*sizes, **more):
    return Product(products.Product(*sizes, **more))


def of(**changes):
    return Pass(replace(SHAPE, **changes))


def test_a_large_product_runs_near_the_peak_and_not_above_what_a_clock_allows():
    rate = 2 * 8192**3 / seconds(product(1, 8192, 8192, 8192))
    assert 0.8 < rate / 71e12 < 1.25


def test_more_work_never_takes_less_time():
    for sizes in ((64, 64, 64), (1000, 1000, 1000), (4096, 768, 3072), (8192, 64, 64)):
        for place in range(3):
            more = [2 * size if i == place else size for i, size in enumerate(sizes)]
            assert seconds(product(1, *more)) >= seconds(product(1, *sizes)) * 0.999


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 13, 3), (1, 50_000, 17)])
def test_odd_sizes_take_some_time(sizes):
    assert 0 < seconds(product(3, *sizes)) < 1


def test_a_thin_product_waits_for_memory():
    thin = product(1, 1, 8192, 8192)
    assert seconds(thin) >= 2 * 8192**2 / CARD.bandwidth_bytes_per_s


def test_without_tensor_cores_for_a_dtype_it_is_a_float32_product():
    assert product(1, 512, 512, 512, 4).start_and_busy_s(CARDS["t4"], "tf32") == \
        products.Product(1, 512, 512, 512, 4).start_and_busy_s(CARDS["t4"], "tf32")


@pytest.mark.parametrize("rows, columns, depth", [(4096, 1008, 1024), (2048, 16, 2048)])
def test_rows_that_are_not_aligned_halve_the_rate(rows, columns, depth):
    problem = products.Product(1, rows, columns, depth, 2)
    for card in (CARD, CARDS["t4"]):
        one, other = (sum(Product(problem, aligned).start_and_busy_s(card, "float16")) for aligned in (True, False))
        assert 1.2 < other / one <= 2
    tiny = products.Product(1, 100_000, 4, 4, 2)  # no tile to speak of
    assert Product(tiny, False).start_and_busy_s(CARD, "float16") == Product(tiny, True).start_and_busy_s(CARD, "float16")


def test_a_convolution_without_tensor_cores_is_the_float32_one():
    assert of(element_bytes=4).start_and_busy_s(CARDS["v100"], "tf32") == \
        replace(SHAPE, element_bytes=4).start_and_busy_s(CARDS["v100"], "float32")


def test_twice_the_batch_takes_about_twice_as_long():
    for direction in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT):
        once, twice = (seconds(of(direction=direction, batch=batch)) for batch in (64, 128))
        assert 1.8 < twice / once <= 2.05


def test_contiguous_images_take_longer_than_channels_last():
    for direction in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT):
        assert seconds(of(direction=direction, channels_last=False)) > seconds(of(direction=direction))


def test_narrow_groups_compute_at_a_lower_rate():
    # 256 channels in g groups have 1/g of the FLOPs, and take more than 1/g of the time.
    assert seconds(of(groups=32)) > seconds(SHAPE_PASS) / 32 * 2


SHAPE_PASS = Pass(SHAPE)


def test_gradients_of_few_groups_in_channels_last_are_slow():
    few, many = (of(direction=INPUT_GRADIENT, groups=groups) for groups in (16, 32))
    assert seconds(few) > 3 * seconds(many)


def test_channels_are_padded_to_eight():
    assert of(channels_in=3).work(CARD).flops == of(channels_in=8).work(CARD).flops


@pytest.mark.parametrize("window, stride, channels, width, takes", [
    (3, 1, 64, 28, True), (7, 1, 64, 28, False), (3, 2, 64, 28, False), (3, 2, 256, 28, True), (5, 1, 16, 28, False),
    (3, 1, 64, 6, False), (3, 2, 512, 14, True)])
def test_which_depthwise_convolutions_cudnn_takes_in_contiguous_order(window, stride, channels, width, takes):
    shape = replace(SHAPE, window=(window, window), stride=(stride, stride), channels_in=channels, channels_out=channels,
                    groups=channels, size_in=(width, width), channels_last=False)
    assert tensor_cores._cudnn_takes(shape) == takes
    assert ("aten" in Pass(shape).work(CARD).rates[0]) != takes


def test_depthwise_needs_no_tensor_cores():
    assert not of(groups=256).work(CARD).on_tensor_cores


def test_attention_takes_its_flops():
    one, two = (seconds(Attention(flops, 1e6, False, 10_000)) for flops in (1e12, 2e12))
    assert 1.9 < two / one < 2.1
    assert seconds(Attention(1e12, 1e6, True, 10_000)) > one


def test_a_card_held_by_its_power_sustains_less_of_its_peak():
    known = {"fed": 1.05}
    share = {key: tensor_cores.sustained_share(CARDS[key], known) for key in ("l4", "a100", "rtx4090")}
    assert share["l4"] < 0.6 < share["a100"] < share["rtx4090"] <= 1.05


def test_a_slowed_card_takes_longer_by_its_factor():
    slow = CARD.slowed(3.0)
    for problem in (product(1, 2048, 2048, 2048), Pass(SHAPE), of(channels_last=False), of(groups=32), of(groups=256)):
        assert problem.start_and_busy_s(slow, "float16")[1] == pytest.approx(3 * problem.start_and_busy_s(CARD, "float16")[1])


def test_where_tf32_is_allowed_float32_may_be_taken():
    narrow, wide = (of(batch=256, channels_in=channels, channels_out=channels, size_in=(64, 64), size_out=(64, 64),
                       element_bytes=4, channels_last=False) for channels in (10, 512))
    for each, faster in ((narrow, 1.0), (wide, 1.5)):
        plain, allowed = seconds(each.of, CARDS["a100"], "float32"), seconds(each, CARDS["a100"], "tf32")
        assert plain >= faster * allowed
