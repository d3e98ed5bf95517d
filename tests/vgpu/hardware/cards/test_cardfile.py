"""Cards by their names, and card files of one's own."""

import json
import re

import pytest

import gapless
from gapless import vgpu
from gapless.vgpu import CARDS, CardError, Host, Timeline, UnknownCard, find_card
from gapless.vgpu.hardware.cards import cardfile
from gapless.vgpu.hardware.cards.cardfile import card_from_json, card_to_json
from gapless.vgpu.hardware.cards.specs import MEMORY_EFFICIENCY
from gapless.vgpu.hardware.kernels.costs import Kernel

CARD = {
    "key": "mine", "name": "NVIDIA Mine", "memory_bytes": 2**34, "bandwidth_bytes_per_s": 1e12,
    "peak_flops": {"float32": 1e13, "bfloat16": 1e14}, "sm_count": 50, "pcie_bytes_per_s": 3.2e10,
    "compute_capability": [8, 0],
    "source": "made up",
}


def file_of(card, **beside):
    return {"schema": "gapless card 1", "card": card, **beside}


@pytest.fixture
def written(tmp_path):
    def write(value, name="Mine.json"):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def test_a_card_is_found_whatever_the_case():
    assert find_card("A100") is CARDS["a100"]


def test_an_unknown_card_is_told_which_are_known():
    with pytest.raises(UnknownCard, match="'tpu'.*a10g.*h200"):
        find_card("tpu")


def test_a_card_file_is_a_card(written):
    card = find_card(str(written(file_of(CARD, measurements=[1], note="n"))))
    assert (card.name, card.memory_bytes, card.compute_capability, card.peak_flops["bfloat16"]) == ("NVIDIA Mine", 2**34,
                                                                                                    (8, 0), 1e14)
    assert card.memory_share("pointwise") == MEMORY_EFFICIENCY["pointwise"]
    assert card.host == Host()


def test_a_card_files_own_figures_count(written):
    card = find_card(str(written(file_of({
        **CARD, "memory_efficiency": {"pointwise": 0.5}, "math_efficiency": {"matmul": 0.6, "matmul:bfloat16": 0.4},
        "kernel_floor_ns": 1000, "kernel_start_ns": {"pointwise": 700}, "host": {"launch_ns": 9}}))))
    assert Kernel("k", "pointwise", 1e6).duration_ns(card) == 700 + 2000
    assert Kernel("k", "pointwise", 1).duration_ns(card) == 1000
    assert Kernel("k", "reduction", 1e6).duration_ns(card) == round(1e6 / (1e12 * MEMORY_EFFICIENCY["reduction"]) * 1e9)
    assert Kernel("k", "matmul", 0, 1e9, "float32").duration_ns(card) == round(1e9 / (1e13 * 0.6) * 1e9)
    assert Kernel("k", "matmul", 0, 1e9, "bfloat16").duration_ns(card) == round(1e9 / (1e14 * 0.4) * 1e9)
    assert (Timeline(card).host.launch_ns, Timeline(card).host.op_ns) == (9, Host().op_ns)


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_every_card_can_be_written_and_read_back(card):
    assert card_from_json(json.loads(json.dumps(card_to_json(card)))) == card


def test_the_device_of_a_card_file(written):
    path = written(file_of(CARD))
    assert gapless.device(f"vgpu:{path}").type == "vgpu"  # the case of the path is kept
    assert vgpu.card().name == "NVIDIA Mine"
    vgpu.timeline().host_work(5)
    gapless.device(f"vgpu:{path}")
    assert vgpu.timeline().host_ns == 5  # the same card again: the clocks go on
    written(file_of({**CARD, "name": "NVIDIA Other"}))
    gapless.device(f"vgpu:{path}")
    assert vgpu.card().name == "NVIDIA Other"


def test_a_measured_card_is_found_by_its_name_and_counts_before_the_data_sheet(tmp_path, monkeypatch, written):
    monkeypatch.setattr(cardfile, "FOLDERS", (tmp_path,))
    written(file_of({**CARD, "name": "measured"}), "a100.json")
    assert find_card("A100").name == "measured"
    assert find_card("t4") is CARDS["t4"]


