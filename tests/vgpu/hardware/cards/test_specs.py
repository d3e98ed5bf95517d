"""The cards' data sheets."""

import pytest

from gapless.vgpu import CARDS
from gapless.vgpu.hardware.cards.specs import find_model


@pytest.mark.parametrize("key", ["t4", "a10g", "a40", "a100", "h100", "h200", "l4"])
def test_the_cards_of_the_course_are_known(key):
    card = CARDS[key]
    assert card.key == key
    assert card.source


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_figures_have_the_size_of_a_data_sheet(card):
    assert 8 * 2**30 <= card.memory_bytes <= 200 * 2**30
    assert 200e9 <= card.bandwidth_bytes_per_s <= 10e12
    assert card.peak_flops["float32"] <= card.peak_flops.get("tf32", float("inf"))
    assert card.peak_flops["float32"] < card.peak_flops["float16"]
    assert ("bfloat16" in card.peak_flops) == (card.compute_capability >= (8, 0)) == ("tf32" in card.peak_flops)
    assert 12e9 <= card.pcie_bytes_per_s <= 64e9


@pytest.mark.parametrize("gpu, card", [
    ("NVIDIA H200", "h200"), ("NVIDIA A100-SXM4-40GB", "a100"), ("Tesla T4", "t4"), ("NVIDIA A10G", "a10g"),
    ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ("Tesla V100-PCIE-32GB", "v100_pcie"), ("Tesla V100-SXM2-16GB", "v100"), ("NVIDIA A100-PCIE-40GB", "a100_pcie"),
    ("NVIDIA A100 80GB PCIe", "a100_80gb_pcie"), ("NVIDIA A100-SXM4-80GB", "a100_80gb"), ("NVIDIA H100 80GB HBM3", "h100"),
    ("NVIDIA GeForce RTX 5090", None),
])
def test_model_is_found_by_cudas_name(gpu, card):
    assert find_model(gpu) == card
