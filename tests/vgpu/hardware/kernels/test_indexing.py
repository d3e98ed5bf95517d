"""The kernels of indexing, and their times beside those that PyTorch's developers measured."""

import csv

import pytest
import torch

from gapless import vgpu
from gapless.fidelity.measured import FOLDER
from gapless.vgpu.hardware.cards.specs import CARDS, find_model
from gapless.vgpu.hardware.kernels import costs
from gapless.vgpu.hardware.times import scattered

from ..times.test_geometry import grids


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def long(*shape):
    return meta(*shape, dtype=torch.int64)


def kernels(name, *args, out=None, **kwargs):
    return costs.kernels(name, args, kwargs, out)


def total_ms(found, card):
    return sum(kernel.duration_ns(CARDS[card]) for kernel in found) / 1e6


# -- kernels ----------------------------------------------------------------------------------------


def test_accumulating_through_an_index_sorts_and_plain_writing_does_not():
    target, index, values = meta(100_000), long(10_000), meta(10_000)
    plain = kernels("index_put_", target, [index], values, False, out=target)
    accumulated = kernels("index_put_", target, [index], values, True, out=target)
    assert len(plain) == 1
    assert sum("Onesweep" in k.name for k in accumulated) == 3  # 17 bits
    assert any(k.workspace_bytes for k in accumulated)


def test_bounds_are_checked_of_a_users_own_indices_only():
    target, index, values = meta(100), long(10), meta(10)
    own, gradient = (kernels("_index_put_impl_", target, [index], values, True, unsafe, out=target) for unsafe in (False, True))
    assert sum("assert" in k.name for k in own) == 2
    assert not any("assert" in k.name for k in gradient)


def test_linear_positions_take_steps_of_their_own():
    """Four indices of n positions: remainder and product of each, three sums, a division. 64-bit all."""
    count = 1_000_000
    target, index = meta(10, 10, 100, 1000), long(count)
    found = kernels("_index_put_impl_", target, [index] * 4, meta(count), True, True, out=target)
    steps = [k for k in found if k.name.startswith("elementwise_kernel(") and "arange" not in k.name]
    assert len(steps) == 4 + 4 + 3 + 1
    assert sum(k.bytes for k in steps) == (8 * 16 + 3 * 24 + 16) * count


def test_out_of_place_copies_first():
    target, index, values = meta(100), long(10), meta(10)
    assert "clone" in kernels("index_put", target, [index], values, False, out=meta(100))[0].name
    assert "clone" in kernels("scatter_add", target, 0, index, values, out=meta(100))[0].name
    assert "clone" not in kernels("scatter_add_", target, 0, index, values, out=target)[0].name


