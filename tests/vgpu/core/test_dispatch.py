"""Values and gradients are the CPU's, whatever the shapes; what cannot be done says so."""

import copy

import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def leaves(tensors, device):
    return [t.clone().to(device).requires_grad_(t.is_floating_point()) for t in tensors]


def agree(function, tensors, device):
    """``function`` of ``tensors`` and its gradients are the same on the CPU and on ``device``."""
    expected_in, found_in = leaves(tensors, "cpu"), leaves(tensors, device)
    expected, found = function(*expected_in), function(*found_in)
    assert found.device == device
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=0, atol=0, equal_nan=True)
    if not expected.requires_grad:
        return
    seed = draw(*expected.shape, seed=9)
    expected.backward(seed)
    found.backward(seed.to(device))
    for want, got in zip(expected_in, found_in):
        assert (want.grad is None) == (got.grad is None)
        if want.grad is not None:
            torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=0, atol=0, equal_nan=True)


SHAPES = [(), (0,), (1,), (5,), (3, 0, 2), (2, 3), (1, 7, 1), (4, 3, 5, 2)]

ELEMENTWISE = {
    "exp": torch.exp,
    "arithmetic": lambda x: (x * 2 + 1) / 3 - x**2,
    "relu": F.relu,
    "sum": torch.sum,
    "mean over the last": lambda x: x.mean(-1) if x.dim() else x,
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "masked_fill": lambda x: x.masked_fill(x > 0, 3.0),
    "in place": lambda x: x.clone().mul_(2).add_(1).relu_(),
    "flatten and back": lambda x: x.reshape(-1).view(x.shape) * 1,
    "mask": lambda x: x.reshape(-1)[x.reshape(-1) > 0],
    "cumsum": lambda x: x.cumsum(0) if x.dim() else x,
    "softmax": lambda x: x.softmax(-1),
    "cat with itself": lambda x: torch.cat([x.reshape(-1), x.reshape(-1)]),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_one_tensor_of_any_shape(name, shape, device):
    agree(ELEMENTWISE[name], [draw(*shape)], device)


BROADCAST = [((3, 1), (1, 4)), ((2, 3), ()), ((), (2, 2)), ((0, 3), (3,)), ((2, 1, 5), (4, 1)), ((1,), (3, 3))]


@pytest.mark.parametrize("left, right", BROADCAST, ids=str)
@pytest.mark.parametrize("operator", [torch.add, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, b)],
                         ids=["add", "mul", "maximum", "where"])
def test_two_tensors_broadcast(operator, left, right, device):
    agree(operator, [draw(*left), draw(*right, seed=1)], device)


