"""What the field's tools read in our traces, against our own report. The tools are the extra ``tools``."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from gapless import vgpu
from gapless.evidence.report import StepReport, union_ms
from gapless.lessons.masked_loss.workload import LABELS, LossParts, training_step
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning:hta", "ignore::Warning:torch_tb_profiler")]

STEPS = 2
DEVICE_WORK = ("kernel", "memcpy", "memset")


def small_step(device):
    """A training step of two layers, with values; it reads its loss back."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(32, 8).pin_memory()

    def step():
        optimizer.zero_grad()
        loss = network(images.to(device, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


@pytest.fixture(scope="module", params=["small, exact", "lesson 02, shape only"])
def trace(request):
    device = choose_device("vgpu:a10g")
    vgpu.timeline().reset()
    if request.param == "small, exact":
        return profile(small_step(device), steps=STEPS, device=device)
    with vgpu.shape_only(LABELS):
        return profile(training_step(LossParts(), device), steps=STEPS, device=device)


@pytest.fixture(scope="module")
def report(trace):
    return StepReport.from_trace(trace)


def spans(trace, *categories):
    return [span for span in trace.spans if span.category in categories]


def total_us(members):
    return sum(span.end_us - span.start_us for span in members)


# -- Holistic Trace Analysis ------------------------------------------------------------------------


@pytest.fixture(params=["to the nanosecond", "as it comes"])
def rounding(request):
    """HTA rounds every event inwards to whole µs unless told not to. The fixture's value: by how many µs an event
    may differ."""
    env_options = pytest.importorskip("hta.configs.env_options", reason="needs traceinsight: pip install 'gapless[tools]'")
    options = env_options.HTAEnvOptions.instance()
    before = options.disable_ns_rounding()
    options.set_disable_ns_rounding(request.param == "to the nanosecond")
    yield 1e-6 if request.param == "to the nanosecond" else 2
    options.set_disable_ns_rounding(before)


@pytest.fixture
def hta(trace, tmp_path, rounding):
    """The analysis of the folder that the trace was written to: HTA finds the file and its rank by itself."""
    from hta.trace_analysis import TraceAnalysis

    trace.write(tmp_path / "trace.json.gz")
    return TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)


def test_hta_divides_the_gpus_time_as_we_do(hta, trace, report, rounding):
    found = hta.get_temporal_breakdown(visualize=False).iloc[0]
    slack_us = rounding * len(spans(trace, *DEVICE_WORK))
    busy_us, extent_us = (1e3 * STEPS * ms for ms in (report.device_busy_ms, report.device_step_ms))
    assert found["rank"] == 0
    assert found["kernel_time(us)"] == pytest.approx(extent_us, abs=slack_us)
    assert found["idle_time(us)"] == pytest.approx(extent_us - busy_us, abs=slack_us)
    assert found["compute_time(us)"] == pytest.approx(1e3 * union_ms(spans(trace, "kernel")), abs=slack_us)
    others_us = 1e3 * union_ms(spans(trace, "memcpy", "memset"))
    assert found["non_compute_time(us)"] == pytest.approx(others_us, abs=slack_us)


def test_hta_explains_the_same_idle_time(hta, trace, report, rounding):
    found, _ = hta.get_idle_time_breakdown(visualize=False)
    slack_us = rounding * len(spans(trace, *DEVICE_WORK)) + 0.005 * len(found)  # each of its sums has two decimals
    idle_us = 1e3 * STEPS * (report.device_step_ms - report.device_busy_ms)
    assert found["idle_time"].sum() == pytest.approx(idle_us, abs=slack_us)
    assert set(found["stream"]) == {7}
    # One stream and no events: it idles for the host alone. HTA calls a gap otherwise whose launch had begun before it.
    host_us = found[found["idle_category"] == "host_wait"]["idle_time"].sum()
    assert 0.85 * idle_us - slack_us <= host_us <= idle_us + slack_us


def test_hta_finds_every_launch_its_work_and_its_delay(hta, trace, report, rounding):
    found = hta.get_cuda_kernel_launch_stats(visualize=False)[0]
    work = {span.args["correlation"]: span for span in spans(trace, *DEVICE_WORK)}
    calls = {span.args["correlation"]: span for span in spans(trace, "runtime")}
    assert set(found["correlation"]) == set(work)
    assert len(found) == STEPS * (report.kernels + sum(len(spans(trace, c)) for c in ("memcpy", "memset")) / STEPS)
    for row in found.itertuples():
        kernel, call = work[row.correlation], calls[row.correlation]
        assert row.gpu_duration == pytest.approx(kernel.end_us - kernel.start_us, abs=rounding)
        assert row.cpu_duration == pytest.approx(call.end_us - call.start_us, abs=rounding)
        assert row.launch_delay == pytest.approx(max(kernel.start_us - call.end_us, 0), abs=rounding)


def test_hta_adds_up_the_same_kernels(hta, trace, rounding):
    _, found = hta.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=1000, duration_ratio=1.0, include_memory_kernels=True)
    expected = defaultdict(list)
    for span in spans(trace, *DEVICE_WORK):
        expected[span.name].append(span)
    assert set(found["name"]) == set(expected)
    for row in found.to_dict("records"):
        members = expected[row["name"]]
        assert row["sum (us)"] == pytest.approx(total_us(members), abs=rounding * len(members))
        assert row["kernel_type"] == ("MEMORY" if members[0].category != "kernel" else "COMPUTATION")


