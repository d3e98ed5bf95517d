"""By how much modelled times may miss."""

import pytest

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.cards.fitted import constants
from gapless.vgpu.hardware.times.uncertainty import of_kernel, of_step

T4, A10G = CARDS["t4"], CARDS["a10g"]
OWN, SHARED = constants("uncertainty", "t4"), constants("uncertainty")


def test_a_kernels_is_its_kinds_and_a_measured_cards_own():
    assert of_kernel(T4, "matmul", "float32") == OWN["matmul:float32"] != SHARED["matmul:float32"]
    assert of_kernel(T4, "matmul", "float16") == of_kernel(T4, "matmul", "bfloat16") == SHARED["matmul"]
    assert of_kernel(A10G, "pointwise", "float16") == SHARED["pointwise"] < of_kernel(A10G, "matmul", "float32")
    assert of_kernel(A10G, "sort") == of_kernel(A10G, "convolution", "float16") == SHARED["step"], "nobody measured them alone"


def test_a_steps_is_the_mean_of_its_kernels_by_time():
    kernels = [("matmul", "float32", 300), ("pointwise", "float32", 100), ("gather", "float32", 100)]
    expected = (3 * OWN["matmul:float32"] + OWN["pointwise"] + OWN["step"]) / 5
    assert of_step(T4, kernels) == pytest.approx(expected) and expected > OWN["step"]


@pytest.mark.parametrize("kernels", [[], [("pointwise", "float32", 7)], [("sort", "int64", 7)], [("matmul", "float32", 0)]])
def test_a_step_is_never_surer_than_measured_steps(kernels):
    assert of_step(T4, kernels) == OWN["step"]
