"""A measured operator is predicted by running it."""

import pytest
import torch

from gapless import vgpu
from gapless.fidelity import predict
from gapless.fidelity.measured import OPERATORS, Operator
from gapless.vgpu.hardware.kernels.costs import kernels


def test_every_operator_that_tables_hold_has_a_program():
    assert set(predict.PROGRAMS) == set(OPERATORS)
    sizes = {"bmm": (2, 3, 4, 5), "linear": (2, 3, 4, 5), "conv": (2, 3, 4, 3, 8, 1, 1)}
    for name in OPERATORS:
        out = predict.PROGRAMS[name](torch.device("cpu"), *sizes.get(name, (3, 7)))()
        assert out.shape == {"bmm": (2, 3, 5), "linear": (2, 3, 5), "conv": (2, 4, 8, 8)}.get(name, (3, 7))


def test_the_time_is_that_of_the_kernels_alone():
    rows = [Operator(card, "", "bmm", (4, 512, 256, 128), 1.0) for card in ("t4", "h100", "t4")]
    found = list(predict.kernel_ms(rows))
    # NeuSight's n is the depth.
    meta = [torch.empty(shape, device="meta") for shape in ((4, 512, 256), (4, 256, 128), (4, 512, 128))]
    one, = kernels("bmm", tuple(meta[:2]), {}, meta[2])
    assert found == [one.duration_ns(vgpu.CARDS[row.card]) / 1e6 for row in rows]
    assert found[0] > found[1]


def test_convolutions_are_predicted_without_tf32_and_the_switch_is_put_back():
    before = torch.backends.cudnn.conv.fp32_precision
    row = Operator("a100", "", "conv", (32, 256, 256, 3, 28, 1, 1), 1.0)
    ms, = predict.kernel_ms([row])
    assert torch.backends.cudnn.conv.fp32_precision == before
    # 59 GFLOP at most at the float32 peak: Winograd's 4×4 tiles do with a quarter of the products.
    assert ms > 2 * 32 * 28 * 28 * 256 * 256 * 9 / 19.5e12 * 1e3 / 4.1


def test_the_hosts_part_is_added(monkeypatch):
    monkeypatch.setattr(predict.hosts, "shipped", lambda: {"Tesla T4": {"share": 0.5, "floor_us": {"add": 50.0}}})
    known, unknown = (Operator("t4", device, "add", (4000, 4000), 1.0) for device in ("Tesla T4", "t4"))
    with_gap, without = predict.operator_ms([known, unknown])
    assert with_gap == pytest.approx(without + 0.025)
    small, = predict.operator_ms([Operator("t4", "Tesla T4", "add", (10, 10), 1.0)])
    assert small == pytest.approx(0.05)
