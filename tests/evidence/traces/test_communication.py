"""Collectives found in a rank's trace, in the forms that PyTorch's profilers wrote over the years."""

import pytest

from gapless.evidence.traces.communication import find_collectives, is_communication
from gapless.evidence.traces.trace import Trace

from ..kineto_events import MAIN, call, kernel, op, span
from ..rank_events import collective, real_ranks


def test_a_kernel_belongs_to_the_call_around_its_launch():
    first, second = find_collectives(Trace([*collective(100, 300, 50, 2, "broadcast", elements=7),
                                            *collective(10, 200, 50, 1, elements=5), kernel(0, 500, 3)]))
    assert (first.name, first.bytes, [span.start_us for span in first.kernels]) == ("nccl:all_reduce", 20, [200])
    assert (second.name, second.bytes, [span.start_us for span in second.kernels]) == ("nccl:broadcast", 28, [300])
    assert first.ranges == ((12, 28), (200, 250)) and first.order_us == 12
    assert [span.start_us for span in first.work] == [200]


def test_the_operator_around_the_call_tells_the_group():
    events = collective(10, 200, 50, 1, group=("3", (0, 2)))
    found, = find_collectives(Trace(events))
    assert (found.group, found.members) == ("3 [0, 2]", (0, 2))
    many = [{**event, "args": {**event["args"], "Process Group Ranks": "[0, 1, ..., 127]"}} for event in events]
    assert find_collectives(Trace(many))[0].members is None
    assert find_collectives(Trace(collective(10, 200, 50, 1)))[0].group == ""


def test_without_launches_the_number_of_the_call_or_the_operator_counts():
    found, = find_collectives(Trace(collective(10, 200, 50, 1, launches=False)))
    assert found.call is not None and len(found.kernels) == 1
    older = collective(10, 200, 50, 1, launches=False)
    older[-1]["args"]["External id"] = older[1]["args"]["External id"]  # the block's own
    found, = find_collectives(Trace(older))
    assert found.call is not None and len(found.kernels) == 1


def test_a_wrong_number_is_not_asked_where_there_is_a_launch():
    events = [*collective(10, 200, 50, 1), *collective(60, 300, 50, 2)]
    events[3]["args"]["External id"] = events[5]["args"]["External id"]
    assert [found.kernels[0].start_us for found in find_collectives(Trace(events))] == [200, 300]


@pytest.mark.parametrize("name, args, wanted", [
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", {}, "nccl:send_recv"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", {}, "nccl:reduce_scatter"),
    ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", {"Collective name": "allreduce", "In msg nelems": 10,
                                                                 "dtype": "BFloat16"}, "nccl:all_reduce"),
    ("void ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", {}, "nccl:all_gather"),
    ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", {}, "nccl:generic"),
])
def test_a_kernel_without_its_call_is_named_by_what_it_says(name, args, wanted):
    found, = find_collectives(Trace([span("kernel", name, 5, 10, 20, 0, **args)]))
    assert found.name == wanted and found.call is None and found.order_us == 5
    assert found.bytes == (20 if args else None)


def test_gloo_has_no_kernels():
    found, = find_collectives(Trace([span("user_annotation", "gloo:all_reduce", 5, 10, MAIN)]))
    assert found.name == "gloo:all_reduce" and found.kernels == () and [each.end_us for each in found.work] == [15]


def test_the_profilers_copy_of_a_block_on_the_gpus_row_is_no_call():
    events = [*collective(10, 200, 50, 1), span("gpu_user_annotation", "nccl:all_reduce", 199, 52, 20, 0)]
    assert len(find_collectives(Trace(events))) == 1


@pytest.mark.parametrize("shapes, types, wanted", [
    ([[2, 3], [4]], ["float", "long int"], 24 + 32), ([[5]], ["c10::Half"], 10), ([[5]], ["c10::BFloat16"], 10), ([[]], ["int"], 4),
    ([[5]], ["unsigned char"], 5), ([[0]], ["double"], 0), ([[5]], ["quaternion"], None), ("?", ["float"], None),
])
def test_bytes_come_from_shapes_and_types(shapes, types, wanted):
    call_ = span("user_annotation", "nccl:all_reduce", 0, 5, **{"Input Dims": shapes, "Input type": types})
    assert find_collectives(Trace([call_]))[0].bytes == wanted


def test_other_work_is_no_communication():
    assert not find_collectives(Trace([op("aten::mm", 0, 5), call("cudaLaunchKernel", 1, 2, 1), kernel(3, 5, 1)]))
    assert not any(is_communication(each) for each in Trace([kernel(3, 5, 1), op("ncclKernel", 0, 1)]).spans)


def test_a_real_trace_of_2023():
    """Its kernels' "External id" is another number, and launches were left out of it by chance."""
    for trace in real_ranks():
        found = find_collectives(trace)
        assert sum(len(each.kernels) for each in found) == 10 == sum(is_communication(each) for each in trace.spans)
        names = [each.name for each in found if each.call is not None]
        assert names.count("nccl:all_reduce") == 4 and names.count("nccl:_all_gather_base") == 2
        sizes = [each.bytes for each in found if each.name == "nccl:all_reduce"]
        assert 4 * 19618307 in sizes
