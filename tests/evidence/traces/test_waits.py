import time

import pytest
import torch

from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace
from gapless.evidence.traces.waits import enclosing, forward_operators, source_line
from gapless.measure.profile import profile

from ..kineto_events import BACKWARD, MAIN, call, frame, memcpy, op, read_back, span


def syncs(*events):
    flat = [item for event in events for item in (event if isinstance(event, list) else [event])]
    return StepReport.from_trace(Trace(flat, {})).syncs


def test_a_copy_and_its_synchronisation_are_one_wait():
    (sync,) = syncs(read_back(100, 1))
    assert (sync.name, sync.kind, sync.op) == ("cudaStreamSynchronize", "read-back", "aten::item")
    assert sync.wait_ms == pytest.approx(0.300)


def test_older_traces_show_only_the_copy():
    (sync,) = syncs(
        span("Operator", "aten::item", 0, 330),
        span("Operator", "aten::_local_scalar_dense", 1, 328),
        call("cudaMemcpyAsync", 5, 320, 1, cat="Runtime"),
        memcpy("DtoH (Device -> Pageable)", 320, 2, 1, cat="Memcpy"),
    )
    assert (sync.name, sync.kind, sync.op) == ("cudaMemcpyAsync", "read-back", "aten::item")
    assert sync.wait_ms == pytest.approx(0.320)


def test_where_the_synchronisation_is_left_out_the_copys_end_counts():
    (sync,) = syncs(
        op("aten::copy_", 0, 60),
        call("cudaMemcpyAsync", 5, 7, 1),
        memcpy("HtoD (Pageable -> Device)", 15, 25, 1, bytes=100_000),
    )
    assert (sync.kind, sync.wait_ms) == ("copy", pytest.approx(0.035))


def test_a_small_pageable_copy_to_the_device_is_put_aside():
    """Even where it begins at once, as on an idle H100."""
    assert not syncs(
        op("aten::copy_", 0, 60),
        call("cudaMemcpyAsync", 5, 7, 1),
        memcpy("HtoD (Pageable -> Device)", 8, 2, 1, bytes=64 * 1024),
    )


def test_a_pageable_copy_that_starts_after_its_operator_held_nobody():
    report = StepReport.from_trace(
        Trace(
            [
                op("aten::copy_", 0, 9),
                call("cudaMemcpyAsync", 1, 7, 1),
                memcpy("HtoD (Pageable -> Device)", 16_000, 9, 1),
            ],
            {},
        )
    )
    assert report.syncs == ()
    assert report.copies[0].blocking is False


def test_copies_to_the_device_pageable_and_pinned():
    def blocking_copy(memory, start, number):
        return [
            op("aten::to", start, 90),
            op("aten::_to_copy", start + 1, 85),
            op("aten::copy_", start + 2, 80),
            call("cudaMemcpyAsync", start + 5, 10, number),
            memcpy(f"HtoD ({memory} -> Device)", start + 20, 30, number),
            call("cudaStreamIsCapturing", start + 16, 1),
            call("cudaStreamSynchronize", start + 20, 40),
        ]

    found = syncs(blocking_copy("Pageable", 0, 1), blocking_copy("Pinned", 100, 2))
    assert [(s.kind, s.op) for s in found] == [("copy", "aten::to")] * 2
    assert [s.wait_ms for s in found] == [pytest.approx(0.050)] * 2


def test_a_pinned_asynchronous_copy_is_no_wait():
    assert not syncs(
        op("aten::copy_", 0, 20),
        call("cudaMemcpyAsync", 1, 7, 1),
        memcpy("HtoD (Pinned -> Device)", 5, 9, 1),
    )


def test_without_operators_only_the_next_call_completes_a_copy():
    copy = [call("cudaMemcpyAsync", 0, 10, 1), memcpy("DtoH (Device -> Pageable)", 5, 2, 1)]
    assert [s.kind for s in syncs(*copy, call("cudaStreamSynchronize", 20, 5))] == ["read-back"]
    apart = syncs(*copy, call("cudaEventRecord", 15, 1), call("cudaStreamSynchronize", 20, 5))
    assert [s.kind for s in apart] == ["read-back", "stream"]


def test_a_launch_in_between_makes_two_waits():
    found = syncs(
        op("aten::nonzero", 0, 100),
        call("cudaMemcpyAsync", 5, 10, 1),
        memcpy("DtoH (Device -> Pageable)", 8, 2, 1),
        call("cudaLaunchKernel", 20, 5, 2),
        call("cudaStreamSynchronize", 30, 50),
    )
    assert [(s.name, s.kind) for s in found] == [
        ("cudaMemcpyAsync", "read-back"),
        ("cudaStreamSynchronize", "stream"),
    ]


