"""Kernels that wait for memory: chains of loads, one block, sectors."""

import pytest

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.times import scattered
from gapless.vgpu.hardware.times.geometry import cycle_s
from gapless.vgpu.hardware.times.scattered import GLOBAL, Chains, OneBlock, Repeats, accumulation, sector_bytes, spread

A100 = CARDS["a100"]


def seconds(problem, card=A100):
    return sum(problem.start_and_busy_s(card, "float32"))


@pytest.mark.parametrize("card", ["t4", "v100", "a100", "rtx3090", "l4", "h100"])
def test_a_cycle_is_that_of_the_data_sheet(card):
    assert 1 / cycle_s(CARDS[card]) == pytest.approx(CARDS[card].clock_hz, rel=0.03)


@pytest.mark.parametrize("row, expected", [(1, 32), (4, 32), (8, 32), (16, 32), (32, 32), (40, 64), (36, 64), (64, 64), (512, 512)])
def test_a_row_costs_the_sectors_that_it_touches(row, expected):
    """40 bytes begin at 0, 8, 16 or 24 of a sector, and touch two each time."""
    assert sector_bytes(row) == expected


def test_chains_take_the_longest_of_bytes_of_all_and_of_the_slowest():
    at_once = 108 * 64
    cycle = cycle_s(A100)
    assert seconds(Chains("scatter", 0, 10 * at_once, 1000, 1000)) == pytest.approx(10_000 * cycle)
    assert seconds(Chains("scatter", 0, 4, 1000, 1e6)) == pytest.approx(1e6 * cycle)
    moved = 1e9
    assert seconds(Chains("scatter", moved, 4, 1000, 1000)) == pytest.approx(
        moved / (A100.bandwidth_bytes_per_s * A100.memory_share("scatter")))


def test_the_slowest_chain_leaves_the_card_to_others():
    start, busy = Chains("scatter", 0, 108 * 64, 100, 1e6).start_and_busy_s(A100, "")
    assert start > 1000 * busy
    start, busy = OneBlock(1000, 500, 64).start_and_busy_s(A100, "")
    assert busy * 108 == pytest.approx(start + busy)


def test_one_block_waits_or_moves_what_one_sm_can():
    assert seconds(OneBlock(1000, 500, 64)) == pytest.approx(500_000 * cycle_s(A100))
    assert seconds(OneBlock(1000, 500, 64_000)) == pytest.approx(1_000_000 * cycle_s(A100))


@pytest.mark.parametrize("problem", [Chains("scatter", 1e9, 1000, 1000, 1e6), OneBlock(1000, 500, 64)])
def test_a_slowed_card_takes_as_much_longer(problem):
    assert seconds(problem, A100.slowed(7)) == pytest.approx(7 * seconds(problem))


def test_hits_at_random():
    assert spread(10, 10**9) == Repeats(10, 10, 2)  # hardly ever two in one row
    few = spread(1_000_000, 10)
    assert few.distinct == 10 and 100_000 < few.longest < 101_000
    assert spread(1, 1) == Repeats(1, 1, 1)
    assert spread(0, 5).count == 0


def test_equal_positions_are_added_one_after_the_other():
    """Hand-worked: 500 000 hits of one row; counted one by one, 32 added at a time."""
    count = 500_000
    same = seconds(accumulation(Repeats(count, 1, count), 1, 4, 1, False))
    apart = seconds(accumulation(Repeats(count, count, 1), 1, 4, 1, False))
    assert same == pytest.approx(count * (scattered.NEXT + GLOBAL / 16) * cycle_s(A100), rel=0.01)
    assert same > 100 * apart
    # Up to 2.0 each addition went to memory and back.
    assert seconds(accumulation(Repeats(count, 1, count), 1, 4, 1, False, before_2_1=True)) > 5 * same


@pytest.mark.parametrize("row", [1, 8, 32, 33, 4096])
def test_more_hits_take_longer(row):
    times = [seconds(accumulation(spread(count, 1000), row, 4, 1, False)) for count in (10, 1000, 100_000, 10_000_000)]
    assert times == sorted(times) and times[-1] > times[0]