MATRICES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
            ((1, 5, 2, 3), (4, 1, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((3,), (5, 3, 2))]


@pytest.mark.parametrize("left, right", MATRICES, ids=str)
def test_matrix_products(left, right, device):
    agree(torch.matmul, [draw(*left), draw(*right, seed=1)], device)


def views(x):
    part = x.view(2, 3, 4)[:, 1:]
    return part.transpose(1, 2)[..., 0].t().expand(2, 4, 2)


def written_views(x):
    y = x.clone()
    part = y.view(2, 3, 4)[:, 1:].transpose(1, 2)[..., 0]
    part.mul_(10)
    part[0] = 7
    y.view(6, 4)[::2].add_(part.sum())
    return y


def masks(x):
    y = x.clone()
    y[y > 1] = 0.5
    y[y < -1] += 2
    y[(y > 0) & (y < 0.3)] *= 3
    return y[y > 0].cumsum(0).sum() * y


def indices(x):
    y = x.view(4, 6)
    rows = torch.tensor([3, 0, 3]).to(x.device)
    z = y.index_add(0, rows, y[:3]).index_select(1, rows)
    z[rows] = z[rows.flip(0)].clone()
    return z.gather(1, (rows % 3).expand(4, 3)) + y[rows, rows].sum() + y[:, rows[0]].sum()


def reshaped_in_place(x):
    y = x.clone().unsqueeze_(0).squeeze_()
    return y.view(4, 6).t_().transpose_(0, 1).swapaxes_(0, 1) * torch.arange(6.0).to(x.device).unsqueeze_(1)


@pytest.mark.parametrize("function", [views, written_views, masks, indices, reshaped_in_place])
def test_views_masks_and_indices(function, device):
    agree(function, [draw(24)], device)


NETWORKS = {
    "convolutions": (lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding="same"), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(4, 4, 3, groups=2, stride=2, bias=False), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
        (2, 3, 9, 7)),
    "transposed convolution": (lambda: torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (1, 3, 4, 5)),
    "one dimension, dilated": (lambda: torch.nn.Conv1d(3, 6, 3, groups=3, dilation=2), (2, 3, 11)),
    "three dimensions": (lambda: torch.nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "layer norm and gelu": (
        lambda: torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU()), (3, 6)),
    "group norm": (lambda: torch.nn.GroupNorm(2, 4), (2, 4, 5)),
    "no rows": (lambda: torch.nn.Linear(6, 8), (0, 6)),
    "transformer": (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, device):
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    network = make()
    x = draw(*shape, seed=3)
    results = []
    for where in ("cpu", device):
        network.to(where).zero_grad()
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.reset_running_stats()
        leaf = x.clone().to(where).requires_grad_()
        y = network(leaf)
        (y * y.cos()).sum().backward()
        results.append([y, leaf.grad, *(p.grad for p in network.parameters()), *network.buffers()])
    for want, got in zip(*results):
        torch.testing.assert_close(got.detach().cpu(), want.detach().cpu())


@pytest.mark.parametrize("function", [
    lambda x: F.cross_entropy(x, torch.tensor([1, -1]).to(x.device), ignore_index=-1),
    lambda x: F.mse_loss(x, x.detach() * 2),
    lambda x: F.nll_loss(x.log_softmax(1), torch.tensor([0, 2]).to(x.device), weight=torch.ones(3).to(x.device)),
    lambda x: F.binary_cross_entropy_with_logits(x, (x.detach() > 0).float()),
    lambda x: F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"),
    lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    lambda x: F.embedding(torch.tensor([1, 0, 1]).to(x.device), x),
], ids=["cross_entropy", "mse", "nll", "bce", "interpolate", "pad", "embedding"])
def test_functions_of_training(function, device):
    agree(function, [draw(2, 3)], device)


@pytest.mark.parametrize("optimizer", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    lambda p: torch.optim.Adam(p, lr=0.1),
    lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=False),
], ids=["SGD", "Adam", "fused AdamW", "RMSprop"])
def test_optimizers(optimizer, device):
    results = []
    for where in ("cpu", device):
        weights = [torch.nn.Parameter(draw(n + 1, 3).to(where)) for n in range(3)]
        chosen = optimizer(weights)
        for _ in range(3):
            chosen.zero_grad()
            sum((w**3).sum() for w in weights).backward()
            chosen.step()
        results.append([w.detach().cpu() for w in weights])
    for want, got in zip(*results):
        torch.testing.assert_close(got, want)


def test_optimizers_take_the_multi_tensor_path(device):
    weights = [torch.nn.Parameter(torch.ones(3, device=device)) for _ in range(50)]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    for weight in weights:
        weight.grad = torch.ones(3, device=device)
    before = vgpu.timeline().kernel_count
    optimizer.step()
    assert vgpu.timeline().kernel_count - before == 1


def test_derivatives_of_derivatives(device):
    x = draw(4).to(device).requires_grad_()
    gradient, = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 6 * x.detach().cpu())


def test_checkpointing(device):
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(3, 3).to(device)
    for reentrant in (True, False):
        x = draw(2, 3).to(device).requires_grad_()
        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
        torch.testing.assert_close(x.grad[0].cpu(), layer.weight.detach().cpu().sum(0))


# -- in place, out=, .data --------------------------------------------------------------------------


def test_an_operator_in_place_returns_the_tensor_itself(device):
    x = torch.ones(2, device=device)
    assert x.add_(1) is x
    out = torch.empty(2, device=device)
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [3, 3]


def test_out_takes_the_shape_of_the_result(device):
    out = torch.empty(0, device=device)
    torch.add(torch.ones(2, 3, device=device), 1, out=out)
    assert out.shape == (2, 3)
    assert (out * 2).sum().item() == 24