def test_a_synchronisation_on_another_thread_is_another_wait():
    found = syncs(
        call("cudaMemcpyAsync", 0, 10, 1),
        memcpy("DtoH (Device -> Pageable)", 5, 2, 1),
        call("cudaStreamSynchronize", 12, 5, tid=BACKWARD),
    )
    assert [s.kind for s in found] == ["read-back", "stream"]


@pytest.mark.parametrize(
    "name, kind",
    [
        ("cudaStreamSynchronize", "stream"),
        ("cudaDeviceSynchronize", "device"),
        ("cudaEventSynchronize", "event"),
        ("hipStreamSynchronize", "stream"),
        ("cuCtxSynchronize", "device"),
        ("cudaMemcpy", "copy"),
    ],
)
def test_calls_that_wait(name, kind):
    (sync,) = syncs(call(name, 10, 25))
    assert (sync.name, sync.kind, sync.op, sync.location) == (name, kind, None, None)
    assert sync.wait_ms == pytest.approx(0.025)


def test_a_synchronous_copy_back_is_a_read_back():
    (sync,) = syncs(call("cudaMemcpy", 0, 25, 1), memcpy("DtoH (Device -> Pageable)", 5, 2, 1))
    assert sync.kind == "read-back"


def test_what_is_not_a_wait():
    assert not syncs(
        span("cuda_sync", "Stream Sync", 0, 50, tid=7, pid=0),
        span("cuda_sync", "cudaStreamSynchronize", 0, 50, tid=7, pid=0),
        call("cudaStreamWaitEvent", 60, 5),
        call("cudaEventQuery", 70, 5),
        call("cudaMemcpyAsync", 80, 5, 99),
    )


def test_a_driver_call_inside_a_runtime_call_is_not_counted_again():
    found = syncs(call("cudaDeviceSynchronize", 0, 50), call("cuCtxSynchronize", 1, 48, cat="cuda_driver"))
    assert [s.name for s in found] == ["cudaDeviceSynchronize"]


def test_waits_come_in_order_of_time_over_all_threads():
    found = syncs(
        call("cudaEventSynchronize", 50, 5, tid=BACKWARD),
        call("cudaStreamSynchronize", 90, 5),
        call("cudaDeviceSynchronize", 10, 5),
    )
    assert [s.kind for s in found] == ["device", "event", "stream"]
    assert [s.start_ms for s in found] == sorted(s.start_ms for s in found)


@pytest.mark.parametrize(
    "names, expected",
    [
        (["aten::index", "aten::nonzero"], "aten::nonzero"),
        (["aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"], "aten::item"),
        (["aten::to", "aten::_to_copy", "aten::copy_"], "aten::to"),
        (["aten::unique", "aten::copy_"], "aten::unique"),
        (["aten::_local_scalar_dense"], "aten::item"),
        (["aten::_to_copy"], "aten::to"),
        (["autograd::engine::evaluate_function: IndexBackward0", "IndexBackward0"], "IndexBackward0"),
        (["autograd::engine::evaluate_function: X", "XBackward0", "aten::nonzero"], "aten::nonzero"),
    ],
)
def test_the_operator_that_says_most(names, expected):
    around = [op(name, i, 100 - 2 * i) for i, name in enumerate(names)]
    (sync,) = syncs(around, call("cudaStreamSynchronize", 20, 5))
    assert sync.op == expected


def test_the_line_is_the_innermost_one_outside_torch_and_this_package():
    (sync,) = syncs(
        frame("train.py(3): <module>", 0, 500),
        frame("/home/me/project/losses.py(41): masked", 10, 480),
        frame("torch/_tensor.py(99): wrapped", 20, 460),
        frame("/usr/lib/python3/site-packages/torch/x.py(1): f", 22, 450),
        frame("gapless/profile.py(7): run", 24, 440),
        frame("<built-in method item of Tensor object at 0x7f>", 26, 430),
        read_back(100, 1),
        frame("later.py(1): f", 499, 5),
    )
    assert sync.location == "project/losses.py:41"


def test_a_backward_threads_line_is_the_one_that_started_it():
    (sync,) = syncs(
        frame("train.py(20): step", 0, 600),
        frame("torch/autograd/graph.py(8): run", 5, 590),
        frame("loader.py(5): fetch", 50, 500, tid=300),
        frame("short.py(5): gone_before_the_end", 90, 50),
        span("user_annotation", "ProfilerStep#0", 0, 700),
        read_back(100, 1, tid=BACKWARD),
    )
    assert sync.location == "train.py:20"


