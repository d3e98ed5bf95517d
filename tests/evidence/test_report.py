import base64
import html
import json
import re

import pytest

from gapless.evidence.report import Copy, StepReport, Sync
from gapless.evidence.traces.trace import Trace

from .kineto_events import call, frame, kernel, memcpy, memory, op, read_back, span, step, training_steps


def report_of(*events, **metadata):
    flat = [item for event in events for item in (event if isinstance(event, list) else [event])]
    return StepReport.from_trace(Trace(flat, metadata))


def test_an_empty_trace_gives_an_empty_report():
    report = report_of()
    assert report == StepReport(device_name="unknown GPU")
    assert (report.steps, report.syncs_per_step, report.wait_ms, report.peak_memory_bytes) == (0, 0, 0, None)
    assert "No waits" in str(report)


def test_numbers_are_per_step():
    report = StepReport.from_trace(training_steps(3))
    assert (report.device_name, report.simulated, report.steps) == ("A100", True, 3)
    assert report.host_step_ms == pytest.approx(300)
    assert report.kernels == 25
    assert report.syncs_per_step == 1
    assert report.wait_ms == pytest.approx(290.010)
    assert [sync.step for sync in report.syncs] == [0, 1, 2]
    assert {(sync.op, sync.location) for sync in report.syncs} == {("aten::item", "train.py:12")}
    assert [sync.start_ms for sync in report.syncs] == pytest.approx([4.005, 304.005, 604.005])


def test_busy_is_the_union_over_streams_of_work_that_the_steps_launched():
    report = report_of(
        call("cudaLaunchKernel", 5, 2, 1),
        kernel(6, 1_000, 1),  # launched before the first step
        step(0, 100, 100),
        step(1, 200, 100),
        call("cudaLaunchKernel", 110, 2, 2),
        call("cudaLaunchKernel", 120, 2, 3),
        call("cudaMemsetAsync", 130, 2, 4),
        call("cudaMemcpyAsync", 210, 2, 5),
        kernel(2_000, 100, 2),
        kernel(2_050, 100, 3, stream=9),
        span("gpu_memset", "Memset (Device)", 2_120, 10, 7, 0, correlation=4),
        memcpy("HtoD (Pinned -> Device)", 2_300, 50, 5),
        kernel(9_000, 500, 99),  # its launch is not in the trace
    )
    assert report.device_busy_ms == pytest.approx(0.200 / 2)
    assert report.device_step_ms == pytest.approx(0.350 / 2)
    assert report.kernels == 1


@pytest.mark.parametrize("said, uncertainty", [(0.085, 0.085), ("much", None), (None, None)])
def test_how_uncertain_modelled_times_are_is_what_the_trace_says(said, uncertainty):
    report = report_of(step(0, 0, 100), kernel(10, 20), gapless={"simulated": True, "uncertainty": said})
    assert report.uncertainty == uncertainty == report.to_json()["uncertainty"]
    assert ("0.020 ms ± 8 %\n" in str(report)) == (uncertainty is not None)


def test_without_runtime_calls_the_devices_own_times_decide():
    report = report_of(step(0, 0, 100), kernel(10, 20), kernel(150, 30))
    assert report.device_busy_ms == pytest.approx(0.020)


def test_without_steps_the_whole_trace_is_one():
    report = report_of(op("aten::add", 1_000, 50), read_back(2_000, 1), kernel(1_500, 100, 7))
    assert report.steps == 0
    assert report.host_step_ms == pytest.approx((2_320 - 1_000) / 1000)
    assert report.device_busy_ms == pytest.approx(0.102)
    assert (report.syncs_per_step, report.kernels) == (1, 1)
    assert report.syncs[0].step is None
    assert report.wait_ms == pytest.approx(0.300)