def test_hta_sees_how_fast_copies_are(hta, trace, report):
    found = hta.get_memory_bw_summary()
    for direction in {copy.direction for copy in report.copies}:
        copies = [copy for copy in report.copies if copy.direction == direction]
        row = found.loc[(0, f"Memcpy {direction}")]["memory_bw_gbps"]
        # It adds a copy's rate at its start and takes it off at its end: what rounding leaves there counts too.
        assert len(copies) <= row["count"] <= 2 * len(copies)
        # Where one copy starts as another ends it may add them up.
        fastest = max(copy.bytes / copy.duration_ms / 1e6 for copy in copies)
        assert row["max"] == pytest.approx(fastest) or row["max"] == pytest.approx(2 * fastest, rel=0.01)


@pytest.mark.parametrize("launches", [40, 1500])
def test_hta_counts_the_launch_queue(launches, tmp_path, rounding):
    from hta.trace_analysis import TraceAnalysis

    device = choose_device("vgpu:a10g")
    with vgpu.shape_only():
        x = torch.empty(2**28, device=device)

        def step():
            for _ in range(launches):
                x.add_(1)

        profile(step, steps=1, warmup=0, device=device).write(tmp_path / "trace.json")
    hta = TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)
    # The first kernel runs, the others queue; where the queue is full, a launch blocks.
    longest = min(launches - 1, vgpu.timeline().host.queue_length)
    assert hta.get_queue_length_summary().loc[(0, 7)]["queue_length"]["max"] == longest
    series = hta.get_queue_length_time_series()[0]
    assert series["queue_length"].iloc[-1] == 0
    blocked = hta.get_time_spent_blocked_on_full_queue({0: series})
    assert (len(blocked) == 1) == (launches > 1024)


# -- TensorBoard's profiler plugin ------------------------------------------------------------------


@pytest.fixture
def run(trace, tmp_path, capfd):
    """The plugin's run of a folder: as it loads one for its pages, in processes of its own."""
    pytest.importorskip("torch_tb_profiler", reason="needs torch-tb-profiler and tensorboard: pip install 'gapless[tools]'")
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader

    written = trace.write_tensorboard(tmp_path / "run")
    run = RunLoader("run", str(tmp_path / "run"), io.Cache(str(tmp_path))).load()
    complaints = capfd.readouterr().err
    assert not [line for line in complaints.splitlines() if "Error" in line or "external id" in line], complaints
    assert written.name.startswith("simulated-NVIDIA-A10G_")
    return run


@pytest.fixture
def page(run):
    page, = run.profiles.values()
    return page


def test_tensorboard_offers_its_views(run):
    assert {view.display_name for view in run.views} == {"Overview", "Operator", "Kernel", "Trace", "Memory"}