def test_small_rows_cost_a_sector_each():
    narrow, wide = (kernels("index_select", meta(10_000_000 // width, width), 0, long(1_000_000 // width),
                            out=meta(1_000_000 // width, width))[0] for width in (1, 64))
    assert narrow.bytes == 1_000_000 * (8 + 4 + 32)
    assert wide.bytes == 1_000_000 // 64 * 8 + 2 * 4_000_000
    # A source that every card keeps in its L2 is read once.
    assert kernels("index_select", meta(1000), 0, long(1_000_000), out=meta(1_000_000))[0].bytes == 12_000_000 + 4000


def test_an_expanded_mask_is_copied_and_a_flat_one_has_no_coordinates_to_write(device):
    assert any("copy" in name for name in grids(lambda: torch.ones(4, 1, device=device).bool().expand(4, 5).nonzero(), device))
    assert "write_indices(nonzero)" not in grids(lambda: torch.ones(4, device=device).nonzero(), device)


@pytest.fixture
def device():
    return vgpu.enable("a100")


def test_positions_of_a_mask_are_in_order(device):
    """So they share sectors, going and coming back."""
    x = torch.randn(1 << 12, device=device)
    mask, index = x > -9, torch.arange(1 << 12, device=device)
    times = []
    for each in (mask, index):
        start = torch.zeros_like(x, requires_grad=True)
        recorded = grids(lambda: start[each].sum().backward(), device)
        times.append("index_kernel(gather)" in recorded and "indexing_backward_kernel" in recorded)
        assert start.grad.sum().item() == len(x)
    assert times == [True, True]


def test_equal_indices_take_longer_where_there_are_values():
    target = torch.zeros(1000)
    same, apart = (total_ms(kernels("_index_put_impl_", target, [index], torch.ones(1000), True, True, out=target), "a100")
                   for index in (torch.zeros(1000, dtype=torch.int64), torch.arange(1000)))
    assert same > 2 * apart


@pytest.mark.parametrize("tokens, kernel", [(3072, "embedding_backward_feature_kernel"), (3073, "sum_and_scatter")])
def test_the_gradient_of_an_embedding_sorts_where_there_are_many(tokens, kernel):
    found = kernels("embedding_dense_backward", meta(tokens, 64), long(tokens), 1000, -1, False, out=meta(1000, 64))
    assert found[-1].name == kernel
    assert any(k.kind == "memset" for k in found)


@pytest.mark.parametrize("call", [
    lambda x, i: x.index_add_(0, i, x[:2].clone()), lambda x, i: x.index_copy_(0, i, x[:2].clone()), lambda x, i: x.index_fill_(0, i, 1.0),
    lambda x, i: x.scatter_(0, i.view(1, 2), 1.0), lambda x, i: x.scatter_add_(0, i.view(1, 2), x[:1].clone()),
    lambda x, i: x.masked_scatter_(x > 0, x.clone()), lambda x, i: x.take(i), lambda x, i: x.gather(0, i.view(1, 2)),
    lambda x, i: x[:, i], lambda x, i: x[i, i], lambda x, i: torch.nonzero_static(x, size=3), lambda x, i: x.index_put((i,), x[0], True),
    lambda x, i: x.reshape(-1).index_select(0, i), lambda x, i: x.new_zeros(()).index_select(0, i[:1]),
])
def test_odd_shapes(call, device):
    x, index = torch.ones(4, 3, device=device), torch.tensor([0, 2], device=device)
    assert grids(lambda: call(x, index), device)


# -- beside what was measured -----------------------------------------------------------------------

BERT_WORDS = 30_528  # MLPerf's BERT, which the pull request names; the table does not give the vocabulary


def rows(op):
    with (FOLDER / "issues.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["op"] == op:
                yield row, {name: int(value) for name, value in (pair.split("=") for pair in row["dims"].split())}


def card_of(row):
    return find_model(row["device"]) or "a100"


@pytest.mark.parametrize("row, sizes", list(rows("index_put_accumulate")), ids=str)
def test_accumulation_as_it_was_up_to_2_0(row, sizes):
    """Where one row is hit a thousand times or more, those hits are the time. (Else the sort is, which was another then.)"""
    if sizes["count"] < 1000 * sizes["rows"]:
        pytest.skip("the time is that of Thrust's merge sort and of the host")
    target = meta(sizes["rows"])
    found = kernels("_index_put_impl_", target, [long(sizes["count"])], meta(sizes["count"]), True, True, out=target)
    hits = scattered.spread(sizes["count"], sizes["rows"])
    found[-1].problem = scattered.accumulation(hits, 1, 4, 1, False, before_2_1=True)
    assert total_ms(found, card_of(row)) == pytest.approx(float(row["latency_ms"]), rel=0.15)


@pytest.mark.parametrize("row, sizes", list(rows("embedding_backward_few")), ids=str)
def test_the_gradient_of_an_embedding(row, sizes):
    found = kernels("embedding_dense_backward", meta(sizes["tokens"], sizes["width"]), long(sizes["tokens"]), BERT_WORDS, -1, False,
                    out=meta(BERT_WORDS, sizes["width"]))
    assert 0.5 < total_ms(found, card_of(row)) / float(row["latency_ms"]) < 1.5
