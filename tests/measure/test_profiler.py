import gzip
import json

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.evidence import views
from gapless.evidence.traces.trace import Trace
from gapless.measure import profiler
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile as profile_step

from .. import forked

pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events", "ignore:Profiler won't be using warmup")


@pytest.fixture(autouse=True)
def device():
    """The virtual A10G, idle and at zero."""
    here = choose_device("vgpu:a10g")
    vgpu.timeline().reset()
    yield here
    assert vgpu.timeline().recording is None and vgpu.memory().listeners == ()
    assert torch.autograd.profiler.record_function.__enter__.__module__ == "torch.autograd.profiler"


@pytest.fixture(params=["vgpu", "cpu"])
def both(request):
    """Each device that is here: whatever holds on the one holds on the other."""
    return torch.device("cpu") if request.param == "cpu" else choose_device("vgpu:a10g")


def of(trace, category):
    return [e for e in trace.events if e.get("cat") == category]


def steps_of(trace):
    return [e["name"] for e in of(trace, "user_annotation") if e["name"].startswith("ProfilerStep#")]


def loop(prof, device, count):
    x = torch.ones(8, 4, device=device, requires_grad=True)
    weight = torch.ones(4, 4, device=device)
    for _ in range(count):
        with profiler.record_function("forward"):
            y = x @ weight
        y.sum().backward()
        prof.step()


# -- the same on every device -----------------------------------------------------------------------


@pytest.mark.parametrize("schedule, count, expected", [
    (dict(wait=1, warmup=1, active=2), 12, [[2, 3], [6, 7], [10, 11]]),
    (dict(wait=1, warmup=1, active=2, repeat=2), 12, [[2, 3], [6, 7]]),
    (dict(wait=0, warmup=1, active=1, repeat=1, skip_first=3), 8, [[4]]),
    (dict(wait=2, warmup=1, active=1, repeat=2, skip_first=1, skip_first_wait=1), 8, [[2], [6]]),
    (dict(wait=1, warmup=1, active=4, repeat=1), 4, [[2, 3, 4]]),  # the loop ends within the cycle
    (dict(wait=5, warmup=1, active=1, repeat=1), 4, []),
])
def test_cycles_steps_and_their_numbers(both, schedule, count, expected):
    ready = []
    with profiler.profile(device=both, schedule=profiler.schedule(**schedule),
                          on_trace_ready=lambda prof: ready.append((prof.step_num, steps_of(prof.trace)))) as prof:
        loop(prof, both, count)
    assert [names for _, names in ready] == [[f"ProfilerStep#{number}" for number in cycle] for cycle in expected]
    # PyTorch calls the handler when the step after the cycle begins.
    assert [number for number, _ in ready] == [min(cycle[-1] + 1, count) for cycle in expected]


def test_without_a_schedule_everything_is_recorded_and_no_step_is_named(both):
    with profiler.profile(device=both) as prof:
        loop(prof, both, 2)
    assert steps_of(prof.trace) == []
    assert [e["name"] for e in of(prof.trace, "user_annotation")] == ["forward", "forward"]
    assert sum(e["name"] == "aten::mm" for e in of(prof.trace, "cpu_op")) >= 2


def test_start_and_stop_are_enough(both):
    prof = profiler.profile(device=both)
    prof.start()
    torch.ones(3, device=both).exp()
    prof.stop()
    assert "aten::exp" in {e["name"] for e in of(prof.trace, "cpu_op")}


def test_the_last_cycle_that_finished_stays_while_the_next_runs(both):
    with profiler.profile(device=both, schedule=profiler.schedule(wait=0, warmup=1, active=1)) as prof:
        loop(prof, both, 2)  # one cycle; then the warm-up of a second begins
        assert steps_of(prof.trace) == ["ProfilerStep#1"]
    assert steps_of(prof.trace) == ["ProfilerStep#1"]


