import pytest
import torch

from gapless import vgpu
from gapless.vgpu.core import shapes

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(shapes, "_recipes", {})
    monkeypatch.setattr(shapes, "_kernels", {})


class Counted:
    """An operator that counts how often it is worked out."""

    def __init__(self, func):
        self.func, self.calls = func, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.func(*args, **kwargs)


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def same(one, other):
    if isinstance(one, torch.Tensor):
        return (one.shape, one.stride(), one.dtype, one.device) == (other.shape, other.stride(), other.dtype, other.device)
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("func, args, kwargs", [
    (aten.relu.default, (meta(3, 4),), {}),
    (aten.add.Tensor, (meta(3, 1), meta(4)), {"alpha": 2}),
    (aten.add.Tensor, (meta(3), meta(3, dtype=torch.float64)), {}),
    (aten.mul.Tensor, (meta(3, 4).t(), 2.0), {}),
    (aten.cat.default, ([meta(2, 3), meta(1, 3)],), {}),
    (aten.native_layer_norm.default, (meta(2, 8), [8], meta(8), None, 1e-5), {}),
    (aten.unbind_copy.int, (meta(3, 2),), {}),
    (aten.convolution_backward.default,
     (meta(1, 4, 8, 8), meta(1, 3, 8, 8), meta(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
      [True, False, True]), {}),
    (aten.empty.memory_format, ([2, 3, 4, 5],),
     {"dtype": torch.float16, "device": torch.device("meta"), "memory_format": torch.channels_last}),
], ids=lambda value: getattr(value, "__name__", None) or "")
def test_the_second_call_gives_the_same_and_is_not_worked_out(func, args, kwargs):
    counted = Counted(func)
    first, second = (shapes.remembered(counted, args, kwargs)[0] for _ in range(2))
    assert counted.calls == 1
    assert same(first, second) and same(second, func(*args, **kwargs))
    mine = {t.untyped_storage()._cdata for t in ([second] if isinstance(second, torch.Tensor) else second) if t is not None}
    theirs = {t.untyped_storage()._cdata for t in ([first] if isinstance(first, torch.Tensor) else first) if t is not None}
    assert not mine & theirs


@pytest.mark.parametrize("one, other", [
    ((meta(3, 4),), (meta(4, 3),)),
    ((meta(3, 4),), (meta(4, 3).t(),)),
    ((meta(3, 4),), (meta(3, 4, dtype=torch.int64),)),
    ((meta(3), 1), (meta(3), 1.0)),
    ((meta(3), 1), (meta(3), True)),
    ((meta(3), None), (meta(3), 0)),
])
def test_what_differs_in_a_result_is_told_apart(one, other):
    counted = Counted(lambda *args: torch.empty(1, device="meta"))
    shapes.remembered(counted, one, {})
    shapes.remembered(counted, other, {})
    assert counted.calls == 2


def test_the_default_dtype_counts():
    make = Counted(aten.ones.default)
    found = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            found.append(shapes.remembered(make, ([2],), {"device": torch.device("meta")})[0].dtype)
        finally:
            torch.set_default_dtype(torch.float32)
    assert found == [torch.float32, torch.float64]


def test_in_place_gives_the_argument_of_this_call():
    add_ = Counted(aten.add_.Tensor)
    for _ in range(2):
        x = meta(3, 4)
        assert shapes.remembered(add_, (x, meta(4)), {})[0] is x
    assert add_.calls == 1
    several = Counted(aten._foreach_add_.List)
    for _ in range(2):
        assert shapes.remembered(several, ([meta(3)], [meta(3)]), {})[0] is None
    assert several.calls == 1


@pytest.mark.parametrize("func, args", [
    (aten.view.default, (meta(3, 4), [12])),  # shares its argument's memory
    (aten.split.Tensor, (meta(4), 2)),
    (lambda x: [x.clone()[:2], x.clone()[1:]], (meta(4),)),  # more memory than elements
    (lambda x: (lambda y: [y, y])(x.clone()), (meta(4),)),  # two that share
    (lambda x: x.numel(), (meta(4),)),
    (aten.add.Tensor, (meta(3), torch.ones(()))),  # has a value
    (aten.mul.Tensor, (meta(3, dtype=torch.complex64).conj(), 2)),
], ids=["view", "split", "part", "twice", "number", "value", "conjugate"])
def test_everything_else_is_worked_out_each_time(func, args):
    counted = Counted(func)
    for _ in range(2):
        found, key = shapes.remembered(counted, args, {})
        assert same(found, func(*args)) and key is None
    assert counted.calls == 2


def turned(x):
    x.t_()


def test_an_argument_that_changes_its_shape_does_so_each_time():
    for _ in range(2):
        x = meta(3, 4)
        assert shapes.remembered(aten.resize_.default, (x, [2]), {})[0].shape == x.shape == (2,)
        y = meta(3, 4)
        shapes.remembered(turned, (y,), {})
        assert y.shape == (4, 3)


def test_an_error_is_an_error_each_time():
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broadcast"):
            shapes.remembered(aten.add.Tensor, (meta(3), meta(4)), {})


def test_recipes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(shapes, "_MOST_RECIPES", 10)
    for size in range(100):
        shapes.remembered(aten.relu.default, (meta(size),), {})
    assert len(shapes._recipes) <= 10


@pytest.mark.parametrize("args, expected", [
    ((meta(3), 1), True), (([meta(3), meta(2)],), True), ((torch.ones(3), meta(3)), False), (([],), False), (([3, 4],), False),
    ((), False),
])
def test_values_are_told_by_the_first_tensor(args, expected):
    assert shapes.has_no_values(args) is expected


def test_tensors_without_values_are_remembered_among_those_with_values(device):
    with vgpu.shape_only():
        x = torch.ones(3, 4, device=device)
        with vgpu.exact():
            relu = x.relu()
            assert torch.ones(3, device=device).mul(2).tolist() == [2, 2, 2]
            before = len(shapes._recipes)
            again = x.relu()
    assert same(relu.within, again.within) and again.within.is_meta
    assert before == len(shapes._recipes) and any(key[0] is aten.relu.default for key in shapes._recipes)
    assert not any(key[0] is aten.mul.Tensor for key in shapes._recipes)


@pytest.mark.parametrize("changed", ["card", "precision", "shape", "nothing"])
def test_kernels_of_a_call_like_an_earlier_one_take_what_they_would_anew(changed):
    def took(card, size):
        device = vgpu.enable(card)
        with vgpu.shape_only():
            x = torch.empty(size, size, device=device)
            recording = vgpu.timeline().recording = vgpu.Recording(lines=False)
            x @ x
            x @ x
            vgpu.timeline().recording = None
        return sum(record.dur_ns for record in recording.records if record.category == "kernel")

    before = torch.backends.cuda.matmul.fp32_precision
    first = took("a100", 2048)
    try:
        if changed == "precision":
            torch.backends.cuda.matmul.fp32_precision = "tf32"
        second = took("t4" if changed == "card" else "a100", 4096 if changed == "shape" else 2048)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
        vgpu.enable("a10g")
    assert (second == first) == (changed == "nothing")
    assert {"card": second > 2 * first, "precision": second < first / 2, "shape": second > 5 * first}.get(changed, True)
