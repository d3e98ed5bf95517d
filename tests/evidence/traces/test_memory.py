import pytest

from gapless import views
from gapless.evidence.traces.memory import BACKWARD, MARK
from gapless.evidence.traces.trace import Trace

MAIN = {"pid": 1, "tid": 1}


def span(category, name, ts, dur, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": args, **MAIN}


def change(ts, address, nbytes, total):
    return {"ph": "i", "name": "[memory]", "ts": ts, **MAIN,
            "args": {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": nbytes, "Total Allocated": total}}


def mark(number, ts):
    return span("user_annotation", f"{MARK}{number}", ts, 1)


MARKS = [{"parameters": [[10, 1000]], "optimizer state": [], "gradients": [[20, 512]]},
         {"gradients": [[30, 1024]]},
         {"parameters": [[10, 1000]], "optimizer state": [[40, 2048]], "gradients": [[30, 1024]]}]


def one_step():
    """A step by hand: 1024 of parameters, 512 of gradients and 4096 of nobody's are there before."""
    return Trace([
        mark(0, 0), span("user_annotation", "ProfilerStep#0", 5, 100),
        change(6, 20, -512, 5120),  # the gradient of before
        span("cpu_op", "aten::to", 10, 5), span("cuda_runtime", "cudaMemcpyAsync", 12, 1, correlation=1), change(11, 50, 512, 5632),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "ts": 13, "dur": 1, "pid": 0, "tid": 7,
         "args": {"correlation": 1}},
        span("cpu_op", "aten::relu", 20, 5), change(21, 60, 8192, 13824),  # kept for the backward pass
        span("cpu_op", "aten::add", 30, 5), change(31, 70, 1024, 14848), change(34, 70, -1024, 13824),  # not kept
        span("user_annotation", BACKWARD, 40, 30),
        span("cpu_op", "aten::mm", 45, 10), change(46, 80, 3072, 16896), change(46, 80, -3072, 13824),  # a workspace
        change(47, 30, 1024, 14848), change(48, 70, 512, 15360), change(50, 60, -8192, 7168), mark(1, 52),
        change(60, 70, -512, 6656),
        span("cpu_op", "aten::zeros_like", 80, 5), change(81, 40, 2048, 8704), mark(2, 90),
        change(95, 99, -4096, 4608),  # of nobody's
    ], {"gapless": {"memory": MARKS, "simulated": True}, "deviceProperties": [{"name": "a card"}]})


def test_each_block_is_told_by_its_mark_or_its_life():
    view = views.memory_by_category(one_step())
    assert {row.category: row.most_bytes for row in view.rows} == {
        "parameters": 1024, "optimizer state": 2048, "gradients": 1024, "from before": 4096, "inputs": 512,
        "activations": 8192, "temporary": 1024, "workspaces": 3072}
    assert [(block.category, block.operator) for block in view.blocks if block.nbytes == 8192] == [("activations", "aten::relu")]
    assert sum(view.points[-1][1]) == 4608  # the file's own sum at the end


def test_the_peak_is_that_of_the_whole_with_the_share_of_each():
    view = views.memory_by_category(one_step())
    assert (view.peak_bytes, view.peak_ms) == (16896, 0.041)
    assert view["activations"].at_peak_bytes == 8192 and view["gradients"].at_peak_bytes == 0
    assert view["workspaces"].at_peak_bytes == 3072
    assert sum(row.at_peak_bytes for row in view.rows) == view.peak_bytes
    assert str(view).splitlines()[0] == "peak 0.02 MiB at 0.04 ms (simulated a card)"


def test_a_category_that_never_was_has_no_bytes_and_a_wrong_name_is_an_error():
    trace = one_step()
    trace.metadata["gapless"]["memory"][2]["optimizer state"] = []
    assert views.memory_by_category(trace)["optimizer state"].most_bytes == 0
    with pytest.raises(KeyError, match="'weights' is no category: parameters"):
        views.memory_by_category(trace)["weights"]


def test_a_trace_that_cannot_tell_says_how_to_record_one_that_can():
    with pytest.raises(ValueError, match=r"record it with gapless.memory_profile\(step\)"):
        views.memory_by_category(Trace([change(6, 20, 512, 512)]))
    with pytest.raises(ValueError, match="nothing takes or gives back memory"):
        views.memory_by_category(Trace([mark(0, 0)], {"gapless": {"memory": MARKS}}))
