"""How long collectives take: NCCL's model by hand, and what must hold of any such times."""

import itertools

import pytest

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times.interconnect import MACHINES, course, machine_of


def us(*args):
    return course(*args).ns / 1e3


def test_few_bytes_on_nvlink_by_hand():
    """NCCL 2.30's tables: a ring of 4 on NVLink with LL is 6.6 µs and 6 hops of 0.6 µs."""
    found = course("AllReduce", 8, [0] * 4, CARDS["a100"])
    assert (found.ns, found.algorithm, found.protocol, found.blocks) == (10_200, "RING", "LL", 1)


def test_many_bytes_on_nvlink_by_hand():
    """240 GB/s on the rings of an A100 (12 links of 20), of which 8 ranks use 8 / 14 for each byte."""
    found = course("AllReduce", 2**30, [0] * 8, CARDS["a100"])
    assert (found.algorithm, found.protocol) == ("RING", "SIMPLE")
    assert found.ns == pytest.approx(1e3 * (8.4 + 14 * 3.4) + 2**30 / (240 * 8 / 14), abs=1)
    assert found.share(CARDS["a100"]) == 1000 * 24 // 108


def test_over_pcie_by_hand():
    """Three quarters of 32 GB/s; reduce-scatter and all-gather together are an all-reduce."""
    nbytes = 2**28
    assert us("AllReduce", nbytes, [0] * 4, CARDS["a10g"]) == pytest.approx(8.4 + 6 * 5.7 + nbytes / (24e3 * 4 / 6), abs=1e-3)
    halves = us("ReduceScatter", nbytes, [0] * 4, CARDS["a10g"]) + us("AllGather", nbytes, [0] * 4, CARDS["a10g"])
    assert halves == pytest.approx(us("AllReduce", nbytes, [0] * 4, CARDS["a10g"]) + 8.4, abs=2e-3)


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

    assert machine_of(dataclasses.replace(CARDS["h100"], key="mine")) is MACHINES["h100"]
    assert machine_of(dataclasses.replace(CARDS["h100"], key="mine", name="Another")).nvlinks == 0


def test_another_function_is_an_error():
    with pytest.raises(ValueError, match="Sendrecv"):
        course("Sendrecv", 8, [0, 0], CARDS["a100"])
