"""``out=`` of operators with their own behaviour, and of those that PyTorch would pass over."""

import pytest
import torch

import gapless
from gapless import vgpu


@pytest.fixture
def x():
    return torch.arange(6.0, device=gapless.device("vgpu"))


_WRITES = {
    "nonzero": lambda x, out: torch.nonzero(x > 2, out=out),
    "masked_select": lambda x, out: torch.masked_select(x, x > 2, out=out),
    "index_put": lambda x, out: torch.ops.aten.index_put.out(x, [x > 2], torch.ones((), device=x.device), out=out),
    "roll": lambda x, out: torch.ops.aten.roll.out(x, [1], [0], out=out),
    "matmul": lambda x, out: torch.matmul(x.view(2, 3), x.view(1, 3, 2), out=out),
    "matrix_rank": lambda x, out: torch.linalg.matrix_rank(torch.eye(3, device=x.device), out=out),
}


@pytest.mark.parametrize("write", _WRITES.values(), ids=_WRITES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
def test_the_dtypes_that_the_cpu_refuses_are_refused(x, write, dtype):
    try:
        write(x.cpu(), torch.empty(0, dtype=dtype))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="Expected .*(scalar type|dtype)"):
            write(x, torch.empty(0, dtype=dtype, device=x.device))
    else:
        write(x, torch.empty(0, dtype=dtype, device=x.device))


@pytest.mark.parametrize("write", _WRITES.values(), ids=_WRITES)
def test_the_hosts_memory_is_refused(x, write):
    for size in (0, ()):
        with pytest.raises(RuntimeError, match="on the same device"):
            write(x, torch.empty(size, dtype=torch.int64))


@pytest.mark.parametrize("size", [3, 0])
def test_a_selection_lies_where_it_is_told(x, size):
    out = torch.zeros(size, device=x.device)
    assert torch.masked_select(x, x > 2, out=out) is out
    assert out.tolist() == [3.0, 4.0, 5.0]
    found = torch.zeros((size, 1), dtype=torch.int64, device=x.device)
    assert torch.nonzero(x > 2, out=found) is found and found.tolist() == [[3], [4], [5]]


@pytest.mark.parametrize("write", [_WRITES["masked_select"], _WRITES["nonzero"], _WRITES["matrix_rank"]])
def test_another_shape_than_what_is_there_is_warned_of(x, write, recwarn):
    write(x, torch.empty(0, device=x.device, dtype=write(x, None).dtype))
    assert not recwarn.list
    with pytest.warns(UserWarning, match="was resized since it had shape .*2.*does not match"):
        write(x, torch.zeros(2, device=x.device, dtype=write(x, None).dtype))


def test_the_argument_is_not_written(x):
    out = torch.zeros(6, device=x.device)
    torch.ops.aten.index_put.out(x, [x > 2], torch.ones(()), out=out)
    assert out.tolist() == [0.0, 1.0, 2.0, 1.0, 1.0, 1.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_rank(x):
    out = torch.zeros((), dtype=torch.int64, device=x.device)
    assert torch.linalg.matrix_rank(torch.eye(5, device=x.device), out=out) is out and out.item() == 5


def test_a_batch_times_a_matrix(x):
    batch, out = torch.ones(3, 4, 6, device=x.device), torch.zeros(3, 4, device=x.device)
    assert torch.matmul(batch, x, out=out) is out and out.tolist() == [[15.0] * 4] * 3


@pytest.mark.parametrize("left", [(4,), (3, 4), (2, 3, 4), (2, 1, 3, 4), (1, 3, 4)], ids=str)
@pytest.mark.parametrize("right", [(4,), (4, 5), (2, 4, 5), (1, 4, 5)], ids=str)
@pytest.mark.parametrize("form", ["as it is", "empty", "transposed"])
def test_products_of_all_forms(x, left, right, form):
    a, b = torch.randn(left), torch.randn(right)
    wanted = torch.matmul(a, b)
    out = {"as it is": torch.zeros_like(wanted), "empty": torch.zeros(0),
           "transposed": torch.zeros(wanted.shape[::-1]).permute(tuple(reversed(range(wanted.dim()))))}[form].to(x.device)
    assert torch.matmul(a.to(x.device), b.to(x.device), out=out) is out
    torch.testing.assert_close(out.cpu(), wanted)


def test_a_plain_product_is_one_kernel(x):
    matrix = torch.ones(64, 64, device=x.device)
    out = torch.zeros_like(matrix)
    torch.vgpu.synchronize()
    with gapless.profiler.profile(device=x.device) as profiler:
        torch.matmul(matrix, matrix, out=out)
    assert sum(event.get("cat") == "kernel" for event in profiler.trace.events) == 1
    assert out[0, 0].item() == 64.0


def test_without_values(x):
    with vgpu.shape_only():
        values = torch.ones(8, device=x.device)
        out = torch.zeros(0, device=x.device)
        torch.masked_select(values, values > 0, out=out)
        assert out.dim() == 1 and out.numel()


@torch.inference_mode()
def test_in_inference_mode_too(x):
    out = torch.zeros((), dtype=torch.int64, device=x.device)
    assert torch.linalg.matrix_rank(torch.eye(5, device=x.device), out=out) is out and out.item() == 5
    product = torch.zeros(3, 4, device=x.device)
    assert torch.matmul(torch.ones(3, 4, 6, device=x.device), torch.ones(6, device=x.device), out=product) is product
    assert product.tolist() == [[6.0] * 4] * 3