def without(key):
    return {name: value for name, value in CARD.items() if name != key}


@pytest.mark.parametrize("value, told", [
    ("{", "not JSON"),
    ("", "not JSON"),
    ('{"schema": NaN}', "NaN is no number"),
    ([], "the file is [], not an object"),
    ({"card": CARD}, "schema is None"),
    ({"schema": "gapless card 1"}, "card is missing"),
    (file_of(CARD, speed=1), "the file has an unknown key 'speed'"),
    (file_of([1]), "card is [1], not an object"),
    (file_of({**CARD, "bandwith": 1}), "card has an unknown key 'bandwith'"),
    (file_of(without("memory_bytes")), "card.memory_bytes is missing"),
    (file_of({**CARD, "memory_bytes": -1}), "card.memory_bytes is -1"),
    (file_of({**CARD, "memory_bytes": 0}), "card.memory_bytes is 0"),
    (file_of({**CARD, "memory_bytes": 80}), "card.memory_bytes is 80"),
    (file_of({**CARD, "memory_bytes": 2**34 + 0.5}), "card.memory_bytes is 1.71799e+10, not a whole number"),
    (file_of({**CARD, "memory_bytes": "80 GB"}), 'card.memory_bytes is "80 GB", not a number'),
    (file_of({**CARD, "sm_count": True}), "card.sm_count is true, not a number"),
    (file_of({**CARD, "bandwidth_bytes_per_s": 2000}), "card.bandwidth_bytes_per_s is 2000"),
    (file_of({**CARD, "bandwidth_bytes_per_s": 1e300}), "card.bandwidth_bytes_per_s is 1e+300"),
    (file_of({**CARD, "pcie_bytes_per_s": None}), "card.pcie_bytes_per_s is null, not a number"),
    (file_of({**CARD, "name": ""}), 'card.name is "", not a text'),
    (file_of({**CARD, "compute_capability": [8]}), "card.compute_capability is [8]"),
    (file_of({**CARD, "compute_capability": [8, -1]}), "card.compute_capability[1] is -1"),
    (file_of({**CARD, "peak_flops": {"float32": 19.5}}), "card.peak_flops.float32 is 19.5"),
    (file_of({**CARD, "peak_flops": {"float16": 1e13}}), "card.peak_flops.float32 is missing"),
    (file_of({**CARD, "peak_flops": {"float32": 1e13, "fp16": 1e13}}), "card.peak_flops has an unknown key 'fp16'"),
    (file_of({**CARD, "memory_efficiency": {"pointwise": 85}}), "card.memory_efficiency.pointwise is 85"),
    (file_of({**CARD, "memory_efficiency": {"pointless": 0.8}}), "card.memory_efficiency has an unknown key 'pointless'"),
    (file_of({**CARD, "math_efficiency": {"matmul:fp8": 0.8}}), "card.math_efficiency has an unknown key 'matmul:fp8'"),
    (file_of({**CARD, "kernel_start_ns": {"sort": -1}}), "card.kernel_start_ns.sort is -1"),
    (file_of({**CARD, "host": {"launch_ns": 0}}), "card.host.launch_ns is 0"),
    (file_of({**CARD, "host": {"queue_length": 1.5}}), "card.host.queue_length is 1.5, not a whole number"),
    (file_of({**CARD, "host": {"speed": 1}}), "card.host has an unknown key 'speed'"),
])
def test_a_card_file_that_cannot_be_used_says_which_field(written, value, told):
    path = written(value)
    with pytest.raises(CardError, match=re.escape(told)) as raised:
        find_card(str(path))
    assert str(path) in str(raised.value)
    with pytest.raises(gapless.UnknownDevice, match=re.escape(told)):
        gapless.device(f"vgpu:{path}")


@pytest.mark.parametrize("name", ["nowhere.json", "folder.json"])
def test_a_card_file_that_is_not_there(tmp_path, name):
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(CardError, match=name):
        find_card(str(tmp_path / name))