@pytest.mark.parametrize("change, shape", [
    (lambda x: x.squeeze_(), (2, 3)), (lambda x: x.resize_(4, 5), (4, 5)), (lambda x: x.transpose_(0, 2), (3, 2, 1)),
    (lambda x: x.set_(x.new_ones(7)), (7,)), (lambda x: x.unsqueeze_(-1), (1, 2, 3, 1)),
], ids=["squeeze_", "resize_", "transpose_", "set_", "unsqueeze_"])
def test_a_tensor_reshaped_in_place_has_its_new_shape(change, shape, device):
    x = torch.zeros(1, 2, 3, device=device)
    changed = change(x)
    assert changed is x
    assert x.shape == x.cpu().shape == shape


def test_a_buffer_that_an_operator_resizes_has_its_new_shape(device):
    """The ranges of quantised channels: a copy of the observer has them too."""
    observer = torch.ao.quantization.get_default_qat_qconfig("fbgemm").weight().to(device)
    observer(torch.linspace(-1, 1, 12, device=device).reshape(4, 3))
    for each in (observer, copy.deepcopy(observer)):
        assert each.activation_post_process.min_val.shape == each.scale.shape == (4,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("left, right", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0, 2, 3), (0, 3, 2))])
def test_products_and_convolutions_of_nothing(left, right, dtype, device):
    x = torch.ones(left, dtype=dtype, device=device, requires_grad=True)
    y = x @ torch.ones(right, dtype=dtype, device=device)
    y.sum().backward()
    assert y.sum().item() == 0 and x.grad.shape == left
    assert F.conv2d(torch.ones(0, 3, 5, 5, dtype=dtype, device=device),
                    torch.ones(2, 3, 3, 3, dtype=dtype, device=device)).shape == (0, 2, 3, 3)


def test_reshaping_in_place_launches_nothing(device):
    x = torch.zeros(1, 2, 3, device=device)
    before = vgpu.timeline().kernel_count
    x.squeeze_().t_()
    x.t().view(2, 3).unsqueeze(0)
    assert vgpu.timeline().kernel_count == before


def test_a_product_of_more_than_two_dimensions_is_one_kernel(device):
    x, weight = torch.ones(4, 2, 3, device=device), torch.ones(3, 5, device=device)
    before = vgpu.timeline().kernel_count
    x @ weight
    assert vgpu.timeline().kernel_count == before + 1


def test_data_can_be_replaced(device):
    weight = torch.nn.Parameter(torch.ones(2, 3, device=device))
    weight.data = torch.full((4,), 2.0, device=device)
    assert weight.shape == (4,)
    assert (weight * 3).tolist() == [6, 6, 6, 6]
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.bfloat16])
def test_a_module_on_the_device_changes_its_dtype(dtype, device):
    layer = torch.nn.Linear(3, 2).to(device).to(dtype)
    assert layer.weight.dtype == layer.weight.cpu().dtype == dtype
    assert layer(torch.ones(1, 3, device=device, dtype=dtype)).dtype == dtype


def test_a_mask_of_bytes_is_deprecated(device):
    x = torch.ones(3, device=device)
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert x[torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)].shape == (2,)


# -- random numbers ---------------------------------------------------------------------------------


def test_random_numbers_follow_the_seed_of_the_cpu(device):
    torch.manual_seed(3)
    expected = torch.rand(4), torch.randperm(9), F.dropout(torch.ones(20))
    torch.manual_seed(3)
    found = torch.rand(4, device=device), torch.randperm(9, device=device), F.dropout(torch.ones(20, device=device))
    for want, got in zip(expected, found):
        assert torch.equal(got.cpu(), want)


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mix", [
    lambda x, y: x + y, lambda x, y: y + x, lambda x, y: torch.cat([x, y]), lambda x, y: y.add_(x),
    lambda x, y: F.mse_loss(x, y), lambda x, y: F.linear(x, y), lambda x, y: torch.equal(x, y), lambda x, y: y[x.long()],
], ids=["add", "radd", "cat", "add_", "mse", "linear", "equal", "index"])
def test_two_devices_in_one_operator_are_an_error(mix, device):
    with pytest.raises(RuntimeError, match=r"two devices, vgpu:0 and cpu!.*\.to\('vgpu:0'\)"):
        mix(torch.ones(2, 2, device=device), torch.ones(2, 2))


