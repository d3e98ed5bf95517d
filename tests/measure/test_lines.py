"""Lines of operators on a real device, here the CPU."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from gapless.evidence.traces.trace import Trace
from gapless.evidence.traces.waits import Wait, locate
from gapless.measure.lines import LineRecorder
from gapless.measure.profile import LinedProfile, profile

CPU = torch.device("cpu")


def lines_of(trace, operator):
    """The lines, within their function, of each operator of that name."""
    python = [event for event in trace.events if event.get("cat") == "python_function"]
    found = []
    for event in trace.events:
        if event.get("cat") == "cpu_op" and event["name"] == operator:
            line, = {each["name"] for each in python if each["tid"] == event["tid"]
                     and each["ts"] <= event["ts"] < each["ts"] + each["dur"]}
            found.append(line)
    return found


def at(function, line):
    return f"{__file__}({function.__code__.co_firstlineno + line}): {function.__name__}"


def test_each_operator_has_its_line_in_every_profile():
    x = torch.ones(8)

    def helper():
        return x.exp()

    def step():
        helper() + x.sin()
        y = (x.cos()
             + x.tan())
        return [y.log() for _ in range(2)]

    for _ in range(2):
        trace = profile(step, steps=2, warmup=0, device=CPU)
        assert lines_of(trace, "aten::exp") == [at(helper, 1)] * 2
        assert lines_of(trace, "aten::sin") == [at(step, 1)] * 2
        assert lines_of(trace, "aten::cos") == [at(step, 2)] * 2
        assert lines_of(trace, "aten::tan") == [at(step, 3)] * 2
        assert {line.partition("):")[0] for line in lines_of(trace, "aten::log")} == {at(step, 4).partition("):")[0]}
    assert not any("gapless" in str(event.get("name")) and event.get("cat") == "user_annotation" for event in trace.events)


def test_generators_exceptions_and_library_code():
    x = torch.ones(8)

    def batches():
        yield x.exp()
        yield x.sin()

    def fails():
        raise ValueError

    def step():
        for batch in batches():
            batch.cos()
        try:
            fails()
        except ValueError:
            x.tan()
        torch.nn.functional.softplus(x)

    trace = profile(step, steps=1, warmup=0, device=CPU)
    assert lines_of(trace, "aten::exp") == [at(batches, 1)] and lines_of(trace, "aten::sin") == [at(batches, 2)]
    assert lines_of(trace, "aten::cos") == [at(step, 2)] * 2
    assert lines_of(trace, "aten::tan") == [at(step, 6)] and lines_of(trace, "aten::softplus") == [at(step, 7)]


def test_a_backward_pass_has_the_line_that_asks_for_it():
    weight = torch.ones(8, requires_grad=True)

    def step():
        loss = weight.sin().sum()
        loss.backward()

    trace = profile(step, steps=1, warmup=0, device=CPU)
    assert lines_of(trace, "aten::cos") == [at(step, 2)]


def test_modes_of_the_program_are_its_own():
    """Also where recording begins inside of one and ends outside."""
    recorded, x = LinedProfile(CPU), torch.ones(8)
    with torch.device("meta"):
        recorded.start()
        assert torch._C._len_torch_function_stack() == 1
        x.exp()
    assert torch.ones(1).device.type == "cpu"
    x.sin()
    trace = recorded.stop()
    first = test_modes_of_the_program_are_its_own.__code__.co_firstlineno
    places = [int(line.partition("(")[2].partition(")")[0]) - first for name in ("exp", "sin")
              for line in lines_of(trace, f"aten::{name}")]
    assert places == [6, 8]


def test_another_tracer_goes_on():
    seen = []
    before = sys.gettrace()

    def tracer(frame, event, argument):
        seen.append(event)
        return tracer

    sys.settrace(tracer)
    try:
        profile(lambda: torch.ones(2).exp(), steps=1, warmup=0, device=CPU)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert seen


def test_without_a_profile_nothing_is_added():
    lines = LineRecorder()
    lines.start()
    lines.stop()
    assert lines.added_to([]) == []


@pytest.mark.slow
def test_a_compiled_function_is_not_compiled_again():
    from torch._dynamo.utils import counters

    x = torch.ones(8)
    compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
    compiled(x)
    before = counters["stats"]["unique_graphs"]
    profile(lambda: compiled(x), steps=2, warmup=0, device=CPU)
    assert counters["stats"]["unique_graphs"] == before


def test_an_operator_of_a_backward_pass_on_another_thread_has_the_line_of_its_forward_operator():
    """As on a real GPU; here the events are moved to another thread afterwards."""
    weight, lines = torch.ones(8, requires_grad=True), LineRecorder()

    def step():
        y = weight.exp()
        (y.sin()
         .sum().backward())

    with torch.profiler.profile() as recorded, lines:
        step()
    events = [dict(event) for event in exported(recorded)]
    nodes = [event for event in events if str(event.get("name")).startswith("autograd::engine")]
    for event in events:
        if any(event.get("cat") == "cpu_op" and node["ts"] <= event["ts"] < node["ts"] + node["dur"] for node in nodes):
            event["tid"] = 7
    spans = Trace(lines.added_to(events), {}).spans
    found = {}
    for node in (span for span in spans if span.name.startswith("autograd::engine")):
        inner = next(span for span in spans if span.thread == node.thread and span.start_us > node.start_us)
        found[node.name.rpartition(": ")[2]], = locate([Wait(inner, "stream", 1.0, inner.start_us, (node,))], spans)
    name = "/".join(__file__.split("/")[-2:])
    line = step.__code__.co_firstlineno
    assert found["ExpBackward0"] == f"{name}:{line + 1} (in its backward pass)"
    assert found["SinBackward0"] == f"{name}:{line + 2} (in its backward pass)"
    assert found["torch::autograd::AccumulateGrad"] == f"{name}:{line + 3}"  # it has none: the line that asked for it


def exported(recorded):
    with tempfile.TemporaryDirectory() as folder:
        recorded.export_chrome_trace(f"{folder}/trace.json")
        return json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