def test_a_wait_in_the_backward_pass_belongs_to_the_line_of_the_operator_whose_backward_pass_it_is_in():
    """On a real GPU, where another thread runs it; of operators with one sequence number the last has made the node."""
    (sync,) = syncs(
        frame("train.py(20): step", 0, 900),
        frame("model.py(7): forward", 10, 200),
        op("aten::ones", 20, 5, **{"Sequence number": 3}),
        op("aten::mul", 30, 5, **{"Sequence number": 3}),
        frame("model.py(9): after", 215, 20),
        op("aten::sum", 220, 5, **{"Sequence number": 4}),
        op("autograd::engine::evaluate_function: MulBackward0", 399, 400, BACKWARD, **{"Sequence number": 3, "Fwd thread id": 1}),
        read_back(400, 1, tid=BACKWARD),
    )
    assert sync.location == "model.py:7 (in its backward pass)"


def test_pytorch_numbers_the_nodes_of_the_backward_pass_as_their_operators():
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4))

    def step():
        torch.ones(3, 4).mul(2)  # no node, but the next one's number
        torch.nn.functional.cross_entropy(layers(torch.randn(3, 4)).mul(2), torch.tensor([0, 1, 2])).backward()

    spans = profile(step, steps=1, warmup=1, device=torch.device("cpu")).spans
    forward = forward_operators(spans)
    nodes = {span.name.rpartition(": ")[2]: forward[span.args["Sequence number"]].name for span in spans
             if span.name.startswith("autograd::engine") and "Sequence number" in span.args}
    assert nodes == {
        "NllLossBackward0": "aten::nll_loss_forward", "LogSoftmaxBackward0": "aten::_log_softmax", "MulBackward0": "aten::mul",
        "NativeBatchNormBackward0": "aten::native_batch_norm", "ReluBackward0": "aten::relu", "AddmmBackward0": "aten::addmm",
        "TBackward0": "aten::t"}


def test_older_traces_keep_the_stack_with_the_operator():
    stack = "torch/functional.py(12): where;/data/code/loss.py(31): masked;train.py(7): <module>"
    (sync,) = syncs(
        op("aten::where", 0, 400, **{"Call stack": stack}),
        read_back(10, 1),
        frame("loader.py(5): fetch", 0, 500, tid=300),
    )
    assert sync.location == "code/loss.py:31"


@pytest.mark.parametrize(
    "name, line",
    [
        ("train.py(12): step", "train.py:12"),
        ("/a/b/c.py(3): f", "b/c.py:3"),
        (r"C:\work\c.py(3): f", "work/c.py:3"),
        ("my (copy).py(3): <lambda>", "my (copy).py:3"),
        ('cell "masked_loss"(4): loss', 'cell "masked_loss", line 4'),
        ("notebook cell(4): loss", "notebook cell, line 4"),
        ("<ipython-input-3-ab12>(4): <module>", "notebook cell, line 4"),
        ("/tmp/ipykernel_91/123.py(4): <module>", "notebook cell, line 4"),
        ("/home/me/torch/train.py(4): f", "torch/train.py:4"),
        ("/home/me/gapless/notebooks/x.py(4): f", "notebooks/x.py:4"),
        ("torch/nn/modules/module.py(1): f", None),
        ("/x/src/gapless/profile.py(1): f", None),
        ("<string>(1): __init__", None),
        ("threading.py(1): run", None),
        ("nn.Module: Linear_0", None),
        ("", None),
    ],
)
def test_source_line(name, line):
    assert source_line(name) == line


def test_enclosing_spans_outermost_first():
    trace = Trace([op("a", 0, 100), op("b", 10, 20), op("c", 40, 50), op("d", 45, 10), call("x", 47, 3)], {})
    spans = [s for s in trace.spans if s.category == "op"]
    moment = trace.spans[-1]
    assert [s.name for s in enclosing(spans, [moment])[moment]] == ["a", "c", "d"]


def test_a_long_trace_takes_time_in_proportion():
    events = []
    for i in range(20_000):
        events += [frame("train.py(1): f", i * 100, 99), op("aten::item", i * 100 + 1, 90)]
        events += [call("cudaStreamSynchronize", i * 100 + 5, 20, tid=MAIN)]
    started = time.process_time()
    assert len(syncs(events)) == 20_000
    assert time.process_time() - started < 10  # pairwise comparison would take minutes