def test_no_cycle_is_an_error_that_says_what_to_do(both, tmp_path):
    with profiler.profile(device=both, schedule=profiler.schedule(wait=3, warmup=1, active=1)) as prof:
        loop(prof, both, 1)
    for read in (lambda: prof.trace, lambda: prof.export_chrome_trace(tmp_path / "trace.json")):
        with pytest.raises(RuntimeError, match="no cycle of this profile has finished: read the trace in on_trace_ready"):
            read()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_export_is_the_trace_and_can_be_made_twice(both, tmp_path, name):
    with profiler.profile(device=both) as prof:
        loop(prof, both, 1)
    prof.export_chrome_trace(str(tmp_path / name))
    prof.export_chrome_trace(tmp_path / f"again-{name}")
    raw = (tmp_path / name).read_bytes()
    assert raw == (tmp_path / f"again-{name}").read_bytes()
    value = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    assert value["traceEvents"] == prof.trace.events == Trace.read(tmp_path / name).events


def test_handlers_of_pytorch_and_ours_write_a_file_a_cycle(both, tmp_path):
    for handler in (torch.profiler.tensorboard_trace_handler(str(tmp_path / "theirs"), "worker", use_gzip=True),
                    profiler.tensorboard_trace_handler(str(tmp_path / "ours"), "worker", use_gzip=True)):
        with profiler.profile(device=both, schedule=profiler.schedule(wait=0, warmup=1, active=1, repeat=2),
                              on_trace_ready=handler) as prof:
            loop(prof, both, 4)
    for folder in ("theirs", "ours"):
        files = sorted((tmp_path / folder).glob("worker.*.pt.trace.json.gz"))
        assert [steps_of(Trace.read(file)) for file in files] == [["ProfilerStep#1"], ["ProfilerStep#3"]]


@pytest.mark.parametrize("flag, found", [
    ("record_shapes", lambda trace: any("Input Dims" in e["args"] for e in of(trace, "cpu_op"))),
    ("profile_memory", lambda trace: any(e["name"] == "[memory]" for e in trace.events)),
    ("with_stack", lambda trace: any("test_profiler.py" in e["name"] for e in of(trace, "python_function"))),
])
def test_a_flag_adds_its_events_and_nothing_else_does(both, flag, found):
    for wanted in (False, True):
        with profiler.profile(device=both, **{flag: wanted}) as prof:
            loop(prof, both, 2)
        assert found(prof.trace) == wanted
        assert (prof.trace.metadata.get(flag) == 1) == wanted


def test_shapes_are_pytorchs_own():
    def shapes(device):
        x = torch.ones(2, 3, device=device)
        with profiler.profile(device=device, record_shapes=True) as prof:
            torch.cat([x, x.half()]).addmm(x.new_ones(4, 2), x.new_ones(2, 3), alpha=2)
            _ = x.sum(1) > 0
            x[torch.ones(2, dtype=torch.int64, device=device)]
        wanted = ("aten::addmm", "aten::sum", "aten::gt", "aten::index", "aten::cat")
        return {e["name"]: (e["args"]["Input Dims"], e["args"]["Input type"]) for e in of(prof.trace, "cpu_op")
                if e["name"] in wanted}

    assert shapes(choose_device("vgpu")) == shapes(torch.device("cpu"))


def test_the_handler_runs_after_an_error_in_the_loop_too(both):
    ready = []
    with pytest.raises(KeyError), profiler.profile(device=both, on_trace_ready=ready.append) as prof:
        torch.ones(3, device=both)
        raise KeyError
    assert ready == [prof] and of(prof.trace, "cpu_op")


def test_metadata_is_in_the_file(both):
    prof = profiler.profile(device=both)
    prof.preset_metadata_json("preset", "[1, 2]")
    with prof:
        prof.add_metadata("name", "value")
        prof.add_metadata_json("numbers", '{"a": 1}')
    found = prof.trace.metadata
    assert (found["preset"], found["name"], found["numbers"]) == ([1, 2], "value", {"a": 1})


def test_our_handler_needs_our_profiler(tmp_path):
    with pytest.raises(TypeError, match="with torch.profiler.profile use torch.profiler.tensorboard_trace_handler"):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                    on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))):
            pass


