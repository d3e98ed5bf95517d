"""The measuring hosts' part in measured times."""

import pytest

from gapless.fidelity import hosts
from gapless.fidelity.measured import Operator
from gapless.vgpu.hardware.cards.specs import START_NS

GAP_US, FLOOR_US, RATE = 20.0, 38.0, 800e9


def row(op, b, h, us, device="Tesla V100-PCIE-32GB", card="v100_pcie"):
    return Operator(card, device, op, (b, h), us / 1e3)


def made_up(device="Tesla V100-PCIE-32GB", card="v100_pcie", sizes=(10, 15, 20, 25, 30, 3000, 4000, 5000, 6000, 7000)):
    return [row("relu", size, 3000, max(FLOOR_US, GAP_US + START_NS / 1e3 + 8 * size * 3000 / RATE * 1e6), device, card)
            for size in sizes]


def test_the_floor_and_the_gap_are_told_apart():
    found = hosts.fit(made_up())["Tesla V100-PCIE-32GB"]
    assert found["floor_us"] == {"relu": FLOOR_US}
    assert found["share"] * FLOOR_US == pytest.approx(GAP_US, rel=0.01)


def test_a_host_without_small_sizes_has_the_others_proportions_and_no_floor_above_its_times():
    found = hosts.fit(made_up() + made_up("NVIDIA L4", "l4", range(30_000, 30_006)))["NVIDIA L4"]
    assert found["floor_us"]["relu"] == pytest.approx(FLOOR_US, rel=0.01)
    quick = Operator("h100", "NVIDIA H100 80GB HBM3", "relu", (10, 10), 0.012)
    assert hosts.fit([*made_up(), quick])["NVIDIA H100 80GB HBM3"]["floor_us"]["relu"] == 12.0


def test_a_short_kernel_hides_behind_the_host():
    found = {"here": {"share": 0.5, "floor_us": {"relu": 40.0}}}
    assert hosts.measured_s(found, "here", "relu", 5e-6) == pytest.approx(40e-6)
    assert hosts.measured_s(found, "here", "relu", 100e-6) == pytest.approx(120e-6)
    assert hosts.hidden_s(found, "here", "relu") == pytest.approx(20e-6)


def test_where_nothing_is_known_a_time_is_the_kernels():
    assert hosts.measured_s({}, "elsewhere", "relu", 5e-6) == 5e-6
    assert hosts.measured_s({"here": {"share": 0.5, "floor_us": {}}}, "here", "conv", 5e-6) == 5e-6


def test_the_shipped_hosts_have_the_devices_of_the_data():
    found = hosts.shipped()
    assert {"Tesla T4", "NVIDIA L4", "NVIDIA H100 80GB HBM3"} <= set(found)
    for host in found.values():
        assert 0.3 < host["share"] <= 1 and all(5 < floor < 80 for floor in host["floor_us"].values())
