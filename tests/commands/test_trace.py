"""``gapless trace``: any profiler's trace, read and drawn."""

import gzip
import json
import os
import subprocess
import sys

import pytest

from gapless.commands.cli import main

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
