import gzip
import json
import os
import re
import socket

import pytest

from gapless.evidence.traces.trace import Trace, TraceError, as_number

from ..kineto_events import call, kernel, op, step, training_steps


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_write_then_read_gives_the_same_trace(tmp_path, name):
    trace = training_steps(1)
    trace.write(tmp_path / name)
    again = Trace.read(tmp_path / name)
    assert again.events == trace.events
    assert again.metadata == trace.metadata
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_compression_goes_by_content_not_by_name(tmp_path):
    raw = json.dumps({"traceEvents": [op("aten::add", 1, 2)]}).encode()
    (tmp_path / "plain.gz").write_bytes(raw)
    (tmp_path / "packed.json").write_bytes(gzip.compress(raw))
    assert len(Trace.read(tmp_path / "plain.gz").events) == 1
    assert len(Trace.read(tmp_path / "packed.json").events) == 1


def test_only_a_gz_name_is_compressed_and_the_bytes_repeat(tmp_path):
    trace = training_steps(1)
    trace.write(tmp_path / "a.json")
    trace.write(tmp_path / "a.gz")
    trace.write(tmp_path / "b.gz")
    assert (tmp_path / "a.json").read_bytes().startswith(b"{")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_file_has_its_rank_in_the_first_line_as_analysis_tools_look_for_it():
    raw = Trace(training_steps(1).events, {"distributedInfo": {"rank": 3}}).to_bytes()
    assert '"rank": 3' in raw.decode().splitlines()[0]
    assert len(raw.splitlines()) == len(training_steps(1).events) + 2
    assert json.loads(Trace([], {}).to_bytes()) == {"traceEvents": []}


def test_what_is_written_is_what_the_bytes_say(tmp_path):
    trace = training_steps(1)
    trace.write(tmp_path / "trace.json.gz")
    assert (tmp_path / "trace.json.gz").read_bytes() == trace.to_bytes(compressed=True)
    assert gzip.decompress(trace.to_bytes(compressed=True)) == trace.to_bytes()


@pytest.mark.parametrize("simulated, worker", [(True, "simulated-A100"), (False, socket.gethostname())])
def test_tensorboard_gets_the_file_name_it_looks_for(tmp_path, simulated, worker):
    trace = training_steps(1, simulated=simulated)
    path = trace.write_tensorboard(tmp_path / "new" / "folder")
    assert re.fullmatch(rf"{re.escape(worker)}_{os.getpid()}\.\d+\.pt\.trace\.json\.gz", path.name)
    again = trace.write_tensorboard(path.parent, worker="mine")
    assert again.name.startswith("mine.")
    assert sorted(path.parent.iterdir()) == sorted([path, again])


def test_tensorboard_gets_the_categories_it_knows_and_the_trace_stays(tmp_path):
    trace = Trace([call("cudaLaunchKernel", 1, 2, 7), call("cuLaunchKernel", 4, 2, 8, cat="cuda_driver"), op("aten::add", 0, 9),
                   {"ph": "s", "cat": "fwdbwd", "ts": 3, "id": 1}, {"ph": "M", "name": "process_name"}], {"key": 1})
    before = json.dumps(trace.to_json())
    written = Trace.read(trace.write_tensorboard(tmp_path))
    assert [event.get("cat") for event in written.events] == ["Runtime", "Runtime", "cpu_op", "forward_backward", None]
    assert "cat" not in written.events[-1]
    assert written.metadata == {"key": 1}
    assert json.dumps(trace.to_json()) == before


