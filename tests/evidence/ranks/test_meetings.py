"""The same collective on several ranks: who came last, waiting, transfer."""

import pytest

from gapless.evidence.ranks.meetings import MeetingError, clock_offsets_us, find_meetings
from gapless.evidence.traces.trace import Trace

from ..kineto_events import span, step
from ..rank_events import collective, rank, real_ranks


def meetings(*ranks):
    return find_meetings(dict(enumerate(ranks)))


def test_the_shortest_kernel_is_the_transfer_and_its_rank_came_last():
    found, = meetings(Trace(collective(0, 100, 90, 1)), Trace(collective(0, 150, 40, 1)), Trace(collective(0, 170, 20, 1)))
    assert found.transfer_us == 20 and found.last == 2
    assert [found.waiting_us(rank) for rank in range(3)] == [70, 20, 0]
    assert found.transfer_ranges(0) == [(2, 18), (170, 190)]  # the block of 16 µs, the kernel


def test_clocks_that_disagree_change_nothing():
    found, = meetings(Trace(collective(0, 100, 90, 1)), Trace(collective(1e9, 1e9 + 150, 40, 1)))
    assert found.transfer_us == 40 and found.last == 1


def test_collectives_are_matched_by_order_within_their_group():
    rows = {0: [("a", (0, 1)), ("b", (0, 2))], 1: [("a", (0, 1)), ("b", (1, 3))],
            2: [("b", (0, 2)), ("a", (2, 3))], 3: [("a", (2, 3)), ("b", (1, 3))]}
    ranks = {r: Trace([event for place, group in enumerate(groups)
                       for event in collective(100 * place, 100 * place + 30, 10 + r, place, group=group)])
             for r, groups in rows.items()}
    found = find_meetings(ranks)
    assert {(meeting.group, *meeting.of_rank) for meeting in found} == {
        ("a [0, 1]", 0, 1), ("b [0, 2]", 0, 2), ("b [1, 3]", 1, 3), ("a [2, 3]", 2, 3)}
    assert {meeting.last for meeting in found} == {0, 1, 2}


def test_what_one_profiler_recorded_beside_the_common_steps_is_left_out():
    one = Trace([step(1, 0, 100), *collective(10, 30, 9, 1), step(2, 100, 100), *collective(110, 130, 5, 2)])
    other = Trace([*collective(-90, -60, 8, 0), step(1, 0, 100), *collective(20, 40, 7, 1), step(2, 100, 100),
                   *collective(110, 130, 6, 2)])
    assert [meeting.transfer_us for meeting in meetings(one, other)] == [7, 5]


def test_what_goes_between_two_ranks_meets_nobody_else():
    sending = Trace([*collective(0, 100, 90, 1), *collective(50, 300, 20, 2, "send")])
    receiving = Trace([*collective(0, 100, 80, 1), *collective(50, 300, 20, 2, "recv")])
    assert len(meetings(sending, receiving)) == 1


@pytest.mark.parametrize("one, other, words", [
    (collective(0, 9, 9, 1), collective(0, 9, 9, 1, "broadcast"), "collective 1 is nccl:all_reduce on rank 0 and nccl:broadcast on rank 1"),
    (collective(0, 9, 9, 1), collective(0, 9, 9, 1) + collective(50, 60, 9, 2), "rank 0 has 1 collectives, rank 1 has 2"),
    (collective(0, 9, 9, 1)[:-1], collective(0, 9, 9, 1), "has as its number of kernels 0 on rank 0 and 1 on rank 1"),
    (collective(0, 9, 9, 1, group=("4", (0, 1))), [], r"rank 0 has 1 collectives in process group 4 \[0, 1\], rank 1 has 0"),
])
def test_collectives_that_do_not_match_are_refused(one, other, words):
    with pytest.raises(MeetingError, match=words):
        meetings(rank(0, *one), rank(1, *other))


def test_two_real_ranks_whose_collectives_were_left_out_by_chance_do_not_match():
    with pytest.raises(MeetingError, match="record the same steps on every rank"):
        meetings(*real_ranks())


def test_a_call_whose_kernel_is_anothers_has_nothing_to_wait_with():
    """As in a coalesced group: the last call launches for all."""
    ranks = [Trace([*collective(0, 0, 0, 1)[:-2], *collective(40, 100 + late, 90 - late, 2)]) for late in (0, 30)]
    first, second = meetings(*ranks)
    assert (first.transfer_us, first.waiting_us(0), second.transfer_us, second.waiting_us(0)) == (0, 0, 60, 30)
    assert clock_offsets_us([first, second]) == {0: 0, 1: 0}


def test_without_kernels_the_hosts_blocks_meet():
    found, = meetings(*(Trace([span("user_annotation", "gloo:all_reduce", 5, dur)]) for dur in (10, 30)))
    assert found.transfer_us == 10 and found.last == 0


def test_clocks_are_compared_by_the_ends_of_collectives():
    groups = {0: [(0, 1)], 1: [(0, 1), (1, 2)], 2: [(1, 2)], 3: [(3, 4)], 4: [(3, 4)]}
    skew = {0: 0, 1: 1000, 2: -500, 3: 7, 4: 7}
    ranks = {r: Trace([event for group in listed for number in range(3) for event in collective(
        skew[r] + 200 * number + 90 * group[0], skew[r] + 200 * number + 90 * group[0] + 30 + r, 50 - r, 10 * group[0] + number,
        group=("g", group))])
        for r, listed in groups.items()}
    offsets = clock_offsets_us(find_meetings(ranks))
    assert offsets == {0: 0, 1: 1000, 2: -500}  # 3 and 4 meet nobody of these
    assert clock_offsets_us([]) == {}
