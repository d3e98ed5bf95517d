"""What sparse operators launch and wait for, by hand."""

import torch

from gapless.vgpu.hardware.kernels import sparse as plans


def made(dims, count, width=()):
    return torch.sparse_coo_tensor(torch.zeros(dims, count, dtype=torch.int64), torch.ones(count, *width), (4,) * dims + tuple(width))


def kernels(plan):
    return [step.name for step in plan if not isinstance(step, str)]


def waits(plan):
    return [step for step in plan if isinstance(step, str)]


def test_coalesce_of_one_dimension_needs_no_strides():
    rows = made(1, 5, (3,))
    plan = plans.coalesced(rows, rows.coalesce())
    assert waits(plan) == [plans.WAIT] * 3 + [plans.READ]
    assert kernels(plan)[-1] == "coalesceValuesKernel"
    matrix = made(2, 5)
    plan = plans.coalesced(matrix, matrix.coalesce())
    assert waits(plan) == [plans.UPLOAD] + [plans.WAIT] * 3 + [plans.READ]
    assert kernels(plan)[-6:] == ["elementwise_kernel(unflatten)"] * 6


def test_what_has_one_element_is_copied():
    one = made(2, 1)
    plan = plans.coalesced(one, one.coalesce())
    assert not waits(plan) and len(plan) == 2


def test_long_lists_are_merged():
    rows = made(1, 8 * 2048)
    assert kernels(plans.coalesced(rows, rows.coalesce())).count("DeviceMergeSortKernel") == 4


def test_a_product_moves_its_operands():
    matrix = made(2, 3).coalesce()
    dense = torch.ones(4, 5)
    product = next(step for step in plans.product(matrix, dense, matrix @ dense) if step.name == "csrmm_kernel")
    # an element with its int32 column, the int32 starts of five rows, the dense matrix, and the result twice
    assert product.bytes == 1 * (4 + 4) + 4 * 5 + 4 * 20 + 2 * 4 * 20


def test_an_empty_sparse_tensor_adds_nothing():
    nothing = torch.sparse_coo_tensor((4, 4))
    assert plans.added_to_dense(torch.ones(4, 4), nothing, in_place=True) == []


def test_sums_do_not_wait():
    assert not waits(plans.added(made(2, 3), made(2, 2), scaled=True))
