"""How long collectives take: NCCL's model by hand, and what must hold of any such times."""

import itertools

import pytest

from gapless.vgpu.hardware.cards.fitted import constants
from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times.interconnect import MACHINES, course, find_machine, machine_name

KNOWN = constants("collectives")


def us(*args):
    return course(*args).ns / 1e3


def test_few_bytes_on_nvlink_by_hand():
    """NCCL 2.30's tables: a ring of 4 on NVLink with LL is 6.6 µs and 6 hops of 0.6 µs."""
    found = course("AllReduce", 8, [0] * 4, CARDS["a100"])
    assert found.ns == pytest.approx(1e3 * (KNOWN["apart_8_us"] + KNOWN["switch_8"] * 10.2), abs=1)
    assert (found.algorithm, found.protocol, found.blocks) == ("RING", "LL", 1)


def test_many_bytes_on_nvlink_by_hand():
    """240 GB/s on the rings of an A100 (12 links of 20), of which 8 ranks use 8 / 14 for each byte."""
    found = course("AllReduce", 2**30, [0] * 8, CARDS["a100"])
    assert (found.algorithm, found.protocol) == ("RING", "SIMPLE")
    nccl_us = 8.4 + 14 * 3.4 + 2**30 / (240e3 * 8 / 14)
    assert found.ns == pytest.approx(1e3 * (KNOWN["apart_8_us"] + KNOWN["switch_8"] * nccl_us), abs=1)
    assert found.share(CARDS["a100"]) == 1000 * 24 // 108


def test_over_pcie_by_hand():
    """Three quarters of 32 GB/s; reduce-scatter and all-gather together are an all-reduce."""
    nbytes = 2**28
    nccl_us = 8.4 + 6 * 5.7 + nbytes / (24e3 * 4 / 6)
    assert us("AllReduce", nbytes, [0] * 4, CARDS["a10g"]) == pytest.approx(KNOWN["apart_8_us"] + KNOWN["pcie"] * nccl_us, abs=1e-3)
    halves = us("ReduceScatter", nbytes, [0] * 4, CARDS["a10g"]) + us("AllGather", nbytes, [0] * 4, CARDS["a10g"])
    assert halves == pytest.approx(us("AllReduce", nbytes, [0] * 4, CARDS["a10g"]) + KNOWN["apart_8_us"] + KNOWN["pcie"] * 8.4,
                                   abs=2e-3)


def test_between_machines_the_network_holds_it_back():
    """g5 instances with 100 Gb/s: 12.5 GB/s, of which 8 ranks use 8 / 14; DGX with a card a GPU: 4 × 25 GB/s."""
    nbytes = 2**30
    assert us("AllReduce", nbytes, [0] * 4 + [1] * 4, CARDS["a10g"]) == pytest.approx(nbytes / (12.5e3 * 8 / 14), rel=0.01)
    assert us("AllReduce", nbytes, [0] * 4 + [1] * 4, CARDS["a100"]) == pytest.approx(nbytes / (100e3 * 8 / 14), rel=0.02)


def test_a_tree_where_there_are_many_machines():
    assert course("AllReduce", 1 << 16, list(range(32)), CARDS["h100"]).algorithm == "TREE"


@pytest.mark.parametrize("function", ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv"])
@pytest.mark.parametrize("card", ["t4", "v100", "a10g", "a100", "h100", "rtx4090"])
@pytest.mark.parametrize("ranks", [[0, 0], [0] * 8, [0, 0, 1, 1], [0, 1, 2, 3]], ids=str)
def test_more_bytes_take_as_long_or_longer(function, card, ranks):
    """Where NCCL's correction of trees ends a step, its own times fall by a little: 2 % are let through."""
    times = [course(function, 1 << power, ranks, CARDS[card]).ns for power in range(31)]
    assert all(later >= 0.98 * earlier for earlier, later in itertools.pairwise(times))
    assert 5_000 < times[0] < 500_000


def test_cards_from_files_stand_in_the_machine_of_their_name():
    import dataclasses

    assert machine_name(dataclasses.replace(CARDS["h100"], key="mine")) == "dgx_h100"
    assert machine_name(dataclasses.replace(CARDS["h100"], key="mine", name="Another")) == "pcie"


def test_bridges_join_two_cards_and_more_meet_over_pcie():
    nbytes, card = 2**26, CARDS["a100_80gb_pcie"]
    two, four = (course("AllReduce", nbytes, [0] * count, card, MACHINES["pairs_a100"]).ns for count in (2, 4))
    assert four == course("AllReduce", nbytes, [0] * 4, card, MACHINES["pcie"]).ns > 8 * two
    assert course("AllReduce", nbytes, [0] * 2, card, MACHINES["pcie"]).ns > 5 * two


def test_a_network_is_as_fast_as_it_is_told():
    nbytes, ranks = 2**26, [0] * 8 + [1] * 8
    for speed in (2, 6.5, 20):
        found = course("AllReduce", nbytes, ranks, CARDS["a100"], find_machine(f"dgx_a100@{speed}"))
        assert found.ns == pytest.approx(nbytes / speed * 30 / 16, rel=0.25)


@pytest.mark.parametrize("text, says", [("dgx", "no machine is called 'dgx'"), ("dgx_a100@", None), ("pcie@fast", "'fast' is no speed"),
                                        ("pcie@0", "no speed"), ("pcie@-1", "no speed"), ("pcie@nan", "no speed"), ("@3", "no machine")])
def test_a_machine_is_found_by_its_name_and_network(text, says):
    if says is None:
        assert find_machine(text) is MACHINES[text[:-1]]
        return
    with pytest.raises(ValueError, match=says):
        find_machine(text)


def test_another_function_is_an_error():
    with pytest.raises(ValueError, match="Sendrecv"):
        course("Sendrecv", 8, [0, 0], CARDS["a100"])
