"""Groups as counted by hand: 1000 float32 elements are 4000 bytes."""

import pytest

from gapless.vgpu import find_card
from gapless.vgpu.hardware.kernels.fusion import (
    LIBRARY,
    POINTWISE,
    REDUCTION,
    ROWS,
    Access,
    Fused,
    Step,
    groups,
    recomputable,
)
from gapless.vgpu.hardware.times import streaming

SIZE = 4000


def loop(name, reads, writes, numel=1000, **more):
    return Step(name, POINTWISE, numel, _accesses(reads), _accesses(writes), **more)


def library(name, reads, writes, number=0):
    return Step(name, LIBRARY, 1000, _accesses(reads), _accesses(writes), number=number)


def rows(name, reads, writes):
    """10 results of 100 elements each."""
    return Step(name, REDUCTION, 10, _accesses(reads), tuple(Access(buffer, 40) for buffer in writes), 100)


def _accesses(given):
    return tuple(each if isinstance(each, Access) else Access(each, SIZE) for each in given)


def of_rows(buffer):
    return Access(buffer, 40, ROWS)


def kinds(found):
    return [group.kind for group in found]


def test_a_chain_is_one_kernel_that_reads_its_input_and_writes_its_result():
    found, = groups([loop("sin", [0], [1]), loop("mul", [1, 0], [2]), loop("add", [2], [3])], {0, 3})
    assert found.names == ["sin", "mul", "add"]
    assert found.reads == {0: SIZE} and found.writes == {3: SIZE} and found.nbytes == 2 * SIZE
    assert found.operations == 3 * 1000


def test_what_lives_on_is_written_by_the_same_kernel():
    found, = groups([loop("sin", [0], [1]), loop("mul", [1], [2])], {0, 1, 2})
    assert found.writes == {1: SIZE, 2: SIZE} and found.reads == {0: SIZE}


def test_nobody_computes_what_nobody_reads():
    assert groups([loop("sin", [0], [1])], {0}) == []


def test_a_library_interrupts_a_chain():
    found = groups([loop("sin", [0], [1]), library("mm", [1], [2], number=7), loop("cos", [2], [3])], {0, 3})
    assert kinds(found) == [POINTWISE, LIBRARY, POINTWISE]
    assert found[1].number == 7
    assert [group.nbytes for group in found] == [2 * SIZE] * 3


def test_what_two_loops_read_is_read_once():
    found, = groups([loop("sin", [0, 1], [2]), loop("cos", [0, 1], [3])], {0, 1, 2, 3})
    assert found.reads == {0: SIZE, 1: SIZE}


def test_loops_over_other_elements_or_without_shared_memory_stay_apart():
    assert len(groups([loop("sin", [0], [1]), loop("cos", [2], [3])], {1, 3})) == 2
    assert len(groups([loop("sin", [0], [1]), loop("cos", [0], [2], numel=500)], {1, 2})) == 2


def test_no_cycle_is_made():
    # The last loop shares memory with the first, and needs what lies between.
    found = groups([loop("sin", [0], [1]), library("mm", [1], [2]), loop("add", [1, 2], [3])], {0, 3})
    assert kinds(found) == [POINTWISE, LIBRARY, POINTWISE]
    assert found[2].reads == {1: SIZE, 2: SIZE}


def test_no_cycle_through_two_groups():
    # sin and cos go together; so would tan and exp; but the library between needs sin, and tan needs it.
    found = groups([loop("sin", [0], [1]), library("mm", [1], [2]), loop("cos", [0], [3]), loop("tan", [3, 2], [4])],
                   {1, 3, 4})
    place = {name: index for index, group in enumerate(found) for name in group.names}
    assert place["sin"] < place["mm"] < place["tan"]


