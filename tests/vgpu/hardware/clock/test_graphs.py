"""Capture and launch of graphs on the timeline, by hand."""

import pytest

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.clock import graphs
from gapless.vgpu.hardware.clock.timeline import Timeline


class Refused(Exception):
    """The error of a name."""


def fail(error):
    raise Refused(error)


@pytest.fixture
def timeline():
    made = Timeline(CARDS["a10g"])
    made.current = made.new_stream()
    return made


def captured(timeline, *durations):
    timeline.begin_capture("global", fail)
    for number, duration_ns in enumerate(durations):
        timeline.launch(f"kernel {number}", duration_ns)
    return timeline.end_capture()


def test_a_capture_queues_nothing_and_a_launch_everything(timeline):
    start = timeline.host_ns
    graph = captured(timeline, 3_000, 5_000)
    calls = 2 * graphs.CAPTURE_NS + 2 * timeline.host.launch_ns + 2 * graphs.INSTANTIATE_NODE_NS
    assert timeline.host_ns - start == calls
    assert timeline.device_ready_ns == 0
    assert timeline.launches == 0
    start = timeline.host_ns
    end = timeline.launch_graph(graph)
    assert timeline.host_ns - start == 2_500 + 2 * 125  # the first launch
    assert end - timeline.host_ns == 3_000 + 5_000 - 2 * 400
    assert (timeline.launches, timeline.kernel_count) == (1, 2)
    start = timeline.host_ns
    assert timeline.launch_graph(graph) == end + 7_200
    assert timeline.host_ns - start == 2_500 + 2


def test_a_graph_runs_on_the_stream_that_it_is_launched_on(timeline):
    graph = captured(timeline, 3_000)
    other = timeline.new_stream()
    other.ready_ns, timeline.current = 10**9, other
    assert timeline.launch_graph(graph) == 10**9 + 2_600
    assert timeline.streams[11].ready_ns == 0


def test_branches_run_beside_each_other(timeline):
    timeline.begin_capture("global", fail)
    origin, side = timeline.current, timeline.new_stream()
    timeline.launch("first", 3_000, share=300)
    timeline.stream_wait_event(timeline.record_event(), side)
    timeline.launch("one", 10_000, share=300)
    timeline.current = side
    timeline.launch("other", 20_000, share=300)
    timeline.stream_wait_event(timeline.record_event(), origin)
    timeline.current = origin
    timeline.launch("last", 3_000, share=300)
    graph = timeline.end_capture()
    assert [node.after for node in graph.nodes] == [(), (0,), (0,), (1, 2)]
    assert timeline.launch_graph(graph) - timeline.host_ns == 2_600 + 19_600 + 2_600


@pytest.mark.parametrize("waits", [
    pytest.param(lambda timeline: timeline.synchronize_stream(), id="stream"),
    pytest.param(lambda timeline: timeline.synchronize_device(), id="device"),
    pytest.param(lambda timeline: timeline.copy("DtoH", 8, pinned=True, blocking=True), id="copy"),
    pytest.param(lambda timeline: timeline.launch_graph(graphs.Graph()), id="another graph"),
])
def test_what_is_refused_makes_the_capture_invalid_until_it_ends(timeline, waits):
    timeline.begin_capture("global", fail)
    with pytest.raises(Refused, match="cudaErrorStreamCaptureUnsupported"):
        waits(timeline)
    with pytest.raises(Refused, match="cudaErrorStreamCaptureInvalidated"):
        timeline.launch("kernel", 3_000)
    with pytest.raises(Refused, match="cudaErrorStreamCaptureInvalidated"):
        timeline.end_capture()
    timeline.launch("kernel", 3_000)
    timeline.synchronize_stream()


def test_relaxed_lets_the_host_wait_for_what_is_not_captured(timeline):
    other = timeline.new_stream()
    before = timeline.record_event(other)
    timeline.begin_capture("relaxed", fail)
    timeline.synchronize_stream(other)
    timeline.synchronize_event(before)
    with pytest.raises(Refused, match="cudaErrorStreamCaptureUnsupported"):
        timeline.synchronize_stream()


def test_a_branch_that_comes_to_nothing_is_unjoined(timeline):
    timeline.begin_capture("global", fail)
    side = timeline.new_stream()
    timeline.launch("first", 3_000)
    timeline.stream_wait_event(timeline.record_event(), side)
    timeline.current = side
    timeline.launch("lost", 3_000)
    with pytest.raises(Refused, match="cudaErrorStreamCaptureUnjoined"):
        timeline.end_capture()