@pytest.mark.parametrize("use, error, text", [
    (lambda x: x @ x, RuntimeError, "shapes cannot be multiplied"),
    (lambda x: x.view(7), RuntimeError, "invalid for input of size 6"),
    (lambda x: F.cross_entropy(x, torch.tensor([0, 9], device=x.device)), IndexError, "Target 9 is out of bounds"),
    (lambda x: x[torch.tensor([7], device=x.device)], IndexError, "out of bounds"),
    (lambda x: x[torch.ones(3, dtype=torch.bool, device=x.device)], IndexError, r"shape of the mask \[3\] at index 0"),
    (lambda x: x.to_sparse_csr(), NotImplementedError, "of the sparse layouts vgpu:0 has COO"),
    (lambda x: torch.nested.nested_tensor([x, x]), NotImplementedError, "nested tensors are not supported on vgpu:0"),
    (lambda x: x.numpy(), TypeError, "Use Tensor.cpu()"),
    (lambda x: torch.from_dlpack(x), BufferError, "call .cpu()"),
    (lambda x: x.to("vgpu:1"), RuntimeError, "there is one virtual GPU"),
    (lambda x: torch.ones(2, device="vgpu:3"), RuntimeError, "there is one virtual GPU"),
    (lambda x: x.item(), RuntimeError, "6 elements cannot be converted to Scalar"),
    (lambda x: torch.linalg.inv(torch.zeros(2, 2, device=x.device)), RuntimeError, "singular"),
])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_errors_are_pytorchs_or_clear(use, error, text, device):
    with pytest.raises(error, match=text):
        use(torch.ones(2, 3, device=device))


def test_an_error_leaves_no_operator_open(device):
    with pytest.raises(RuntimeError):
        torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device)
    assert not vgpu.timeline()._op_stack()


# -- without values ---------------------------------------------------------------------------------


def trace_of(function, device):
    """(results' shapes and dtypes, names of the kernels) of a function of the device."""
    names = []
    launch = vgpu.Timeline.launch

    def launch_and_note(self, name, *args, **kwargs):
        names.append(name)
        return launch(self, name, *args, **kwargs)

    vgpu.Timeline.launch = launch_and_note
    try:
        found = function(device)
    finally:
        vgpu.Timeline.launch = launch
    return [(tuple(t.shape), t.stride(), t.dtype, t.device) for t in found], names


def step(device):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                                  torch.nn.Linear(4 * 36, 5)).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    x, labels = torch.zeros(2, 3, 8, 8).to(device), torch.zeros(2, dtype=torch.int64).to(device)
    loss = F.cross_entropy(network(x), labels)
    loss.backward()
    optimizer.step()
    return [loss, *network.parameters(), *(p.grad for p in network.parameters())]


def indexing(device):
    x = torch.zeros(4, 6, device=device)
    mask = torch.ones(4, dtype=torch.bool, device=device)
    x[mask] = 1.0
    rows = x[mask]
    x[mask] = torch.tensor(2.0, device=device)
    labels = torch.zeros(3, dtype=torch.int64, device=device)
    return [rows, x, mask.nonzero(), x[torch.tensor([1, 0])], torch.where(mask[:, None], x, 0.0), x.sort().values,
            torch.unique(x), torch.repeat_interleave(x, 2, dim=0), x.cumsum(0), torch.bincount(labels)]


@pytest.mark.parametrize("program", [step, indexing])
def test_exact_and_shape_only_give_the_same_shapes_and_kernels(program, device):
    exact = trace_of(program, device)
    with vgpu.shape_only(vgpu.Assumptions(density=1.0, distinct=1)):
        assert trace_of(program, device) == exact


def test_exact_and_shape_only_take_the_same_time(device):
    times = []
    for mode in ("exact", "shape only"):
        vgpu.timeline().reset()
        if mode == "exact":
            step(device)
        else:
            with vgpu.shape_only():
                step(device)
        vgpu.timeline().synchronize_device()
        times.append(vgpu.timeline().host_ns)
    assert times[0] == times[1]


def test_values_without_values_read_as_zero(device):
    with vgpu.shape_only():
        x = torch.ones(2, 3, device=device)
        assert x.sum().item() == 0.0
        assert x.cpu().tolist() == [[0, 0, 0], [0, 0, 0]]
        assert not torch.equal(x, x.clone())
        assert "values unknown" in repr(x)


