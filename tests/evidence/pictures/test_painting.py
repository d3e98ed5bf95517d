"""The areas drawn are the shares of time, whatever the trace; measured in the picture's pixels."""

import random
from collections import defaultdict

import pytest
import torch

from ..kineto_events import call, kernel, memcpy, op, step

pytest.importorskip("matplotlib")

import gapless
from gapless.course.exercise import full_size
from gapless.evidence.pictures import picture
from gapless.evidence.pictures.painting import Panel, percent
from gapless.evidence.pictures.scene import scene_of
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace
from gapless.lessons.launch_overhead import workload as launch_overhead
from gapless.lessons.launch_overhead.capture_step.look import small_step
from gapless.lessons.launch_overhead.capture_step.slow import capture_step
from gapless.lessons.masked_loss import workload as masked_loss

from .drawn import drawn_shares, patches


def recorded(card, make_step):
    """A lesson's step on the virtual GPU, at full size."""
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        return gapless.profile(make_step(device), device=device)


def prefetching(device):
    """Copies on a stream of their own beside products on another, and a pageable copy that makes the host wait."""
    backend = torch.get_device_module(device)
    side, x = backend.Stream(), torch.zeros(2048, 2048, device=device)
    batch = torch.zeros(1024, 1024).pin_memory()

    def step():
        with backend.stream(side):
            moved = batch.to(device, non_blocking=True)
        for _ in range(6):
            x @ x
        backend.current_stream().wait_stream(side)
        (moved * 2).sum().item()
        torch.zeros(500, 500).to(device)

    return step


def one_after_the_other(bars, stream=7):
    """A trace of kernels, (start, duration) in µs, launched at once by a step that is as long as they are."""
    end = max(start + us for start, us in bars)
    events = [step(0, 0, end)]
    for number, (start, us) in enumerate(bars, 1):
        events += [call("cudaLaunchKernel", 0.1, 0.1, number), kernel(start, us, number, stream)]
    return Trace(events, {})


def pixels_wide(width, period, end=90_000):
    """Bars of ``width`` pixels, one each ``period`` pixels, in a picture of ``end`` µs."""
    us = end / 900
    return one_after_the_other([(place * period * us, width * us) for place in range(int(900 / period))])


def by_chance(seed, streams=1):
    """Kernels, copies, operators and waits of lengths from a hundredth of a pixel to a third of the picture."""
    draw = random.Random(seed)
    events, number = [step(0, 0, 100_000)], 0
    for stream in range(streams):
        at = draw.uniform(0, 2_000)
        while at < 90_000:
            us, number = 10 ** draw.uniform(0, 4.5 if draw.random() < 0.03 else 2.5), number + 1
            us = min(us, 100_000 - at)
            events.append(call("cudaLaunchKernel", draw.uniform(0, 99_000), 1, number))
            events.append(memcpy("HtoD (Pinned -> Device)", at, us, number, stream=stream) if draw.random() < 0.2
                          else kernel(at, us, number, stream))
            at += us + 10 ** draw.uniform(0, 2.8)
    at = 10.0
    while at < 95_000:
        us = 10 ** draw.uniform(0.5, 3)
        events.append(op("aten::item", at, us))
        events.append(call("cudaStreamSynchronize", at + us / 10, us * draw.random() * 0.8))
        at += us + 10 ** draw.uniform(0, 2.5)
    return Trace(events, {})


TRACES = {
    "lesson 02, few wide kernels": lambda: recorded("a10g", lambda device: masked_loss.training_step(masked_loss.LossParts(), device)),
    "lesson 06, many thin kernels and waits": lambda: recorded("a100", launch_overhead.training_step),
    "lesson 06, a small step": lambda: recorded("a100", lambda device: small_step(capture_step, device)),
    "two streams, copies, waits": lambda: recorded("a10g", prefetching),
    "bars of 0.3 pixels, each pixel": lambda: pixels_wide(0.3, 1),
    "bars of 0.3 pixels, now in one column, now across two": lambda: pixels_wide(0.3, 0.85),
    "bars and gaps of one pixel": lambda: pixels_wide(1, 2),
    "one long bar with thin gaps": lambda: one_after_the_other([(start, 1_980) for start in range(0, 90_000, 2_000)]),
    "thousands of bars that nearly touch": lambda: one_after_the_other([(start, 9) for start in range(0, 90_000, 10)]),
    "one bar of a hundredth of a pixel": lambda: one_after_the_other([(10, 1), (89_999, 1)]),
    "by chance": lambda: by_chance(1),
    "by chance, twelve streams": lambda: by_chance(2, streams=12),
}