def test_it_is_pytorchs_profiler(both):
    prof = profiler.profile(device=both)
    assert isinstance(prof, torch.profiler.profile) and isinstance(prof, profiler.profile)
    assert prof.device == both
    for name in ("schedule", "record_function", "ProfilerAction", "ProfilerActivity", "supported_activities"):
        assert getattr(profiler, name) is getattr(torch.profiler, name)


# -- the virtual GPU --------------------------------------------------------------------------------


def test_the_courses_device_is_the_default(monkeypatch):
    monkeypatch.setenv("GAPLESS_DEVICE", "vgpu:t4")
    assert profiler.profile().device == gapless.device()
    assert vgpu.card().key == "t4"
    with pytest.raises(gapless.UnknownDevice, match="no device is called 'tpu'"):
        profiler.profile(device="tpu")


def test_a_step_is_what_gapless_profile_records(device):
    x = torch.ones(100, 100, device=device)

    def step():
        (x @ x).relu_()

    with profiler.profile(device=device, profile_memory=True, with_stack=True,
                          schedule=profiler.schedule(wait=0, warmup=0, active=1)) as prof:
        step()
    other = profile_step(step, steps=1, warmup=0, device=device)

    def shape(trace):  # the Python around the step is another
        return [(e.get("cat"), e["name"], e.get("dur") if e.get("cat") != "user_annotation" else 0) for e in trace.events if e["ph"] == "X"]

    assert shape(prof.trace) == shape(other)


def test_work_still_in_flight_when_recording_starts_is_in_the_trace(device):
    x = torch.ones(4000, 4000, device=device)
    with profiler.profile(device=device, schedule=profiler.schedule(wait=0, warmup=2, active=1, repeat=1)) as prof:
        for _ in range(3):
            for _ in range(3):
                x.exp_()
            prof.step()
    start, = (e["ts"] for e in of(prof.trace, "user_annotation") if e["name"] == "ProfilerStep#2")
    launched = {e["args"]["correlation"] for e in of(prof.trace, "cuda_runtime")}
    kernels = of(prof.trace, "kernel")
    assert all(e["ts"] > start - 50 for e in kernels)  # between recording and the step's beginning is Python
    assert sum(e["args"]["correlation"] not in launched for e in kernels) > 0
    assert sum(e["args"]["correlation"] in launched for e in kernels) == 3


def test_activities_choose_the_host_or_the_gpu(device):
    def categories(*activities):
        with profiler.profile(device=device, activities=activities, with_stack=True) as prof:
            loop(prof, device, 1)
        return {e.get("cat") for e in prof.trace.events if e["ph"] == "X"}

    host, gpu = {"cpu_op", "user_annotation", "python_function"}, {"cuda_runtime", "kernel", "gpu_memset"}
    assert categories(profiler.ProfilerActivity.CPU) == host
    assert categories(profiler.ProfilerActivity.CUDA) <= gpu
    assert categories(profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA) >= host | {"cuda_runtime", "kernel"}


@pytest.mark.parametrize("arguments, message", [
    (dict(with_flops=True), "no with_flops: count them with"),
    (dict(execution_trace_observer=object()), "no execution_trace_observer: leave it out"),
    (dict(activities=[profiler.ProfilerActivity.XPU]), "knows the activities CPU and CUDA"),
])
def test_what_the_virtual_gpu_cannot_honour_is_an_error(arguments, message, device):
    with pytest.raises(ValueError, match=message):
        profiler.profile(device=device, **arguments)


def test_what_it_does_not_have_says_so(device):
    with profiler.profile(device=device) as prof:
        pass
    with pytest.raises(NotImplementedError, match="choose with activities="):
        prof.toggle_collection_dynamic(True, [])
    with pytest.raises(NotImplementedError, match="memory_by_operator"):
        prof.export_memory_timeline("x.html")
    with pytest.raises(ValueError, match="without graph_lanes"):
        prof.export_chrome_trace("x.json", graph_lanes="all")


def test_profiles_do_not_nest(device):
    with profiler.profile(device=device):
        with pytest.raises(RuntimeError, match="profiles do not nest"):
            profiler.profile(device=device).start()


