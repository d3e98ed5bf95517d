import itertools
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from gapless import vgpu
from gapless.evidence.report import StepReport
from gapless.measure.device import device as choose_device
from gapless.measure.profile import StepTime, profile, time_step, timed_profile


@pytest.fixture(autouse=True)
def device():
    """The virtual A10G, idle and at zero."""
    here = choose_device("vgpu:a10g")
    vgpu.timeline().reset()
    return here


def make_step(device):
    x = torch.ones(1000, 1000, device=device)
    weight = torch.ones(1000, 1000, device=device, requires_grad=True)

    def step():
        with torch.profiler.record_function("forward"):
            y = (x @ weight).relu()
        torch.histc(y.detach(), bins=8, min=0, max=1)  # clears its counts first: a memset
        y[y > 0].sum().backward()
        torch.vgpu.synchronize()

    return step


@pytest.fixture(scope="module")
def trace():
    device = choose_device("vgpu:a10g")
    vgpu.timeline().reset()
    return profile(make_step(device), steps=3, warmup=1, device=device)


def of(trace, category):
    return [e for e in trace.events if e.get("cat") == category]


def within(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-6


# -- the virtual GPU: what a trace holds ------------------------------------------------------------


def test_each_step_is_a_block_and_they_follow_one_another(trace):
    steps = [e for e in of(trace, "user_annotation") if e["name"].startswith("ProfilerStep#")]
    assert [e["name"] for e in steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    for first, second in itertools.pairwise(steps):
        assert first["ts"] + first["dur"] == pytest.approx(second["ts"], abs=1e-3)
    assert len({round(e["dur"], 3) for e in steps}) == 1


def test_operators_calls_and_kernels_are_there(trace):
    assert {"aten::mm", "aten::relu", "aten::nonzero", "aten::index"} <= {e["name"] for e in of(trace, "cpu_op")}
    assert {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize"} <= {
        e["name"] for e in of(trace, "cuda_runtime")}
    assert any("gemm" in e["name"] for e in of(trace, "kernel"))
    assert of(trace, "gpu_memcpy")


def test_every_kernel_and_copy_has_the_call_that_launched_it(trace):
    calls = {e["args"]["correlation"]: e for e in of(trace, "cuda_runtime")}
    assert len(calls) == len(of(trace, "cuda_runtime"))
    work = of(trace, "kernel") + of(trace, "gpu_memcpy") + of(trace, "gpu_memset")
    for event in work:
        assert calls[event["args"]["correlation"]]["ts"] <= event["ts"]
    flows = of(trace, "ac2g")
    assert {e["id"] for e in flows if e["ph"] == "f"} == {e["args"]["correlation"] for e in work}
    assert {e["id"] for e in flows if e["ph"] == "f"} <= {e["id"] for e in flows if e["ph"] == "s"}


def test_kernels_of_a_stream_do_not_overlap(trace):
    events = sorted(of(trace, "kernel") + of(trace, "gpu_memcpy"), key=lambda e: e["ts"])
    for first, second in itertools.pairwise(events):
        assert first["ts"] + first["dur"] <= second["ts"] + 1e-6


def test_blocks_of_record_function_hold_their_operators(trace):
    blocks = [e for e in of(trace, "user_annotation") if e["name"] == "forward"]
    assert len(blocks) == 3
    products = [e for e in of(trace, "cpu_op") if e["name"] == "aten::mm"]
    assert all(any(within(op, block) for op in products) for block in blocks)


def test_each_operator_has_the_users_line(trace):
    lines = {e["name"] for e in of(trace, "python_function")}
    assert lines
    assert all(line.startswith(f"{__file__}(") for line in lines)


def test_an_operator_its_calls_and_their_work_have_one_number(trace):
    operators = {e["args"]["External id"]: e for e in of(trace, "cpu_op")}
    assert len(operators) == len(of(trace, "cpu_op"))
    calls = {e["args"]["correlation"]: e for e in of(trace, "cuda_runtime")}
    for call in calls.values():
        around = [e for e in operators.values() if within(call, e)]
        innermost = min(around, key=lambda e: e["dur"])["args"]["External id"] if around else 0
        assert call["args"]["External id"] == innermost
    assert {e["name"] for e in calls.values() if e["args"]["External id"] == 0} == {"cudaDeviceSynchronize"}
    for event in of(trace, "kernel") + of(trace, "gpu_memcpy"):
        assert event["args"]["External id"] == calls[event["args"]["correlation"]]["args"]["External id"] > 0


def test_only_the_devices_work_has_a_stream(trace):
    # Analysis tools tell the device's work by it.
    assert {e["cat"] for e in trace.events if "stream" in e.get("args", {})} == {"kernel", "gpu_memcpy", "gpu_memset"}


def test_correlations_need_more_than_16_bits(trace):
    # Holistic Trace Analysis keeps the place of an event in a column as wide as they are.
    assert min(e["args"]["correlation"] for e in of(trace, "cuda_runtime")) > 2**16


def test_a_trace_has_its_rank_as_pytorchs_profiler_gives_it(trace, device, tmp_path):
    assert trace.metadata["distributedInfo"] == {"rank": 0}
    assert profile(lambda: None, device=torch.device("cpu")).metadata["distributedInfo"] == {"rank": 0}
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        found = profile(lambda: None, device=device).metadata["distributedInfo"]
    finally:
        torch.distributed.destroy_process_group()
    assert found == {"backend": "gloo", "rank": 0, "world_size": 1}


def test_a_result_is_allocated_inside_its_operator_and_freed_where_it_was(device):
    def step():
        x = torch.ones(1000, device=device)
        y = x + 1
        del x
        y.exp_()

    trace = profile(step, steps=2, device=device)
    changes = [e for e in trace.events if e["name"] == "[memory]"]
    assert [e["ts"] for e in changes] == sorted(e["ts"] for e in changes)
    operators = [e for e in of(trace, "cpu_op") if e["name"] in ("aten::empty", "aten::add")]
    allocated = {}
    for event in changes:
        args = event["args"]
        assert args["Total Reserved"] >= args["Total Allocated"]
        if args["Bytes"] > 0:
            assert any(e["ts"] <= event["ts"] < e["ts"] + e["dur"] for e in operators)
            assert args["Addr"] not in allocated
            allocated[args["Addr"]] = args["Bytes"]
        else:
            assert allocated.pop(args["Addr"]) == -args["Bytes"]
    assert len(changes) == 8 and not allocated


def test_a_change_of_no_bytes_is_no_event(device):
    trace = profile(lambda: torch.empty(0, device=device), steps=1, device=device)
    assert not [e for e in trace.events if e["name"] == "[memory]"]


def test_memory_events_add_up(trace):
    changes = [e["args"] for e in trace.events if e["name"] == "[memory]"]
    assert sum(a["Bytes"] > 0 for a in changes) > 3
    for first, second in itertools.pairwise(changes):
        assert second["Total Allocated"] == first["Total Allocated"] + second["Bytes"]


def test_the_trace_says_that_it_is_simulated_and_of_what(trace):
    found = trace.metadata["gapless"]
    assert found == {"simulated": True, "card": "a10g", "uncertainty": trace.uncertainty} and 0.05 < trace.uncertainty < 0.4
    assert trace.metadata["deviceProperties"][0]["name"] == "NVIDIA A10G"


def test_a_trace_survives_the_disk(trace, tmp_path):
    trace.write(tmp_path / "trace.json.gz")
    assert type(trace).read(tmp_path / "trace.json.gz").events == trace.events


def test_the_report_of_it(trace):
    report = StepReport.from_trace(trace)
    assert report.steps == 3
    assert report.device_name == "NVIDIA A10G"
    assert report.syncs_per_step == 3  # forward, backward and synchronize
    assert all(sync.location for sync in report.syncs_in_steps)


@pytest.mark.parametrize("copy, waits", [
    (lambda x, device: x.pin_memory().to(device, non_blocking=True), 0),
    (lambda x, device: x[:100].to(device, non_blocking=True), 0),  # so small that the driver puts it aside
    (lambda x, device: x.to(device, non_blocking=True), 1),
    (lambda x, device: x.to(device), 1),
], ids=["pinned", "small pageable", "pageable", "blocking"])
def test_the_report_counts_the_copies_that_wait(copy, waits, device):
    x = torch.zeros(100_000)
    report = StepReport.from_trace(profile(lambda: copy(x, device), steps=2, device=device))
    assert report.syncs_per_step == waits
    assert len(report.copies) == 2


def test_a_wait_outside_operators_has_its_line(device):
    event = torch.vgpu.Event()

    def step():
        torch.vgpu.synchronize()
        event.record()
        event.synchronize()

    report = StepReport.from_trace(profile(step, steps=1, device=device))
    first = step.__code__.co_firstlineno
    assert [sync.location for sync in report.syncs_in_steps] == [f"measure/test_profile.py:{first + n}" for n in (1, 3)]


def test_the_step_starts_on_an_idle_device(device):
    x = torch.ones(4000, 4000, device=device)
    trace = profile(lambda: x.exp_(), steps=1, warmup=5, device=device)
    kernel, = of(trace, "kernel")
    step, = of(trace, "user_annotation")
    assert kernel["ts"] < step["ts"] + step["dur"] + 1e-6


def test_warmup_is_not_recorded(device):
    calls = []
    trace = profile(lambda: calls.append(1), steps=2, warmup=4, device=device)
    assert len(calls) == 6
    assert len(of(trace, "user_annotation")) == 2


# -- the virtual GPU: what goes wrong ---------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, -1])
def test_no_steps_is_an_error(steps, device):
    with pytest.raises(ValueError, match=f"steps is {steps}: record at least one"):
        profile(lambda: None, steps=steps, device=device)


def test_profiles_do_not_nest(device):
    with pytest.raises(RuntimeError, match="profiles do not nest"):
        profile(lambda: profile(lambda: None, device=device), warmup=0, device=device)
    assert_detached()


def assert_detached():
    assert vgpu.timeline().recording is None
    assert vgpu.memory().listeners == ()
    assert "vgpu" not in torch.autograd.profiler.record_function.__enter__.__qualname__
    assert torch.autograd.profiler.record_function.__enter__.__module__ == "torch.autograd.profiler"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_step_that_raises_leaves_no_recording(error, device):
    calls = []

    def step():
        calls.append(1)
        with torch.profiler.record_function("block"):
            torch.ones(3, device=device).sum()
            if len(calls) == 2:
                raise error("mine")

    with pytest.raises(error, match="mine"):
        profile(step, steps=3, warmup=0, device=device)
    assert_detached()
    assert of(profile(step, steps=1, warmup=0, device=device), "kernel")


def test_a_block_used_as_a_decorator_or_in_another_thread(device):
    @torch.profiler.record_function("decorated")
    def work():
        torch.ones(3, device=device)

    def step():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()

    trace = profile(step, steps=1, warmup=0, device=device)
    assert [e["name"] for e in of(trace, "user_annotation")].count("decorated") == 2


def test_an_unknown_device_is_an_error():
    with pytest.raises(ValueError, match="no device is called 'tpu'"):
        profile(lambda: None, device="tpu")


# -- PyTorch's own profiler -------------------------------------------------------------------------


def test_the_profiler_of_pytorch_gives_the_same_form():
    x = torch.ones(50, 50, requires_grad=True)

    def step():
        with torch.profiler.record_function("forward"):
            y = x @ x
        y.sum().backward()

    trace = profile(step, steps=2, warmup=1, device=torch.device("cpu"))
    names = {e["name"] for e in of(trace, "cpu_op")}
    assert {"aten::mm", "aten::sum"} <= names
    annotations = [e["name"] for e in of(trace, "user_annotation")]
    assert {"ProfilerStep#0", "ProfilerStep#1", "forward"} <= set(annotations)
    assert not any("gapless line" in e.get("name", "") for e in trace.events)
    lines = {e["name"] for e in of(trace, "python_function")}
    first = step.__code__.co_firstlineno
    assert f"{__file__}({first + 2}): step" in lines
    assert f"{__file__}({first + 3}): step" in lines


def test_the_profilers_lines_hold_their_operators():
    x = torch.ones(50, 50)
    trace = profile(lambda: x @ x, steps=1, warmup=1, device=torch.device("cpu"))
    product = next(e for e in of(trace, "cpu_op") if e["name"] == "aten::mm")
    assert any(within(product, line) for line in of(trace, "python_function"))


def test_an_error_in_pytorchs_profiler_reaches_the_program():
    def step():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        profile(step, warmup=0, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="steps is 0"):
        profile(step, steps=0, device=torch.device("cpu"))
    profile(lambda: torch.ones(2).sum(), steps=1, device=torch.device("cpu"))


# -- the stopwatch ----------------------------------------------------------------------------------


def test_the_virtual_stopwatch_is_exact(device):
    host = vgpu.timeline().host
    x = torch.ones(4000, 4000, device=device)
    kernel_ns = round(1e3 * of(profile(lambda: x.exp_(), steps=1, device=device), "kernel")[0]["dur"])
    found = time_step(lambda: x.exp_(), steps=10, device=device)
    # The first kernel starts when the host has launched it, and the last wait has a return.
    first_ns = host.python_call_ns + host.op_ns + host.launch_ns  # the function is a call
    total_ns = first_ns + 10 * kernel_ns + host.sync_ns
    true_ms = total_ns / 1e6 / 10
    assert found == StepTime(host_ms=first_ns / 1e6, true_ms=true_ms, samples_ms=(true_ms,),
                             simulated=True, device_name="NVIDIA A10G")


def test_two_stopwatches_agree_to_the_last_digit(device):
    def run():
        vgpu.timeline().reset()
        return time_step(make_step(device), steps=5, device=device)

    assert run() == run()


def test_on_the_cpu_it_measures():
    found = time_step(lambda: None, warmup=0, steps=2, blocks=3, device=torch.device("cpu"))
    assert (found.simulated, found.device_name, len(found.samples_ms)) == (False, "CPU", 3)


def test_a_block_of_long_steps_is_about_a_second(monkeypatch):
    clock = SimpleNamespace(now=0)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock.now)
    calls = []

    def step():
        calls.append(clock.now)
        clock.now += 300_000_000

    found = time_step(step, warmup=2, steps=20, blocks=2, device=torch.device("cpu"))
    assert found.true_ms == 300 and len(calls) == 2 + 2 * (1 + 3)  # 3 of 0.3 s, and one for the host's time


def test_a_first_call_that_compiles_says_nothing_of_the_others(monkeypatch):
    clock = SimpleNamespace(now=0)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock.now)
    calls = []

    def step():
        clock.now += 1_000_000 if calls else 3_000_000_000
        calls.append(clock.now)

    time_step(step, warmup=3, steps=20, blocks=5, device=torch.device("cpu"))
    assert len(calls) == 3 + 5 * (1 + 20)


