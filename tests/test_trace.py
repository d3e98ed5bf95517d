import gzip
import json

import pytest
from kineto_events import kernel, op, step, training_steps

from gapless.trace import Trace, TraceError, as_number


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


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "trace.json"
    training_steps(1).write(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        Trace([{"args": object()}], {}).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"", "is empty; record the profile again"),
        (b"hello", "is not JSON"),
        (b'{"traceEvents": [', "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"schemaVersion": 1}', "no list `traceEvents`"),
        (b'{"traceEvents": 3}', "no list `traceEvents`"),
        (b"17", "no list `traceEvents`"),
        (gzip.compress(b'{"traceEvents": []}' * 50)[:-12], "copy it again"),
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