@pytest.mark.parametrize("mask, share", [
    (lambda x: x == 0, 0.25), (lambda x: x != 0, 0.75), (lambda x: ~(x == 0), 0.75), (lambda x: (x == 0).view(-1), 0.25),
    (lambda x: (x == 0).clone(), 0.25), (lambda x: x > 0, 0.5),
], ids=["eq", "ne", "not", "view", "clone", "another"])
def test_masks_are_as_dense_as_assumed(mask, share, device):
    with vgpu.shape_only(vgpu.Assumptions(densities={"eq": 0.25, "ne": 0.75}, density=0.5)):
        x = torch.empty(40, 10, device=device)
        assert mask(x).nonzero().shape[0] == 400 * share


def test_tensors_with_and_without_values_do_not_mix(device):
    x = torch.ones(3, device=device)
    with vgpu.shape_only():
        y = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="same mode"):
        x + y


def test_what_has_no_shape_without_values_says_so(device):
    with vgpu.shape_only(), pytest.raises(NotImplementedError, match=r"not supported in vgpu.shape_only\(\)"):
        torch.linalg.lstsq(torch.empty(3, 2, device=device), torch.empty(3, 1, device=device))


def test_the_mode_ends_with_its_block_even_by_an_error():
    with pytest.raises(ValueError, match="^inside$"), vgpu.shape_only():
        assert vgpu.is_shape_only()
        raise ValueError("inside")
    assert not vgpu.is_shape_only()


def test_without_values_the_host_holds_nothing(device):
    before = vgpu.memory().allocated_bytes
    with vgpu.shape_only():
        x = torch.empty(2**31, device=device)
        assert x.within.is_meta
    assert vgpu.memory().allocated_bytes - before == 2**33


@pytest.mark.parametrize("view", [lambda x: x[:, :2], lambda x: x.view(-1), lambda x: x.t(), lambda x: x.detach(), lambda x: x.chunk(2, -1)[0]])
def test_views_in_inference_mode(view, device):
    """Of a tensor made outside they are no inference tensors, as on any device."""
    for x in (torch.ones(3, 4), torch.ones(3, 4, device=device), torch.nn.Parameter(torch.ones(3, 4, device=device))):
        with torch.inference_mode():
            seen = view(x)
            seen.add_(1)
            assert not seen.is_inference() and (seen + 1).is_inference()
            assert view(torch.ones(3, 4, device=x.device)).is_inference()
        assert x.sum().item() == 12 + seen.numel()


NEW = [torch.empty_like, torch.zeros_like, torch.rand_like, lambda x, **to: torch.full_like(x, 2, **to), lambda x, **to: x.new_ones(3, 4, **to),
       lambda x, **to: x.new_empty_strided((3, 4), (1, 3), **to)]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("kind", ["cpu", "meta", "vgpu"])
@pytest.mark.parametrize("valueless", [False, True])
def test_what_is_made_like_a_tensor_is_on_the_device_that_is_named(new, kind, valueless, device):
    with vgpu.shape_only() if valueless else vgpu.exact():
        made, on_cpu = (new(torch.ones(4, 3, device=on).t(), device=kind) for on in (device, "cpu"))
    assert (made.device.type, made.shape, made.stride(), made.dtype) == (kind, on_cpu.shape, on_cpu.stride(), on_cpu.dtype)
    assert torch.zeros_like(torch.ones(2, device=device), device="cpu").tolist() == [0, 0]


class Made(torch.Tensor):
    """A tensor made of another. It refuses classes that it does not know, as is usual."""

    @staticmethod
    def __new__(cls, of):
        return torch.Tensor._make_wrapper_subclass(cls, of.shape, dtype=of.dtype, device=of.device)

    def __init__(self, of):
        self.of = of

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mul.Tensor or not all(issubclass(cls, each) for each in types):
            return NotImplemented
        return func(*(each.of if isinstance(each, cls) else each for each in args), **(kwargs or {}))


def test_a_class_of_tensors_that_knows_only_itself_works_with_the_devices(device):
    ones = torch.ones(2, device=device)
    for found in (Made(ones) + ones, ones + Made(ones), Made(ones) + Made(ones)):
        assert found.device == device and found.tolist() == [2, 2]
    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        torch.mul(Made(ones), ones)


def test_what_is_added_to_in_place_takes_the_shape_that_it_gets(device):
    """ATen, ``addbmm_``: its argument may broadcast."""
    x = torch.ones(1, device=device)
    assert x.addbmm_(torch.ones(2, 3, 4, device=device), torch.ones(2, 4, 5, device=device)) is x
    assert x.shape == (3, 5) and (x + 1).tolist() == [[10.0] * 5] * 3
