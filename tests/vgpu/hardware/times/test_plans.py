"""Plans of a convolution: which there are, in which order, and what their kernels take."""

import itertools
from dataclasses import replace

import pytest

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times.convolutions import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Convolution
from gapless.vgpu.hardware.times.plans import plans, without_workspace
from gapless.vgpu.hardware.times.tensor_cores import Pass

DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
# NVIDIA's example: 64 filters of 3×3 on 32×64×64×64.
NARROW = Convolution(FORWARD, 32, 64, 64, (64, 64), (64, 64), (3, 3), (1, 1), (1, 1), (1, 1))
HALF = Pass(replace(NARROW, element_bytes=2))


def half(**changes):
    return Pass(replace(HALF.of, **changes))


def gain(problem, card, dtype="float32"):
    """How many times as long the heuristic's choice takes as the best."""
    found = plans(problem, CARDS[card], dtype)
    return found[0].seconds / min(plan.seconds for plan in found)


@pytest.mark.parametrize("card", ["t4", "v100", "a10g", "a100", "h100"])
def test_nvidias_example_gains_forward_and_for_the_inputs_gradient(card):
    forward, of_input, of_weight = (gain(replace(NARROW, direction=direction), card) for direction in DIRECTIONS)
    assert 1.3 < forward < 1.6 and of_input == forward and of_weight == 1


def test_the_heuristic_does_not_trust_fused_winograd_in_narrow_layers():
    card = CARDS["v100"]
    found = plans(NARROW, card, "float32")
    assert [plan.engine for plan in found[:2]] == ["implicit_gemm 128x64", "winograd 1x8x16"]
    assert found[1].seconds == min(plan.seconds for plan in found)
    trusted = [plan.seconds for plan in found if plan is not found[1]]
    assert trusted == sorted(trusted)
    wide = plans(replace(NARROW, channels_in=128, channels_out=128), card, "float32")
    assert [plan.seconds for plan in wide] == sorted(plan.seconds for plan in wide)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("problem, dtype", [(NARROW, "float32"), (replace(NARROW, channels_last=True), "float32"),
                                            (HALF, "float16"), (half(channels_last=True), "float16"),
                                            (half(groups=4), "float16"), (half(groups=64), "float16"), (Pass(NARROW), "tf32")])
def test_the_fastest_plan_takes_what_the_fit_says(problem, dtype, direction):
    shape = replace(problem if isinstance(problem, Convolution) else problem.of, direction=direction)
    problem = shape if isinstance(problem, Convolution) else Pass(shape)
    for card in CARDS.values():
        best = min(plans(problem, card, dtype), key=lambda plan: plan.seconds)
        fitted_s = sum(problem.start_and_busy_s(card, dtype))
        floor_s = card.kernel_floor_ns / 1e9 * (len(best.parts) - 1)  # kernels around it take at least that
        assert fitted_s <= best.seconds * (1 + 1e-9) <= fitted_s + floor_s + 1e-12 or best.seconds == pytest.approx(fitted_s)


@pytest.mark.parametrize("dtype", ["float32", "tf32"])
def test_the_fastest_is_among_the_first_ten_which_pytorch_tries(dtype):
    for card in CARDS.values():
        for direction in DIRECTIONS:
            for window, channels in itertools.product((1, 3, 5, 7), (16, 64, 256)):
                shape = replace(NARROW, direction=direction, window=(window, window), channels_in=channels, batch=4)
                found = plans(shape if dtype == "float32" else Pass(shape), card, dtype)
                assert min(found, key=lambda plan: plan.seconds) in found[:10]


@pytest.mark.parametrize("direction, names", [
    (FORWARD, ["nchwToNhwcKernel", "implicit_gemm", "nhwcToNchwKernel"]),
    (INPUT_GRADIENT, ["nchwToNhwcKernel", "implicit_gemm", "nhwcToNchwKernel"]),
    (WEIGHT_GRADIENT, ["nchwToNhwcKernel", "nchwToNhwcKernel", "implicit_gemm"])])