def test_a_softmax_is_one_kernel_with_what_comes_before_and_after():
    found, = groups([
        loop("scale", [0], [1]), rows("amax", [1], [2]), rows("sum", [1, of_rows(2)], [3]),
        loop("div", [1, of_rows(2), of_rows(3)], [4]), loop("dropout", [4], [5])], {0, 5})
    assert found.kind == REDUCTION and (found.numel, found.reduced) == (10, 100)
    assert found.reads == {0: SIZE} and found.writes == {5: SIZE}


def test_a_reduction_of_another_shape_is_another_kernel():
    found = groups([rows("sum", [0], [1]), Step("sum", REDUCTION, 100, _accesses([0]), (Access(2, 400),), 10, outer=True)],
                   {1, 2})
    assert kinds(found) == [REDUCTION, REDUCTION]


def test_columns_do_not_go_with_rows_of_the_same_size():
    columns = Step("sum", REDUCTION, 10, _accesses([1]), (Access(2, 40),), 100, outer=True)
    assert len(groups([loop("sin", [0], [1]), columns], {1, 2})) == 2


def test_what_reads_a_written_result_in_another_order_waits_for_all_of_it():
    turned = Access(1, SIZE, "turned")
    found = groups([loop("sin", [0], [1]), loop("cos", [turned], [2])], {1, 2})
    assert len(found) == 2 or found[0].reads == {0: SIZE}  # it was computed again from its source
    found = groups([rows("sum", [0], [1]), loop("cos", [Access(1, 40, "turned")], [2], numel=10)], {1, 2})
    assert len(found) == 2


def test_many_readers_of_many_inputs_do_not_compute_them_again():
    # Five inputs and two readers in kernels of their own: written once (realize_reads_threshold).
    steps = [loop("sum5", [0, 1, 2, 3, 4], [5]), rows("a", [5], [6]),
             Step("b", REDUCTION, 100, _accesses([5]), (Access(7, 400),), 10, outer=True)]
    found = groups(steps, {6, 7})
    assert sum(group.writes.get(5, 0) for group in found) == SIZE
    few = [loop("sum2", [0, 1], [5]), *steps[1:]]
    assert all(5 not in group.writes for group in groups(few, {6, 7}))


def test_parts_that_others_read_too_are_joined_in_place():
    parts = [loop("sin", [0], [1], numel=500), loop("cos", [2], [3], numel=500)]
    joined = Step("cat", POINTWISE, 1000, (Access(1, 2000, ("cat", 0)), Access(3, 2000, ("cat", 1))), (Access(4, SIZE),),
                  joined=True)
    assert len(groups([*parts, joined], {4})) == 1
    found = groups([*parts, joined, library("mm", [1], [5])], {4, 5})
    assert sum(group.writes.get(4, 0) for group in found) == SIZE
    assert kinds(found).count(POINTWISE) == 2


def test_what_can_be_computed_again_from_what_is_there():
    steps = [loop("sin", [0], [1]), loop("mul", [1, 0], [2]), rows("sum", [2], [3]), loop("div", [2, of_rows(3)], [4]),
             loop("dropout", [4], [5], random=True)]
    found = recomputable(steps, {1, 2, 3, 4, 5}, {0})
    assert set(found) == {1, 2}  # a sum is not, nor what needs it, nor a random number
    assert [access.buffer for access in found[2]] == [0]
    assert set(recomputable(steps, {4}, {0, 3})) == {4}
    assert recomputable(steps, {1}, set()) == {}


def test_the_time_is_that_of_the_bytes_or_of_the_arithmetic():
    card = find_card("a100")
    rate = card.bandwidth_bytes_per_s * card.memory_share("pointwise")
    start_s, busy_s = Fused("pointwise", 2**30, 1.0).start_and_busy_s(card, "float32")
    assert start_s == card.kernel_start_ns.get("pointwise", 0) / 1e9
    assert busy_s == pytest.approx(2**30 * streaming.over_l2(card, 2**30) / rate)
    assert Fused("pointwise", 8.0, 1e12).start_and_busy_s(card, "float32")[1] == 1e12 / card.peak_flops["float32"]
