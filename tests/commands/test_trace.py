"""``gapless trace``: any profiler's trace, read and drawn."""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gapless.commands.cli import main
from gapless.lessons.data_parallel.find_straggler.traces import even_plan, simulate

EVENTS = {
    "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 5000},
        {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 100, "dur": 3000},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 1, "ts": 200, "dur": 2500,
         "args": {"correlation": 2}},
    ],
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
}


@pytest.mark.parametrize("opener, name", [(open, "t.json"), (gzip.open, "t.json.gz"), (gzip.open, "misnamed.json")])
def test_trace_prints_json_of_any_file(tmp_path, capsys, opener, name):
    with opener(tmp_path / name, "wt") as file:
        json.dump(EVENTS, file)
    assert main(["trace", str(tmp_path / name), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["device_name"], report["steps"], report["host_step_ms"], report["device_busy_ms"]) == ("NVIDIA A100", 1, 5.0, 0)
    sync, = report["syncs"]
    assert {"name", "kind", "op", "wait_ms", "location"} <= set(sync)
    assert (sync["name"], sync["op"], sync["wait_ms"]) == ("cudaStreamSynchronize", "aten::item", 2.5)


def test_trace_prints_text_and_draws(tmp_path, capsys):
    (tmp_path / "t.json").write_text(json.dumps(EVENTS))
    assert main(["trace", str(tmp_path / "t.json"), "--picture", str(tmp_path / "t.png")]) == 0
    assert "aten::item" in capsys.readouterr().out
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("content", [None, "", "{", "3", "{}"])
def test_unusable_trace_is_exit_2_with_a_reason(tmp_path, capsys, content):
    path = tmp_path / "t.json"
    if content is not None:
        path.write_text(content)
    assert main(["trace", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a POSIX pipe")
def test_a_reader_that_has_had_enough_is_no_error(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(EVENTS))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "gapless.commands.cli", "trace", str(tmp_path / "t.json"), "--json"], stdout=write,
                          stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.stderr == ""


@pytest.fixture
def folder(tmp_path):
    """Traces of four ranks, of which the third is slow."""
    plan = even_plan(np.random.default_rng(0), 4, waits=True)
    for rank, trace in enumerate(simulate(replace(plan, kernel=plan.kernel * [1, 1, 1.4, 1]))):
        trace.write(tmp_path / f"rank{rank}.json.gz")
    return tmp_path


def test_a_folder_is_a_run_of_several_ranks(folder, capsys):
    assert main(["trace", str(folder), "--picture", str(folder / "ranks.png")]) == 0
    printed = capsys.readouterr().out
    assert "4 ranks, simulated made-up GPU" in printed and "nccl:all_reduce" in printed
    assert "Rank 2 sets the pace, by its compute" in printed
    assert (folder / "ranks.png").read_bytes().startswith(b"\x89PNG")
    assert main(["trace", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["straggler"]["rank"] == 2 and [row["rank"] for row in found["times"]] == [0, 1, 2, 3]
    assert found["problem"] is None and found["collectives"][0]["name"] == "nccl:all_reduce"


def test_ranks_may_be_missing_where_that_is_said(folder, capsys):
    (folder / "rank1.json.gz").unlink()
    assert main(["trace", str(folder)]) == 2
    assert "rank 1 is missing of 4" in capsys.readouterr().err
    assert main(["trace", str(folder), "--partial"]) == 0
    assert "Rank 2 sets the pace" in capsys.readouterr().out


def test_a_folder_without_traces_is_exit_2(tmp_path, capsys):
    assert main(["trace", str(tmp_path)]) == 2
    assert f"{tmp_path} holds no file *.json*" in capsys.readouterr().err
