"""One typical millisecond: which one, and what it shows."""

import pytest

from ..kineto_events import call, kernel, memcpy, op, span, step, training_steps

pytest.importorskip("matplotlib")

from gapless.evidence.pictures.millisecond import draw_millisecond
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace

from .drawn import patches


def bursts(busy_us, count=20, **more):
    """A step of ``count`` ms: in each a kernel every 50 µs, which takes the ms's of ``busy_us``; a function of the ms's
    number. ``more``: name → further events."""
    events, number = [step(0, 0, count * 1_000)], 0
    for ms in range(count):
        for place in range(20):
            at, number = ms * 1_000 + place * 50, number + 1
            events += [op("aten::mm", at, 20), call("cudaLaunchKernel", at + 5, 5, number), kernel(at + 12, busy_us(ms), number)]
    return StepReport.from_trace(Trace([*events, *more.get("events", [])], {"deviceProperties": [{"id": 0, "name": "A100"}]}))


def rows(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def notes(axes):
    return dict(zip(rows(axes), [text.get_text() for text in axes.texts if "bar" in text.get_text()]))


def test_it_is_the_millisecond_that_is_as_busy_as_the_whole():
    report = bursts(lambda ms: 20 if ms in (2, 5, 8, 16) else 2)  # 4 % in most, 40 % in some, 11 % of all
    (axes,) = draw_millisecond(report).axes
    start_us = 1e3 * float(axes.get_xticklabels()[0].get_text())
    kernels = [each for each in report.trace.spans if each.category == "kernel"]
    busy_us = sum(max(0, min(each.end_us, start_us + 1_000) - max(each.start_us, start_us)) for each in kernels)
    assert busy_us == pytest.approx(112, abs=10)
    assert axes.get_title(loc="left") == f"A100, a typical millisecond: GPU busy {busy_us / 10:.0f} %"


def test_of_several_it_is_the_one_with_the_usual_kinds_of_work():
    waits = [call("cudaStreamSynchronize", at + 30, 15) for at in range(3_000, 20_000, 50)]  # none in the first three
    (axes,) = draw_millisecond(bursts(lambda ms: 5, events=waits)).axes
    assert float(axes.get_xticklabels()[0].get_text()) >= 2.5


def test_each_kernel_is_a_bar_in_the_row_of_its_kind():
    (axes,) = draw_millisecond(bursts(lambda ms: 5)).axes
    assert rows(axes) == ["operators", "the host waits", "matrix products"]
    assert notes(axes) == {"operators": "40 % (20 bars)", "the host waits": "0 % (0 bars)", "matrix products": "10 % (20 bars)"}
    bars = patches(axes)["matrix products"].get_path().to_polygons()
    assert len(bars) == 20 and all(bar[:, 0].max() - bar[:, 0].min() == pytest.approx(0.005) for bar in bars)


def test_operators_inside_others_are_theirs():
    inner = [op("aten::inner", ms * 1_000 + place * 50 + 1, 10) for ms in range(20) for place in range(20)]
    (axes,) = draw_millisecond(bursts(lambda ms: 5, events=inner)).axes
    assert notes(axes)["operators"] == "40 % (20 bars)"


def test_streams_kinds_and_what_is_left():
    copies = [event for ms in range(20) for event in (
        call("cudaMemcpyAsync", ms * 1_000 + 40, 5, 5_000 + ms), memcpy("HtoD (Pinned -> Device)", ms * 1_000 + 500, 30, 5_000 + ms, stream=20))]
    nccl = [event for ms in range(20) for event in (
        call("cudaLaunchKernel", ms * 1_000 + 42, 5, 6_000 + ms),
        span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", ms * 1_000 + 100, 10, 24, 0, correlation=6_000 + ms))]
    (axes,) = draw_millisecond(bursts(lambda ms: 5, events=copies + nccl)).axes
    assert rows(axes)[2:] == ["stream 7: matrix products", "stream 20: copies", "stream 24: communication"]
    hatches = {name: patch.get_hatch() for name, patch in patches(axes).items()}
    assert hatches["stream 20: copies"] == "xxxxx" and hatches["stream 24: communication"] == "||||"


def test_the_least_busy_rows_share_the_last():
    many = [kernel(ms * 1_000 + 3 * stream, 2, 9_000 + 20 * ms + stream, stream) for ms in range(20) for stream in range(8, 20)]
    launches = [call("cudaLaunchKernel", ms * 1_000 + 1, 1, 9_000 + 20 * ms + stream) for ms in range(20) for stream in range(8, 20)]
    (axes,) = draw_millisecond(bursts(lambda ms: 5, events=many + launches)).axes
    assert len(rows(axes)) == 12 and rows(axes)[-1] == "4 more"


@pytest.mark.parametrize("report", [
    bursts(lambda ms: 5, count=2),  # as short as what it would show
    StepReport.from_trace(training_steps(1)),  # bars of 14 ms
    StepReport.from_trace(Trace([step(0, 0, 9_000), op("aten::add", 5, 5)], {})),  # nothing on the GPU
], ids=["short", "wide", "no work"])
def test_where_the_whole_picture_is_enough_there_is_none(report):
    assert draw_millisecond(report) is None


def test_a_report_without_its_trace_cannot_be_drawn():
    with pytest.raises(ValueError, match="StepReport.from_trace"):
        draw_millisecond(StepReport("A100"))