def test_the_step_is_the_median_and_waits_outside_the_steps_do_not_count():
    report = report_of(
        step(5, 0, 100),
        step(6, 100, 110),
        step(7, 210, 900),
        call("cudaStreamSynchronize", 150, 10),
        call("cudaDeviceSynchronize", 2_000, 500),
    )
    assert report.host_step_ms == pytest.approx(0.110)
    assert [(sync.kind, sync.step) for sync in report.syncs] == [("stream", 1), ("device", None)]
    assert report.syncs_per_step == pytest.approx(1 / 3)
    assert report.wait_ms == 0  # the median step does not wait
    assert "(outside the steps)" in str(report)


def test_a_step_noted_twice_or_on_the_device_is_one():
    mirror = span("gpu_user_annotation", "ProfilerStep#0", 10, 80, 7, 0)
    assert report_of(step(0, 0, 100), step(0, 0, 100, tid=9), mirror).steps == 1


def test_nested_steps_belong_to_the_innermost():
    report = report_of(
        step(0, 0, 1_000),
        step(1, 200, 300),
        call("cudaStreamSynchronize", 250, 5),
        call("cudaStreamSynchronize", 700, 5),
    )
    assert report.steps == 2
    assert [sync.step for sync in report.syncs] == [1, 0]


def test_copies():
    report = report_of(
        step(0, 0, 1_000),
        read_back(10, 1),
        call("cudaMemcpyAsync", 500, 5, 2),
        memcpy("HtoD (Pinned -> Device)", 1_500, 100, 2, bytes=4096),
        call("cudaMemcpyAsync", 600, 5, 3),
        memcpy("DtoD (Device -> Device)", 1_700, 10, 3, bytes=64),
        memcpy("mystery", 5_000, 1, 4),
    )
    assert report.copies == (
        Copy("DtoH", 4, "pageable", 0.002, blocking=True, step=0),
        Copy("HtoD", 4096, "pinned", 0.1, blocking=False, step=0),
        Copy("DtoD", 64, "device", 0.01, blocking=False, step=0),
        Copy("unknown", 4, "unknown", 0.001, blocking=False, step=None),
    )
    assert report.bus_bytes == 4 + 4096


def test_peak_memory_is_the_devices():
    assert (
        report_of(memory(100), memory(300), memory(200), memory(999, device_type=0)).peak_memory_bytes == 300
    )
    assert report_of(memory(999, device_type=0)).peak_memory_bytes is None
    assert report_of({"name": "[memory]", "ph": "i"}).peak_memory_bytes is None


def test_events_with_missing_keys_do_no_harm():
    report = report_of(
        {},
        {"ph": "X"},
        {"ph": "X", "cat": "kernel", "ts": 5, "dur": 2},
        {"ph": "X", "cat": "gpu_memcpy", "ts": 9, "dur": 2},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 20, "dur": 5},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "ts": "30", "dur": "5"},
    )
    assert [sync.kind for sync in report.syncs] == ["stream"]
    assert report.kernels == 1
    assert report.copies[0].bytes == 0


def test_json_holds_everything_in_plain_types():
    report = StepReport.from_trace(training_steps(2))
    plain = json.loads(json.dumps(report.to_json()))
    assert plain == report.to_json()
    assert {
        "device_name", "simulated", "steps", "syncs", "syncs_per_step", "host_step_ms", "wait_ms",
        "device_busy_ms", "device_step_ms", "kernels", "launches", "copies", "peak_memory_bytes", "uncertainty", "gpu_utilization", "sm_efficiency",
        "achieved_occupancy",
    } == set(plain)  # fmt: skip
    assert plain["syncs"][0]["op"] == "aten::item"
    assert {"name", "kind", "op", "wait_ms", "location", "step"} <= set(plain["syncs"][0])
    assert plain["copies"][0]["memory"] == "pinned"


def test_the_text_has_the_shares_that_the_trace_tells():
    text = str(StepReport.from_trace(training_steps(1)))
    assert "GPU utilisation" in text
    assert "SM efficiency" not in text and "occupancy" not in text  # its kernels do not tell their launch
    assert "GPU utilisation" not in str(StepReport.from_trace(Trace([op("aten::add", 0, 10)])))
    assert StepReport("A100").gpu_utilization is None
    assert re.search(r"est. SM efficiency +50.0 %\n +est. achieved occupancy +25.0 %", str(StepReport.from_trace(Trace([
        step(0, 0, 100), op("aten::mm", 0, 20), call("cudaLaunchKernel", 5, 5, 1),
        span("kernel", "gemm", 0, 100, 7, 0, correlation=1, device=0, **{"blocks per SM": 0.5, "est. achieved occupancy %": 25}),
    ]))))


