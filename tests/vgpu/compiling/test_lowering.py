"""Steps of operators, and how their accesses lie, as counted by hand."""

import pytest
import torch

from gapless.vgpu.compiling.lowering import Call, Form, Lowering, how, splits
from gapless.vgpu.hardware.kernels.fusion import LIBRARY, POINTWISE, REDUCTION, ROWS, SAME

SMS = 108


def form(buffer, *shape, strides=None, dtype=torch.float32, whole=True):
    made = torch.empty(shape, device="meta")
    return Form(buffer, shape, strides or made.stride(), 0, dtype, whole)


def steps(*calls):
    lowering = Lowering(SMS)
    for number, call in enumerate(calls):
        lowering.add(number, call)
    return lowering.steps


def test_how_elements_lie():
    result = form(0, 8, 16)
    assert how(form(1, 8, 16), result) == SAME
    assert how(form(1, 128), form(0, 8, 16)) == SAME  # both row by row
    assert how(form(1, 8, 1), result) == ROWS
    assert how(form(1, 8, 16, strides=(1, 0)), result) == ROWS  # expanded
    turned = form(1, 8, 16, strides=(1, 8))
    assert how(turned, result) not in (SAME, ROWS) and how(turned, result) == how(turned._replace(buffer=2), result)


def test_an_expanded_tensor_counts_once():
    assert form(0, 8, 16, strides=(0, 1)).nbytes == 64


def test_softmax_is_two_sums_and_a_loop():
    found = steps(Call("_softmax", (form(0, 8, 16), -1, False), form(1, 8, 16), (form(1, 8, 16),), ("reduction",)))
    assert [(step.kind, step.numel, step.reduced) for step in found] == [
        (REDUCTION, 8, 16), (REDUCTION, 8, 16), (POINTWISE, 128, 1)]
    assert not found[0].outer
    along_columns = steps(Call("_softmax", (form(0, 8, 16), 0, False), form(1, 8, 16), (form(1, 8, 16),), ("reduction",)))
    assert along_columns[0].outer and along_columns[0].numel == 16


def test_a_convolution_adds_its_bias_in_a_loop():
    x, weight, bias, out = form(0, 2, 3, 8, 8), form(1, 4, 3, 3, 3), form(2, 4), form(3, 2, 4, 8, 8)
    found = steps(Call("convolution", (x, weight, bias, (1, 1), (1, 1), (1, 1), False, (0, 0), 1), out, (out,), ("convolution",)))
    assert [step.kind for step in found] == [LIBRARY, POINTWISE]


def test_memory_that_is_written_again_is_another_block():
    x = form(0, 8)
    lowering = Lowering(SMS)
    for number in range(2):
        lowering.add(number, Call("add_", (x, 1), x, (x,), ("pointwise",)))
    first, second = lowering.steps
    assert second.reads[0].buffer == first.writes[0].buffer != second.writes[0].buffer
    assert lowering.base[lowering.now(0)] == 0 and lowering.now(0) == second.writes[0].buffer


def test_a_part_that_is_written_needs_the_rest():
    part = form(0, 4, whole=False)
    lowering = Lowering(SMS)
    lowering.add(0, Call("mul", (form(1, 8), 2), form(0, 8), (form(0, 8),), ("pointwise",)))
    lowering.add(1, Call("fill_", (part, 1), part, (part,), ("pointwise",)))
    assert lowering.steps[1].forced and any(access.how == "rest" for access in lowering.steps[1].reads)


@pytest.mark.parametrize("numel, reduced, outer, parts", [
    (4096, 1024, False, 1),  # results enough for two on each multiprocessor
    (1, 8192, False, 1), (1, 1 << 20, False, 128),  # 32 elements for each of 256 threads
    (1024, 32, True, 1), (1024, 1024, True, 8),  # 32 for each of 4
])
def test_long_sums_of_few_results_are_split(numel, reduced, outer, parts):
    assert splits(SMS, numel, reduced, outer) == parts


def test_the_stages_of_a_split_sum():
    found = steps(Call("sum", (form(0, 1 << 20),), form(1), (form(1),), ("reduction",)))
    assert [(step.numel, step.reduced) for step in found] == [(128, 8192), (1, 128)]


def test_seeds_are_drawn_once_a_graph():
    draw = Call("native_dropout", (form(0, 8), 0.1, True), (form(1, 8), form(2, 8)), (form(1, 8), form(2, 8)), ("pointwise",))
    again = draw._replace(out=(form(3, 8), form(4, 8)), written=(form(3, 8), form(4, 8)))
    found = steps(draw, again)
    assert [step.name for step in found].count("inductor_seeds") == 1
    assert all(step.random for step in found[1:])