def test_tensorboards_overview_divides_the_steps_as_we_do(page, trace, report):
    columns = [column.get("name") for column in page.overview["steps"]["columns"]]
    steps = [dict(zip(columns, row)) for row in page.overview["steps"]["rows"]]
    assert [step["Step"] for step in steps] == ["0", "1"]
    for name, category in [("Kernel", "kernel"), ("Memcpy", "memcpy"), ("Memset", "memset")]:
        # One stream: nothing overlaps.
        assert sum(step[name] for step in steps) == pytest.approx(total_us(spans(trace, category)), abs=0.01)
    busy_us = sum(step[name] for step in steps for name in ("Kernel", "Memcpy", "Memset"))
    assert busy_us == pytest.approx(1e3 * STEPS * report.device_busy_ms, abs=0.01)


def test_tensorboards_gpu_utilisation_is_ours(page, trace, report):
    summary = {row["title"]: row["value"] for row in page.gpu_summary}
    assert summary["Name"] == report.device_name
    assert summary["Compute Capability"] == "8.6"
    kernels = spans(trace, "kernel")
    steps = [span for span in spans(trace, "annotation") if span.name.startswith("ProfilerStep#")]
    end_us = max(steps[-1].end_us, *(span.end_us for span in spans(trace, *DEVICE_WORK)))
    share = 1e3 * union_ms(kernels) / (end_us - steps[0].start_us)
    assert float(summary["GPU Utilization"].rstrip(" %")) == pytest.approx(100 * share, abs=0.005)
    assert report.gpu_utilization == pytest.approx(share)


def test_tensorboards_operators_have_their_time_on_the_gpu(page, trace, report):
    rows = {row["name"]: row for row in page.operation_table_by_name["data"]}
    operators = spans(trace, "op")
    assert sum(row["calls"] for row in rows.values()) == len(operators)
    device_us = sum(row["device_self_duration"] for row in rows.values())
    assert device_us == pytest.approx(1e3 * STEPS * report.device_busy_ms, abs=len(rows))  # each in whole µs
    by_number = {span.args["External id"]: span.name for span in operators}
    expected = defaultdict(float)
    for span in spans(trace, *DEVICE_WORK):
        expected[by_number[span.args["External id"]]] += span.end_us - span.start_us
    for name, row in rows.items():
        assert row["device_self_duration"] == pytest.approx(expected[name], abs=1), name
    for name, table in page.operation_stack_by_name.items():
        lines = {span.args["Call stack"] for span in operators if span.name == name and "Call stack" in span.args}
        assert lines and {row["call_stack"] for row in table["data"]} == lines, name


def test_tensorboards_kernels_are_ours(page, trace):
    rows = {row[0]: row[2:4] for row in page.kernel_table["data"]["rows"]}
    kernels = spans(trace, "kernel")
    assert set(rows) == {span.name for span in kernels}
    for name, (calls, duration_us) in rows.items():
        members = [span for span in kernels if span.name == name]
        assert calls == len(members)
        assert duration_us == pytest.approx(total_us(members), abs=1)


def test_tensorboards_trace_is_the_whole_trace(page, trace):
    shown = json.loads(gzip.decompress(Path(page.trace_file_path).read_bytes()))["traceEvents"]
    assert len(shown) == len(trace.events)


def test_tensorboards_memory_is_ours(page, trace, report):
    (_, peak), = page.memory_snapshot.get_peak_memory().items()
    assert peak == report.peak_memory_bytes
    curve = page.get_memory_curve(time_metric="ms", memory_metric="B")
    assert curve["metadata"]["devices"] == ["GPU0"]
    assert max(allocated for _, allocated, _ in curve["rows"]["GPU0"]) == peak
    changes = [event["args"]["Bytes"] for event in trace.events if event["name"] == "[memory]"]
    stats = {row[0]: row for row in page.get_memory_stats(memory_metric="B")["rows"]["GPU0"]}
    # Every result belongs to the operator that made it.
    assert sum(row[7] for row in stats.values()) == sum(nbytes for nbytes in changes if nbytes > 0)
    name, shape = "aten::relu", (256, 10, 256, 256) if "aten::convolution" in stats else (32, 16)
    calls = sum(span.name == name for span in spans(trace, "op"))
    assert stats[name][7] == calls * torch.Size(shape).numel() * 4
    blocks = page.get_memory_events(time_metric="us", memory_metric="B")["rows"]["GPU0"]
    assert sum(size for _, size, begin, *_ in blocks if begin is not None) == sum(n for n in changes if n > 0)
    assert all(end is None or begin is None or begin <= end for _, _, begin, end, _ in blocks)