def test_in_contiguous_order_tensor_cores_have_their_images_turned(direction, names):
    problem = half(direction=direction, channels_in=32)
    x, y = (2 * 32 * channels * 64 * 64 for channels in (32, 64))
    turned = {FORWARD: [x, y], INPUT_GRADIENT: [y, x], WEIGHT_GRADIENT: [x, y]}[direction]
    plan = plans(problem, CARDS["a100"], "float16")[0]
    assert [part.name.partition(" ")[0] for part in plan.parts] == names
    assert [part.turns for part in plan.parts if part.turns] == turned
    assert plan.workspace_bytes == x + y
    last, = plans(Pass(replace(problem.of, channels_last=True)), CARDS["a100"], "float16")[0].parts
    assert last.turns == 0


def test_in_float32_it_is_the_other_way_round():
    card = CARDS["v100"]
    plain, last = (plans(replace(NARROW, channels_last=each), card, "float32")[0] for each in (False, True))
    assert [part.name for part in last.parts] == ["nhwcToNchwKernel", *(part.name for part in plain.parts), "nchwToNhwcKernel"]
    image = 4 * 32 * 64 * 64 * 64
    assert last.parts[0].busy_s == pytest.approx(2 * image / (900e9 * 0.8))
    assert last.seconds == pytest.approx(plain.seconds + 2 * last.parts[0].busy_s)


@pytest.mark.parametrize("channels, padded", [(64, []), (63, ["nhwcAddPaddingKernel"]), (3, ["nhwcAddPaddingKernel"])])
def test_in_channels_last_order_odd_channels_are_padded(channels, padded):
    problem = half(channels_in=channels, channels_last=True)
    plan = plans(problem, CARDS["a100"], "float16")[0]
    assert [part.name for part in plan.parts if part.turns] == padded
    assert plan.workspace_bytes == (2 * 32 * 64 * 64 * (-(-channels // 8) * 8) if padded else 0)
    aligned = plans(half(channels_in=-(-channels // 8) * 8, channels_last=True), CARDS["a100"], "float16")[0]
    assert (plan.seconds > aligned.seconds) == bool(padded)


def test_tf32_aligns_four_channels_and_contiguous_images_are_padded_as_they_are_turned():
    four = Pass(replace(NARROW, channels_in=4, channels_last=True))
    assert len(plans(four, CARDS["a100"], "tf32")[0].parts) == 1
    assert {part.name for part in plans(half(channels_in=63), CARDS["a100"], "float16")[0].parts if part.turns} == {
        "nchwToNhwcKernel", "nhwcToNchwKernel"}


def test_a_result_with_odd_channels_is_padded_while_it_is_computed():
    found = plans(half(channels_out=65, channels_last=True), CARDS["a100"], "float16")[0].parts
    assert [part.name for part in found][1:] == ["nhwcRemovePaddingKernel"]
    of_weight = plans(half(direction=WEIGHT_GRADIENT, channels_out=65, channels_last=True), CARDS["a100"], "float16")[0].parts
    assert [part.name for part in of_weight][:-1] == ["nhwcAddPaddingKernel"]


def test_other_tiles_take_longer_by_what_they_compute_in_vain():
    few = half(batch=1, size_in=(16, 16), size_out=(16, 16), channels_last=True)
    found = {plan.engine: plan.seconds for plan in plans(few, CARDS["a100"], "float16")}
    assert found["implicit_gemm 64x64"] == min(found.values()) < found["implicit_gemm 256x128"]


def test_where_tf32_is_allowed_float32s_plans_are_there_too():
    found = {plan.engine for plan in plans(Pass(NARROW), CARDS["a100"], "tf32")}
    assert {"implicit_gemm 256x128", "fft 16x16", "winograd 1x8x16"} <= found


def test_without_room_there_is_a_plan_that_needs_none():
    for problem in (NARROW, replace(NARROW, channels_last=True), HALF, half(groups=64)):
        assert without_workspace(problem, CARDS["t4"], "float16").workspace_bytes == 0
