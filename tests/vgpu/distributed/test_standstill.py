"""When nobody can come any more: what the board says, and what is made of it."""

import time

import pytest

from gapless.vgpu.distributed import standstill
from gapless.vgpu.distributed.standstill import Board, Standstill


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A run of three, of which this process is rank 0."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv(standstill.BOARD, str(tmp_path / "board"))
    monkeypatch.setattr(standstill, "_calm", None)
    made = Board(str(tmp_path / "board"), 3)
    standstill.join()
    yield made
    monkeypatch.delenv(standstill.BOARD)
    standstill.join()


def look(missing, waited_s=0.5):
    standstill.look(waited_s, "allreduce of 4 float32", "train.py(30): main", missing)


def test_who_still_runs_is_waited_for(board):
    for rank in range(3):
        board.write(rank, {"state": "runs"})
    look([1, 2])


def test_a_rank_that_has_ended_is_named(board):
    board.write(2, {"state": "ended"})
    with pytest.raises(Standstill, match=r"rank 0 waits in allreduce of 4 float32 at train.py\(30\): main for rank 2, which has ended"):
        look([1, 2])


def test_all_that_wait_for_one_another_are_named(board, monkeypatch):
    monkeypatch.setattr(standstill, "_ALL_WAIT_S", 0.05)
    with standstill.waiting("allreduce", "a.py(1): f", "0: 1", [0, 1]):
        board.write(1, {"state": "waits", "what": "barrier", "where": "b.py(2): g", "place": "1: 1", "members": [0, 1]})
        board.write(2, {"state": "ended"})
        look([1])  # the first look only remembers
        time.sleep(0.1)
        with pytest.raises(Standstill) as error:
            look([1])
    for part in ("rank 0 waits in allreduce at a.py(1): f", "rank 1 waits in barrier at b.py(2): g", "rank 2 has ended"):
        assert part in str(error.value)


def test_who_waits_where_all_have_come_can_go_on(board, monkeypatch):
    """However slow the machine: two wait for the third, which waits in a group whose members have come."""
    monkeypatch.setattr(standstill, "_ALL_WAIT_S", 0.05)
    with standstill.waiting("allreduce", "a.py(1): f", "0: 1", [0, 1, 2]):
        for rank in (1, 2):
            board.write(rank, {"state": "waits", "what": "barrier", "where": "b.py(2): g", "place": "1: 1", "members": [1, 2]})
        look([1, 2])
        time.sleep(0.1)
        look([1, 2])


def test_the_limit_is_the_environments(board, monkeypatch):
    monkeypatch.setenv(standstill.VARIABLE, "7")
    look([1], waited_s=6.9)
    with pytest.raises(Standstill, match="for rank 1, and has for 7 real seconds"):
        look([1], waited_s=7.1)
    for text in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv(standstill.VARIABLE, text)
        with pytest.raises(ValueError, match=f"GAPLESS_WAIT_LIMIT_S is '{text}'"):
            look([1])
    monkeypatch.setenv(standstill.VARIABLE, "inf")
    look([1], waited_s=1e9)


def test_texts_that_are_too_long_are_cut(board):
    board.write(1, {"state": "waits", "what": "w" * 5000, "where": "x" * 5000, "place": "p"})
    assert board.read(1)["what"] == "w" * 80
    assert board.read(2) == {}
