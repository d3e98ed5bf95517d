"""What is changed in a trace for TensorBoard's plugin; that the plugin then reads it as we do is tried with the plugin."""

from copy import deepcopy

from gapless.evidence.traces.tensorboard import events_for_tensorboard
from gapless.evidence.traces.trace import Trace

from ..kineto_events import call, kernel, op, span
from ..rank_events import collective


def test_nccls_kernels_and_launches_get_the_number_of_their_call():
    trace = Trace([*collective(10, 200, 50, 1, "_reduce_scatter_base"), op("aten::mm", 0, 5), call("cudaLaunchKernel", 1, 2, 7),
                   kernel(3, 5, 7), span("gpu_user_annotation", "nccl:_reduce_scatter_base", 199, 52, 20, 0)])
    before = deepcopy(trace.events)
    operator, block, launch, nccl, _, other_launch, other, copy = events_for_tensorboard(trace)
    assert trace.events == before
    assert block["name"] == "nccl:reduce_scatter" and operator["name"] == "record_param_comms"
    assert launch["args"]["External id"] == nccl["args"]["External id"] == block["args"]["External id"]
    assert launch["cat"] == other_launch["cat"] == "Runtime" and "External id" not in other["args"]
    assert copy["cat"] == "gpu_communication"  # which the plugin leaves alone


def test_ends_stay_where_the_next_event_begins():
    first, second = events_for_tensorboard(Trace([op("aten::mm", 0.1, 0.2), op("aten::mm", 0.3, 1.7)]))
    assert first["ts"] + first["dur"] == second["ts"]
    assert abs(second["ts"] - 0.3) <= 1 / 2048
