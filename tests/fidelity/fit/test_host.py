"""The host's costs from traces: made-up ones whose costs are known, and the real one that is shipped."""

import json

import pytest

from gapless.evidence.traces.trace import Trace
from gapless.fidelity.fit import host
from gapless.lessons.profiler_tour.real import FILE, real_trace
from gapless.vgpu.hardware.cards import fitted
from gapless.vgpu.hardware.cards.specs import Host

OP, LIBRARY, VIEW, LAUNCH, BINDING, CALL = 6.0, 30.0, 1.0, 5.0, 3.0, 1.25  # µs


class Program:
    """Writes the events of a host thread whose costs are the constants above."""

    def __init__(self):
        self.events, self.now = [], 1000.0

    def event(self, category, name, inside, own_us=0.0):
        start = self.now
        for each in inside:
            each()
        self.now += own_us
        self.events.append({"ph": "X", "cat": category, "name": name, "ts": start, "dur": self.now - start, "pid": 1, "tid": 1})

    def launch(self):
        self.event("cuda_runtime", "cudaLaunchKernel", [], LAUNCH)

    def operator(self, name, own_us, *inside):
        self.event("cpu_op", name, [*inside, *([] if own_us == VIEW else [self.launch])], own_us)

    def gap(self, calls=0):
        self.now += BINDING + CALL * calls

    def linear(self):
        self.event("cpu_op", "aten::linear", [lambda: self.operator("aten::t", VIEW), lambda: self.operator("aten::addmm", LIBRARY)])

    def trace(self, **metadata):
        return Trace(self.events, metadata)


@pytest.fixture
def program():
    made = Program()
    for _ in range(60):
        for step in (lambda: made.operator("aten::add", OP), made.linear, lambda: made.operator("aten::view", VIEW),
                     lambda: made.operator("aten::mm", LIBRARY)):
            step()
            made.gap()
    for _ in range(60):
        for inside in ([lambda: made.operator("aten::mul", OP)], [lambda: made.operator("aten::mm", LIBRARY)] * 2,
                       [lambda: made.operator("aten::t", VIEW)]):
            made.event("cpu_op", f"{host.BACKWARD}: MmBackward0", inside)
            made.gap()
    return made


def test_the_costs_of_a_known_host(program):
    found = host.costs_of(program.trace())
    wanted = {"op_ns": OP, "library_op_ns": LIBRARY, "view_ns": VIEW}
    assert found == pytest.approx({"launch_ns": 1e3 * LAUNCH, **{name: 1e3 * us for name, us in wanted.items()},
                                   **{f"backward_{name}": 1e3 * us for name, us in wanted.items()}})


@pytest.mark.parametrize("flag", ["record_shapes", "profile_memory", "with_stack"])
def test_a_host_that_wrote_down_more_has_no_say(program, flag):
    assert host.costs_of(program.trace(**{flag: 1})) == {}
    for _ in range(100):
        program.event("cpu_op", "aten::as_strided", [], 13)
    assert host.costs_of(program.trace()) == {}


def test_what_waits_or_allocates_is_left_out(program):
    for _ in range(1000):
        program.event("cpu_op", "aten::add", [lambda: program.event("cuda_runtime", "cudaMalloc", [], 900), program.launch], OP)
    assert host.costs_of(program.trace())["op_ns"] == pytest.approx(1e3 * OP)


def test_operators_on_cpu_tensors_are_left_out(program):
    for _ in range(1000):
        program.event("cpu_op", "aten::add", [], 500)
    assert host.costs_of(program.trace())["op_ns"] == pytest.approx(1e3 * OP)


def test_too_few_operators_say_nothing():
    program = Program()
    program.operator("aten::add", OP)
    assert host.costs_of(program.trace()) == {}


def test_pythons_cost_is_the_slope_of_the_gaps():
    calls = {("a", "b"): 0.0, ("b", "c"): 5.0, ("c", "a"): 12.0, ("x", "y"): 3.0}
    gaps = {pair: [BINDING + CALL * calls[pair]] * 30 for pair in list(calls)[:3]} | {("q", "r"): [99.0] * 100}
    assert host.python_costs(gaps, calls) == pytest.approx({"binding_ns": 1e3 * BINDING, "python_call_ns": 1e3 * CALL})
    assert host.python_costs({("a", "b"): [3.0]}, calls) == {}


def test_between_a_resnets_operators_python_calls_its_modules():
    calls = host.resnet_calls()
    assert calls["native_batch_norm", "add_"] == 0  # `out += identity`
    # _wrapped_call_impl, _call_impl, forward, and what looks up the module and calls the function.
    assert 4 <= calls["native_batch_norm", "relu_"] <= 8
    assert calls["native_batch_norm", "relu_"] < calls["max_pool2d_with_indices", "convolution"]


def test_a_known_host_and_a_known_program_give_the_constants(program):
    calls = host.resnet_calls()
    names = {ours: theirs for theirs, ours in host._RESNET.items()}
    for first, second in calls:
        for _ in range(20):
            program.operator(names[first], OP)
            program.gap(calls[first, second])
            program.operator(names[second], OP)
            program.now += 1e6
    gaps = {pair: us for pair, us in host.resnet_gaps_us(program.trace()).items() if min(us) < 1e5}
    found = host.python_costs({pair: [each for each in us if each < 1e5] for pair, us in gaps.items()}, calls)
    assert found == pytest.approx({"binding_ns": 1e3 * BINDING, "python_call_ns": 1e3 * CALL})


def test_the_shipped_real_trace_is_a_host_of_the_same_kind():
    """Its operators were recorded with shapes, so it has no say in the fit; its launches are the fit's all the same."""
    trace = real_trace()
    assert FILE.is_file() and host.costs_of(trace) == {}
    launches = sorted(event["dur"] for event in trace.events if event.get("name") == "cudaLaunchKernel")
    assert launches[len(launches) // 2] * 1e3 == pytest.approx(6000, rel=0.5)  # as in the fit's traces


def test_the_file_holds_the_medians_of_its_hosts():
    found = json.loads((fitted.FOLDER / "host.json").read_text(encoding="utf-8"))
    assert set(found["shared"]) == {"op_ns", "library_op_ns", "view_ns", "launch_ns", "sync_ns", "python_call_ns"}
    for name, value in found["shared"].items():
        assert getattr(Host(), name) == value
    assert found["shared"] == host.shared(found["hosts"], host.without_profiler())
    # As on the hosts without a profiler: an operator and its launch.
    assert found["shared"]["op_ns"] + found["shared"]["launch_ns"] == pytest.approx(host.without_profiler()["add"], abs=2)
    assert found["shared"]["launch_ns"] < sorted(each["launch_ns"] for each in found["hosts"].values())[1]
    assert len(found["hosts"]) == 3
