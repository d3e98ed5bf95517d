import pytest
import torch

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.times import precision

CARD = CARDS["a100"]


def kernels(name, *args, out=None, **kwargs):
    return costs.kernels(name, args, kwargs, out)


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.fixture
def switch():
    before = torch.backends.cuda.matmul.fp32_precision
    yield
    torch.backends.cuda.matmul.fp32_precision = before


def test_float32_products_are_tf32_only_where_allowed(switch):
    x = meta(4096, 4096)
    durations = {}
    for setting in ("ieee", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = setting
        durations[setting], = (k.duration_ns(CARD) for k in kernels("mm", x, x, out=x))
    assert durations["ieee"] / durations["tf32"] == pytest.approx(156 / 19.5, rel=0.25)


def test_default_precision_obeys_no_switch_and_is_pytorchs(switch):
    assert {kind: precision._precision("cuda", kind) for kind in precision._DEFAULTS} == precision._DEFAULTS
    x = meta(4096, 4096)
    before = kernels("mm", x, x, out=x)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    with precision.default_precision(), precision.default_precision():
        assert kernels("mm", x, x, out=x) == before
    assert kernels("mm", x, x, out=x) != before


def test_a_card_without_tf32_computes_in_float32(switch):
    x = meta(4096, 4096)
    in_float32, = kernels("mm", x, x, out=x)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    kernel, = kernels("mm", x, x, out=x)
    assert kernel.dtype == "tf32"
    assert kernel.duration_ns(CARDS["t4"]) == in_float32.duration_ns(CARDS["t4"])