def test_a_block_around_the_loop_is_left_out_and_one_within_a_cycle_is_not(device):
    with profiler.profile(device=device, schedule=profiler.schedule(wait=0, warmup=1, active=1, repeat=2)) as prof:
        with profiler.record_function("around"):
            loop(prof, device, 4)
    assert {e["name"] for e in of(prof.trace, "user_annotation")} == {"ProfilerStep#3", "forward"}


def test_the_table_is_pytorchs(device):
    with profiler.profile(device=device, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        loop(prof, device, 3)
    table = prof.key_averages().table(sort_by="cuda_time_total", row_limit=5)
    assert "Self CUDA" in table and "CUDA Mem" in table and "Self CUDA time total" in table
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::mm"].count == sum(e["name"] == "aten::mm" for e in of(prof.trace, "cpu_op"))
    kernels = [e for e in of(prof.trace, "kernel") if e["name"].startswith("gemm")]
    assert rows["aten::mm"].device_time_total == pytest.approx(sum(e["dur"] for e in kernels))
    sums = [e for e in of(prof.trace, "cpu_op") if e["name"] == "aten::sum"]
    assert rows["aten::sum"].cpu_time_total == pytest.approx(sum(e["dur"] for e in sums))
    assert rows["aten::mm"].self_device_memory_usage > 0
    shapes = [row.input_shapes for row in prof.key_averages(group_by_input_shape=True) if row.key == "aten::mm"]
    assert [[8, 4], [4, 4]] in shapes


def test_what_is_freed_between_two_operators_is_in_neither(device):
    with profiler.profile(device=device, profile_memory=True) as prof:
        x = torch.ones(1_024, 1_024, device=device)
        for _ in range(300):
            x = x + 1  # the old one goes when the operator is over
    changes = [round(1e3 * event["ts"]) for event in prof.trace.events if event["name"] == "[memory]"]
    ends = {round(1e3 * span.end_us) for span in prof.trace.spans if span.category == "op"}
    begins = {round(1e3 * span.start_us) for span in prof.trace.spans if span.category == "op"}
    assert len(changes) >= 599 and not (ends | begins) & set(changes)
    add, = (row for row in views.memory_by_operator(prof.trace) if row.name == "aten::add")
    assert add.size_increase_bytes == add.allocation_bytes == 300 * 4 * 1_024**2


@pytest.mark.parametrize("flag", ["profile_memory", "record_shapes", "with_stack"])
def test_what_is_written_down_costs_the_host_nothing(device, flag):
    """Also where a tensor dies between two operators, while the program's Python is counted."""
    def host_ns(**flags):
        vgpu.timeline().reset()
        x = torch.ones(8, device=device)
        with profiler.profile(device=device, **flags):
            for _ in range(20):
                y = x + 1
                del y
        return vgpu.timeline().host_ns

    assert host_ns(**{flag: True}) == host_ns()


def test_the_table_of_all_cycles_needs_acc_events(device):
    def count(**options):
        with profiler.profile(device=device, schedule=profiler.schedule(wait=0, warmup=1, active=1), **options) as prof:
            loop(prof, device, 4)
        return next(row.count for row in prof.key_averages() if row.key == "ProfilerStep*")

    assert (count(), count(acc_events=True)) == (1, 2)


def test_stacks_are_exported_for_flame_graphs(device, tmp_path):
    with profiler.profile(device=device, with_stack=True) as prof:
        loop(prof, device, 2)
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_cuda_time_total")
    assert "test_profiler.py" in (tmp_path / "stacks.txt").read_text()


def test_an_id_of_the_users_own(device):
    with profiler.profile(device=device, custom_trace_id_callback=lambda: "mine") as prof:
        pass
    assert prof.get_trace_id() == prof.trace.metadata["trace_id"] == "mine"


@pytest.mark.skipif(torch.cuda.is_available(), reason="what Kineto says of a GPU may be worth reading")
def test_a_profile_of_the_cpu_writes_nothing_of_its_own():
    done = forked.run("-c", "import torch; from gapless import profiler\nwith profiler.profile(device='cpu'): torch.ones(3)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