def test_the_trace_is_kept_but_not_compared_or_shown():
    report = StepReport.from_trace(training_steps(1))
    assert isinstance(report.trace, Trace)
    assert report == StepReport.from_trace(training_steps(1))
    assert "trace=" not in repr(report)


def test_the_text_names_device_waits_and_lines():
    text = str(StepReport.from_trace(training_steps(3)))
    assert "3 steps, simulated A100 (modelled times, not measured)" in text
    for part in ("aten::item", "train.py:12", "read-back", "cudaStreamSynchronize", "300.000 ms", "1 wait\n"):
        assert part in text
    assert "simulated" not in str(StepReport.from_trace(training_steps(1, simulated=False)))


def test_alike_waits_are_summed_the_costliest_first():
    report = report_of(
        frame("train.py(3): f", 0, 10_000),
        call("cudaDeviceSynchronize", 10, 50),
        read_back(100, 1),
        read_back(1_000, 2),
    )
    rows = [line.split() for line in str(report).splitlines()[-2:]]
    assert rows[0][:4] == ["0.600", "2", "read-back", "aten::item"]
    assert rows[1][:3] == ["0.050", "1", "device"]


def test_markdown_is_a_table_with_safe_cells():
    report = StepReport("A100", steps=1, syncs=(Sync("cudaMemcpy", "copy", "a|b_c", 1.0, "x_y.py:3", 0),))
    text = report._repr_markdown_()
    assert r"a\|b\_c" in text
    assert r"x\_y.py:3" in text
    assert "|--:|" in text


def test_show_prints_where_there_is_nothing_to_draw(capsys):
    assert StepReport("A100").show() is None
    assert "A100" in capsys.readouterr().out


def test_show_prints_without_matplotlib(monkeypatch, capsys):
    from gapless.evidence.pictures import picture

    def missing(report):
        raise ImportError("no matplotlib")

    monkeypatch.setattr(picture, "draw", missing)
    assert StepReport.from_trace(training_steps(1)).show() is None
    assert "aten::item" in capsys.readouterr().out


def test_show_returns_the_picture_with_the_trace_below():
    pytest.importorskip("matplotlib")
    trace = training_steps(1)
    figure = StepReport.from_trace(trace).show()
    assert figure.axes
    assert base64.b64encode(trace.to_bytes(compressed=True)).decode() in figure.controls
    assert "1 step, simulated A100" in figure.controls


def test_show_zooms_into_a_millisecond_where_there_is_something_to_see(capsys):
    pytest.importorskip("matplotlib")
    thin = [event for i in range(1, 400) for event in (call("cudaLaunchKernel", 20 * i, 5, i), kernel(20 * i + 8, 4, i))]
    figure = StepReport.from_trace(Trace([step(0, 0, 9_000), *thin], {})).show(zoom=True)
    assert "a typical millisecond" in figure.axes[0].get_title(loc="left") and "Perfetto" in figure.controls
    assert StepReport.from_trace(training_steps(1)).show(zoom=True) is None
    assert "No typical millisecond" in capsys.readouterr().out


def test_a_page_made_of_a_notebook_has_the_picture_once_its_alternative_text_and_the_button():
    pytest.importorskip("matplotlib")
    exporters = pytest.importorskip("nbconvert.exporters", reason="needs nbconvert, which JupyterLab brings")
    nbformat = pytest.importorskip("nbformat")
    figure = StepReport.from_trace(training_steps(1)).show()
    data, metadata = figure._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("report.show()", outputs=[output])])
    page, _ = exporters.HTMLExporter().from_notebook_node(notebook)
    assert page.count(data["image/png"].strip()) == 1
    assert f'alt="{html.escape(figure.alt)}"' in page
    assert "Open this trace in Perfetto" in page