def test_neighbours_do_not_overlap_in_tensorboards_arithmetic(tmp_path):
    first, second = op("aten::add", 1418713.093, 216.546), op("aten::ne", 1418929.639, 12.0)
    assert first["ts"] + first["dur"] > second["ts"]  # by a last digit
    first, second = Trace.read(Trace([first, second], {}).write_tensorboard(tmp_path)).events
    assert first["ts"] + first["dur"] == second["ts"]
    assert first["ts"] == pytest.approx(1418713.093, abs=5e-4)
    assert first["dur"] == pytest.approx(216.546, abs=1e-3)


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "trace.json"
    training_steps(1).write(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        Trace([{"args": object()}], {}).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content, advice",
    [
        (b"", "is empty; record the profile again"),
        (b"hello", "is not JSON"),
        (b'{"traceEvents": [', "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"schemaVersion": 1}', "no list `traceEvents`"),
        (b'{"traceEvents": 3}', "no list `traceEvents`"),
        (b"17", "no list `traceEvents`"),
        (gzip.compress(b'{"traceEvents": []}' * 50, mtime=0)[:-12], "copy it again"),
        (b"\x1f\x8bnot gzip at all", "copy it again"),
    ],
)
def test_an_unusable_file_says_what_to_do(tmp_path, content, advice):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=advice) as caught:
        Trace.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(TraceError, match="does not exist; check the path"):
        Trace.read(tmp_path / "none.json")
    with pytest.raises(TraceError, match="is a folder; name the trace file"):
        Trace.read(tmp_path)


def test_a_bare_list_is_a_trace_and_what_is_no_event_is_dropped():
    trace = Trace.from_json([op("aten::add", 1, 2), "stray", None])
    assert [event["name"] for event in trace.events] == ["aten::add"]
    assert trace.metadata == {}


def test_stray_bytes_in_a_name_do_not_hide_the_rest(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents": [{"name": "\xff"}, {"name": "b"}]}')
    assert [event["name"] for event in Trace.read(path).events][1] == "b"


def test_device_name_and_simulated():
    trace = training_steps(1)
    assert (trace.device_name, trace.simulated) == ("A100", True)
    assert "simulated A100" in repr(trace)
    assert training_steps(1, simulated=False).simulated is False
    for metadata in ({}, {"deviceProperties": []}, {"deviceProperties": [{}]}, {"deviceProperties": 3}):
        assert Trace([], metadata).device_name == "unknown GPU"
    assert Trace([], {"gapless": "?"}).simulated is False


def test_spans_tolerate_strings_and_missing_keys_and_come_in_order():
    events = [
        {"ph": "X", "name": "inner", "cat": "cpu_op", "ts": "10.5", "dur": "2"},
        {"ph": "X", "cat": "Runtime", "ts": 30},
        {"ph": "X", "name": "outer", "cat": "Operator", "ts": 10.5, "dur": 9, "args": None},
        {"ph": "X", "name": "no time"},
        {"ph": "X", "name": "no number", "ts": "soon"},
        {"ph": "i", "name": "instant", "ts": 1},
        {},
        kernel(1, 2, 3),
        step(1, 0, 50),
    ]
    spans = Trace(events, {}).spans
    assert [(s.category, s.name, s.start_us, s.end_us) for s in spans] == [
        ("annotation", "ProfilerStep#1", 0, 50),
        ("kernel", "gemm", 1, 3),
        ("op", "outer", 10.5, 19.5),
        ("op", "inner", 10.5, 12.5),
        ("runtime", "", 30, 30),
    ]
    assert spans[2].duration_ms == pytest.approx(0.009)


@pytest.mark.parametrize("value", [None, True, "x", [], float("nan"), "inf", 10**400])
def test_what_is_no_number(value):
    assert as_number(value) is None


def test_names_with_quotation_marks_are_read_as_pytorch_2_11_writes_them():
    raw = b"""{
  "traceEvents": [
  {
    "ph": "X", "cat": "user_annotation", "name": "cell "train"(4): say \\"hi\\"", "pid": 1, "tid": 1,
    "ts": 1.000, "dur": 2.000,
    "args": {
      "External id": 1
    }
  }
  ]
}"""
    event, = Trace.from_bytes(raw).events
    assert event["name"] == 'cell "train"(4): say "hi"'
