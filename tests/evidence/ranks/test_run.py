"""A folder, a list or a dict of traces as the ranks of one run."""

import gzip
import json

import pytest

from gapless.evidence.ranks.run import rank_of, read_ranks, world_size
from gapless.evidence.traces.trace import Trace, TraceError

from ..kineto_events import op, step


def trace(rank=None, world=None, backend="nccl", steps=(3, 4)):
    info = {key: value for key, value in [("rank", rank), ("world_size", world), ("backend", backend)] if value is not None}
    return Trace([step(number, 10 * number, 10) for number in steps], {"distributedInfo": info} if info else {})


def test_a_folder_is_read_in_order_of_the_ranks(tmp_path):
    for rank, name in [(10, "b.json"), (2, "a.json.gz"), (0, "c.json")]:
        trace(rank).write(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a trace")
    assert list(read_ranks(tmp_path, partial=True)) == [0, 2, 10]
    assert list(read_ranks(str(tmp_path), partial=True)) == [0, 2, 10]
    assert list(read_ranks([tmp_path / "c.json", tmp_path / "a.json.gz"], partial=True)) == [0, 2]


def test_what_a_trace_says_itself_goes_before_its_name(tmp_path):
    assert rank_of(trace(3), "rank7.json") == rank_of(trace(3), 7) == 3
    assert rank_of(Trace([]), "run/rank-7.json.gz") == rank_of(Trace([]), 7) == rank_of(Trace([]), "host_rank_7.pt.trace.json") == 7
    assert rank_of(Trace([]), "worker.json") is rank_of(Trace([])) is None
    assert rank_of(Trace([], {"distributedInfo": {"rank": "3"}})) == 3
    assert rank_of(Trace([], {"distributedInfo": "broken"}), "rank5") == 5
    named = {"rank1.json": Trace([op("aten::mm", 0, 1)]), "rank0.json": Trace([op("aten::mm", 0, 1)])}
    assert list(read_ranks(named)) == [0, 1]
    assert list(read_ranks({1: named["rank0.json"], 0: named["rank0.json"]})) == [0, 1]


def test_how_many_ranks_the_run_had():
    assert world_size({0: trace(0, 4), 1: trace(1, 4)}) == 4
    assert world_size({0: trace(0), 5: trace(5)}) == 6


@pytest.mark.parametrize("traces, words", [
    ([], "there is no trace"),
    ([trace(0, 2)], "only rank 0 is there"),
    (trace(0, 2), "this is one trace"),
    ([trace(0, 2), trace(0, 2)], "trace 0 of the list and trace 1 of the list are both of rank 0"),
    ([trace(0, 4), trace(3, 4)], r"ranks 1, 2 are missing of 4"),
    ([trace(1), trace(2)], r"rank 0 is missing of 3"),
    ([trace(0, 2), trace(1, 4)], "different runs: trace 0 of the list has 2 ranks, trace 1 of the list has 4"),
    ([trace(0, 2), trace(1, 2, "gloo")], "different runs: .* has nccl as its backend"),
    ([trace(0, 2), trace(1, 2, steps=(5, 6))], "no step was recorded on every rank: .* has steps 3, 4, .* has steps 5, 6"),
    ([trace(0, 2), Trace([])], "trace 1 of the list does not say of which rank it is"),
    ({"a": Trace([]), "rank1": Trace([])}, "a does not say of which rank"),
    ([trace(r, 60) for r in range(2)], r"ranks 2, 3, 4, 5, 6, 7, 8, 9, … 59 are missing of 60"),
])
def test_what_is_no_run_is_refused_with_what_to_do(traces, words):
    with pytest.raises(TraceError, match=words):
        read_ranks(traces)


def test_a_file_is_no_folder_and_what_cannot_be_read_is_said(tmp_path):
    trace(0).write(tmp_path / "rank0.json")
    with pytest.raises(TraceError, match="is one trace: give the folder"):
        read_ranks(tmp_path / "rank0.json")
    with pytest.raises(TraceError, match="no folder that exists"):
        read_ranks(tmp_path / "nowhere")
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": []}).encode())[:-9])
    with pytest.raises(TraceError, match="rank1.json.gz is a gzip file that is damaged"):
        read_ranks(tmp_path)