def covered(intervals, end):
    """How much of the time from 0 to ``end`` lies in an interval, one by one."""
    total, reached = 0.0, 0.0
    for start, stop in sorted(intervals):
        start, stop = max(start, reached), min(stop, end)
        total, reached = total + max(stop - start, 0.0), max(reached, stop)
    return total / end


def true_shares(report, rows):
    """(row, kind) → share of the time shown, counted from the trace's spans."""
    spans = report.trace.spans
    steps = [span for span in spans if span.name.startswith("ProfilerStep#")]
    origin, host_end = steps[0].start_us, steps[-1].end_us
    device = [span for span in spans if span.category in ("kernel", "memcpy", "memset")]
    end = max(host_end, *(span.end_us for span in device)) - origin

    def share(found):
        return covered([(span.start_us - origin, span.end_us - origin) for span in found], end)

    names = {row.name for row in rows}
    by_row = defaultdict(list)
    for span in device:
        own = f"stream {span.thread[1]}"
        by_row[own if own in names else rows[-1].name].append(span)
    true = {}
    for name, members in by_row.items():
        kernels = share([span for span in members if span.category == "kernel"])
        # Streams that share a row may overlap: what is beside a kernel is drawn as the kernel.
        true[name, "kernels"], true[name, "copies"] = kernels, share(members) - kernels
    waits = [(sync.start_ms * 1e3, (sync.start_ms + sync.wait_ms) * 1e3) for sync in report.syncs_in_steps]
    operators = [(span.start_us - origin, min(span.end_us, host_end) - origin) for span in spans if span.category == "op"]
    true["host", "the host waits"] = covered(waits, end)
    true["host", "operators"] = covered(waits + operators, end) - covered(waits, end)
    return true


@pytest.mark.parametrize("name", TRACES)
def test_the_drawn_share_of_each_row_is_the_true_one(name):
    report = StepReport.from_trace(TRACES[name]())
    scene = scene_of(report)
    drawn = drawn_shares(picture.draw(report), Panel(scene, scene.end_ms))
    true = true_shares(report, [scene.host, *scene.streams])
    assert true.keys() >= drawn.keys() and any(drawn.values())
    for place, share in true.items():
        assert drawn.get(place, 0.0) == pytest.approx(share, abs=0.02), (place, share)
    for row in [scene.host, *scene.streams]:  # the errors of a row's kinds do not add up
        whole = [sum(value for (of, _), value in shares.items() if of == row.name) for shares in (drawn, true)]
        assert whole[0] == pytest.approx(whole[1], abs=0.02)


def test_the_row_says_its_share():
    (axes,) = picture.draw(StepReport.from_trace(pixels_wide(0.3, 1))).axes
    assert {"busy 30 %", "waits 0 %"} <= {text.get_text() for text in axes.texts}


def test_the_hosts_share_is_of_its_steps():
    events = [step(0, 0, 10_000), call("cudaStreamSynchronize", 0, 5_000), call("cudaLaunchKernel", 6_000, 5, 1), kernel(7_000, 33_000, 1)]
    (axes,) = picture.draw(StepReport.from_trace(Trace(events, {}))).axes
    assert {"waits 50 %", "busy 82 %"} <= {text.get_text() for text in axes.texts}


def test_shares_in_words():
    assert [percent(share) for share in (0.0, 0.0004, 0.016, 0.5, 0.996, 1.0)] == [
        "0 %", "< 1 %", "2 %", "50 %", "> 99 %", "100 %"]


def test_a_kind_of_a_row_is_one_artist_of_few_points():
    bars = [(start, 150) for start in range(0, 1_000_000, 200)]
    (axes,) = picture.draw(StepReport.from_trace(one_after_the_other(bars))).axes
    areas = patches(axes)
    assert list(areas) == ["stream 7: kernels"]
    assert len(areas["stream 7: kernels"].get_path().vertices) < 4 * 900


def test_a_wide_bar_has_the_rows_full_height():
    (axes,) = picture.draw(StepReport.from_trace(one_after_the_other([(30_000, 60_000)]))).axes
    box = patches(axes)["stream 7: kernels"].get_path().get_extents()
    assert (box.x0, box.x1) == (pytest.approx(30, abs=0.1), pytest.approx(90)) and box.height == pytest.approx(0.75)


def test_waits_beside_each_other_stay_apart():
    events = [step(0, 0, 10_000), *(call("cudaStreamSynchronize", 3_000 * i, 2_999) for i in range(3))]
    (axes,) = picture.draw(StepReport.from_trace(Trace(events, {}))).axes
    strokes = [segment[0][0] for lines in axes.collections for segment in lines.get_segments() if len(segment)]
    assert {0.0, 3.0, 6.0} <= set(strokes)
