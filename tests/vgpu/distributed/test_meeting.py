"""Meetings of processes, here of threads: the messages of all, in order; who has left; who is late."""

import threading

import pytest
import torch.distributed as dist

from gapless.vgpu.distributed import meeting
from gapless.vgpu.distributed.meeting import Gone, Meeting


def together(size, program, look=lambda waited_s, missing: None):
    """What ``program(meeting, rank)`` returns in ``size`` threads, or its error."""
    store, found = dist.HashStore(), [None] * size

    def one(rank):
        met = Meeting(store, rank, size, look)
        try:
            found[rank] = program(met, rank)
        except Exception as error:
            found[rank] = error
        finally:
            met.close()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


@pytest.mark.parametrize("size", [2, 5])
def test_all_get_the_messages_of_all_in_order(size):
    found = together(size, lambda met, rank: [met.meet({"rank": rank, "turn": turn, "text": "ü" * 1000 * rank})
                                              for turn in range(20)])
    expected = [[{"rank": rank, "turn": turn, "text": "ü" * 1000 * rank} for rank in range(size)] for turn in range(20)]
    assert found == [expected] * size


@pytest.mark.parametrize("leaves", [0, 2])
def test_who_has_left_is_named(leaves):
    found = together(3, lambda met, rank: None if rank == leaves else met.meet({}))
    for rank, error in enumerate(found):
        if rank != leaves:
            assert isinstance(error, Gone)
    assert {found[rank].rank for rank in range(3) if rank != leaves} >= ({leaves} if leaves == 0 else {0, 2})


def test_who_waits_looks_at_who_is_missing(monkeypatch):
    monkeypatch.setattr(meeting, "_LOOKS_S", 0.02)
    seen = []

    class Late(Exception):
        pass

    def look(waited_s, missing):
        seen.append((waited_s > 0, missing))
        raise Late

    stays = threading.Event()

    def program(met, rank):
        if rank == 1:
            stays.wait(20)
            return None
        try:
            met.meet({})
        finally:
            stays.set()

    found = together(2, program, look)
    assert isinstance(found[0], Late) and (True, [1]) in seen