@pytest.mark.parametrize("counts", [{"steps": 0}, {"blocks": 0}])
def test_nothing_to_time_is_an_error(counts, device):
    with pytest.raises(ValueError, match="at least 1"):
        time_step(lambda: None, device=device, **counts)


@pytest.mark.parametrize("size", [4, 400])  # the host's time, and the device's
def test_calls_timed_and_profiled_at_once_take_what_they_take_without(size):
    device = choose_device("vgpu:a10g")
    x = torch.ones(size, size, device=device)

    def run():
        for _ in range(10):
            (x @ x).sum()

    alone = time_step(run, warmup=1, steps=4, device=device)
    time, trace = timed_profile(run, warmup=1, steps=4, device=device)
    assert time.host_ms == alone.host_ms and time.true_ms == pytest.approx(alone.true_ms, abs=0.001)  # one wait at the end
    assert sum(span.category == "kernel" for span in trace.spans) == 4 * 20


@pytest.mark.parametrize("device", ["cpu", "vgpu:0"])
def test_a_profile_between_two_calls_has_the_lines(device):
    from gapless.evidence.traces.waits import source_line
    from gapless.measure.profile import LinedProfile

    vgpu.enable("a10g")
    recorded = LinedProfile(torch.device(device))
    x = torch.ones(8, device=device)
    recorded.start()
    y = x + 1
    trace = recorded.stop()
    (y * 2).sum()
    recorded.abandon()
    lines = {source_line(span.name) for span in trace.spans if span.category == "python"} - {None}
    assert lines and all(line.startswith("measure/test_profile.py:") for line in lines)
    operators = {span.name for span in trace.spans if span.category == "op"}
    assert "aten::add" in operators and "aten::mul" not in operators
