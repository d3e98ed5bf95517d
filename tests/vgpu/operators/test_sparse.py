"""Sparse COO tensors: the CPU's values and gradients, CUDA's kernels and waits."""

import copy
import io
import itertools

import pytest
import torch
from torch import nn

from gapless import profiler, vgpu
from gapless.vgpu.operators.sparse import SparseTensor

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]parse.*invariant.*", "ignore:Sparse CSR tensor support")

INDICES, VALUES = torch.tensor([[0, 1, 1, 2], [0, 1, 1, 0]]), torch.tensor([1.0, 2.0, 3.0, 4.0])


def sparse(device, coalesced=True):
    found = torch.sparse_coo_tensor(INDICES, VALUES, (3, 3))
    return (found.coalesce() if coalesced else found).to(device)


def dense(device):
    return torch.arange(9.0).view(3, 3).to(device)


def host(tensor):
    return (tensor.to_dense() if tensor.is_sparse else tensor).detach().cpu()


WITH_GRADIENTS = {
    "spmm": torch.spmm, "sparse.mm": torch.sparse.mm, "@": lambda s, w: s @ w, "dense @ sparse": lambda s, w: w @ s,
    "addmm": lambda s, w: torch.sparse.addmm(w, s, w), "sparse @ sparse": lambda s, w: torch.sparse.mm(s, s.t()),
    "both sparse": lambda s, w: s @ s.t(), "mv": lambda s, w: s @ w[0], "no columns": lambda s, w: s @ w[:, :0],
    "softmax": lambda s, w: torch.sparse.softmax(s, 1),
    "log_softmax": lambda s, w: torch.sparse.log_softmax(s, 0), "sum": lambda s, w: torch.sparse.sum(s),
    "sum over a dimension": lambda s, w: torch.sparse.sum(s, 1), "sparse_mask": lambda s, w: w.sparse_mask(s.detach()),
    "to_sparse": lambda s, w: w.to_sparse(), "to_sparse of rows": lambda s, w: w.to_sparse(1), "scaled": lambda s, w: s * 2 / 3,
    "product": lambda s, w: s * s, "product with dense": lambda s, w: s * w, "sum of two": lambda s, w: s + s,
    "sum with dense": lambda s, w: w + s, "difference": lambda s, w: s - s * 3, "t": lambda s, w: s.t(),
    "values": lambda s, w: s.coalesce().values() ** 2, "to_dense": lambda s, w: s.to_dense(), "relu": lambda s, w: s.relu(),
    "pow": lambda s, w: s.pow(2), "negative": lambda s, w: -s, "dtype": lambda s, w: s.double().float(),
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_operators_have_the_cpus_values_and_gradients(name, device):
    def results(device):
        s, w = sparse(device).requires_grad_(), dense(device).requires_grad_()
        out = WITH_GRADIENTS[name](s, w)
        whole = out.to_dense() if out.is_sparse else out
        (whole * torch.arange(1.0, whole.numel() + 1).view(whole.shape).to(device)).sum().backward()
        return [host(each) for each in (out, s.grad, w.grad) if each is not None]

    torch.testing.assert_close(results(device), results("cpu"))


WITHOUT = {
    "made": lambda d: torch.sparse_coo_tensor(INDICES, VALUES, (3, 3), device=d),
    "made on the device": lambda d: torch.sparse_coo_tensor(INDICES.to(d), VALUES.to(d)),
    "made of lists": lambda d: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], device=d),
    "empty": lambda d: torch.sparse_coo_tensor((3, 3), device=d), "zeros": lambda d: torch.zeros(3, 3, layout=torch.sparse_coo, device=d),
    "zeros_like": lambda d: torch.zeros_like(sparse(d)), "coalesce": lambda d: sparse(d, False).coalesce(),
    "norm": lambda d: sparse(d, False).norm(), "bmm": lambda d: torch.bmm(torch.stack([sparse("cpu")] * 2).to(d), torch.ones(2, 3, 2).to(d)),
    "sqrt": lambda d: sparse(d, False).sqrt(), "cat": lambda d: torch.cat([sparse(d), sparse(d)]), "select": lambda d: sparse(d)[1],
    "index_select": lambda d: sparse(d).index_select(0, torch.tensor([1, 0]).to(d)), "unsqueeze": lambda d: sparse(d).unsqueeze(0),
    "add_": lambda d: sparse(d).add_(sparse(d), alpha=2), "dense add_": lambda d: dense(d).add_(sparse(d, False), alpha=2),
    "mul_": lambda d: sparse(d).mul_(3), "zero_": lambda d: sparse(d).zero_(), "copy_": lambda d: torch.zeros_like(sparse(d)).copy_(sparse("cpu")),
    "resize": lambda d: sparse(d).sparse_resize_((4, 4), 2, 0), "deepcopy": lambda d: copy.deepcopy(sparse(d)), "cpu": lambda d: sparse(d).cpu(),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_operators_without_gradients(name, device):
    found, expected = WITHOUT[name](device), WITHOUT[name]("cpu")
    assert found.shape == expected.shape and found.layout == expected.layout
    torch.testing.assert_close(host(found), host(expected))


def test_what_it_is(device):
    s = sparse(device, False)
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.is_sparse, s.device) == (4, 2, 0, False, True, device)
    assert s.coalesce().indices().device == s.coalesce().values().device == device
    assert repr(s) == ("tensor(indices=tensor([[0, 1, 1, 2],\n                       [0, 1, 1, 0]]),\n"
                       "       values=tensor([1., 2., 3., 4.]),\n       size=(3, 3), nnz=4, device='vgpu:0', layout=torch.sparse_coo)")


def test_it_is_saved(device):
    file = io.BytesIO()
    torch.save(sparse(device), file)
    file.seek(0)
    found = torch.load(file)
    assert isinstance(found, SparseTensor)
    assert torch.equal(host(found), host(sparse("cpu")))


def test_what_is_wrong_with_it_is_found(device):
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor(INDICES.to(device), VALUES.to(device), (2, 3), check_invariants=True)


def test_its_memory_is_that_of_its_parts(device):
    torch.vgpu.empty_cache()
    before = vgpu.memory().allocated_bytes
    s = sparse(device)
    assert vgpu.memory().allocated_bytes == before + 2 * 512
    values = s._values()
    del s
    assert vgpu.memory().allocated_bytes == before + 512
    assert values.sum().item() == 10


WAITS = {
    "to the device": (lambda s, w: sparse("cpu").to(w.device), 2),  # indices, values
    "to the host": (lambda s, w: s.cpu(), 2),
    "coalesce": (lambda s, w: s.coalesce(), 5),  # the strides; two copies, a sort and a count of Thrust
    "coalesce of rows": (lambda s, w: torch.sparse_coo_tensor(s._indices()[:1], w[[0]].expand(4, 3), (3, 3)).coalesce(), 5),
    "coalesce again": (lambda s, w: s.coalesce().coalesce(), 5),
    "product": (lambda s, w: s.coalesce() @ w, 5), "product of uncoalesced": (lambda s, w: s @ w, 5),
    "sum": (lambda s, w: s + s, 0), "in place": (lambda s, w: s.add_(s), 0), "scaled": (lambda s, w: s * 2, 0),
    "to_dense": (lambda s, w: s.to_dense(), 0),
    "to_sparse": (lambda s, w: w.to_sparse(), 1), "size from the indices": (lambda s, w: torch.sparse_coo_tensor(s._indices(), s._values()), 2),
    "with a size": (lambda s, w: torch.sparse_coo_tensor(s._indices(), s._values(), (3, 3)), 0),
}


@pytest.mark.parametrize("name", WAITS)
def test_waits_are_cudas(name, device, waits):
    use, expected = WAITS[name]
    s, w = sparse(device, False), dense(device)
    with waits() as found:
        use(s, w)
    assert len(found) == expected


def test_a_graph_network_waits_in_its_backward_pass(device, waits):
    """The transposed adjacency is not coalesced, as PyTorch makes it: each backward pass sorts it."""
    adjacency, weight = sparse(device), dense(device).requires_grad_()
    with waits() as found:
        loss = (adjacency @ weight).sum()
    assert not found
    with waits() as found:
        loss.backward()
    assert [wait.op for wait in found] == ["aten::mm"] * 5


OPTIMIZERS = {
    "SGD": lambda e, rest: [torch.optim.SGD([*e, *rest], 0.1)], "momentum": lambda e, rest: [torch.optim.SGD([*e, *rest], 0.1, momentum=0.9)],
    "Adagrad": lambda e, rest: [torch.optim.Adagrad([*e, *rest], 0.1)],
    "SparseAdam": lambda e, rest: [torch.optim.SparseAdam(e, lr=0.1), torch.optim.Adam(rest)],
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["embedding", "padding", "bag", "clipped", "accumulated", "zeroed"])
def test_embeddings_train_as_on_the_cpu(optimizer, kind, device):
    def train(device):
        torch.manual_seed(0)
        first = (nn.EmbeddingBag(10, 4, sparse=True, mode="mean") if kind == "bag"
                 else nn.Embedding(10, 4, sparse=True, padding_idx=0 if kind == "padding" else None))
        network = nn.Sequential(first, nn.Linear(4, 1)).to(device)
        optimizers = OPTIMIZERS[optimizer](list(network[0].parameters()), list(network[1].parameters()))
        losses = []
        for _ in range(3):
            for each in optimizers:
                each.zero_grad(set_to_none=kind != "zeroed")
            for _ in range(2 if kind == "accumulated" else 1):
                loss = network(torch.tensor([[1, 2, 2, 3], [3, 4, 0, 1]]).to(device)).pow(2).mean()
                loss.backward()
            assert network[0].weight.grad.is_sparse
            if kind == "clipped":
                nn.utils.clip_grad_norm_(network.parameters(), 0.01)
            for each in optimizers:
                each.step()
            losses.append(loss.item())
        return losses, network[0].weight.detach().cpu()

    torch.testing.assert_close(train(device), train("cpu"))


def test_sgd_does_not_wait_for_sparse_gradients(device, waits):
    embedding = nn.Embedding(10, 4, sparse=True).to(device)
    optimizer = torch.optim.SGD(embedding.parameters(), 0.1)
    labels = torch.tensor([1, 2, 2]).to(device)
    with waits() as found:
        embedding(labels).sum().backward()
        optimizer.step()
    assert not found


def test_a_profile_has_its_kernels(device):
    s, w = sparse(device, False), dense(device)
    with profiler.profile() as found:
        s @ w
    names = [event["name"] for event in found.trace.events]
    assert "csrmm_kernel" in names and "unique_by_key" in names and names.count("aten::mm") == 1


def test_another_stream_is_told_of(device):
    s = sparse(device) * 2
    other = torch.vgpu.Stream()
    with vgpu.races("raise"), torch.vgpu.stream(other), pytest.raises(vgpu.RaceError):
        s.to_dense()


def test_the_host_is_not_mixed_with_the_device(device):
    with pytest.raises(RuntimeError, match="two devices"):
        sparse(device) @ dense("cpu")


@pytest.mark.parametrize("dtypes", list(itertools.product(
    [torch.uint8, torch.int16, torch.float32, torch.bool], repeat=2)), ids=str)
@pytest.mark.parametrize("name", ["add", "add_", "sub", "sub_"])
def test_sums_have_the_cpus_dtypes_and_values(name, dtypes, device):
    def found(device):
        left, right = (torch.tensor(values).to(device, dtype).to_sparse() for values, dtype in zip(([0, 3, 1], [0, 2, 0]), dtypes))
        try:
            made = getattr(left, name)(right)
            return made.dtype, made.to_dense().tolist()
        except RuntimeError:
            return "refused"

    if dtypes != (torch.bool, torch.bool):  # which CUDA adds
        assert found(device) == found("cpu")


@pytest.mark.parametrize("where", ["cpu", "vgpu"])
def test_zeros_like_one_are_where_they_are_asked_for(where, device):
    sparse = torch.tensor([0, 1 + 2j]).to(device).to_sparse()
    for zeros in (sparse.new_zeros((2, 3), device=where), torch.zeros_like(sparse, device=where)):
        assert zeros.device.type == where and zeros.layout is torch.sparse_coo and zeros._nnz() == 0


def test_a_conjugate(device):
    sparse = torch.tensor([0, 1 + 2j]).to(device).to_sparse()
    assert torch.conj_physical(sparse).to_dense().tolist() == [0, 1 - 2j]


@pytest.mark.parametrize("product", [
    lambda x, y, z: x @ y.conj(),
    lambda x, y, z: z.mH @ x,
    lambda x, y, z: torch.mv(x, y[0].conj()),
    lambda x, y, z: torch.addmm((z @ y).conj(), x, y.mH),
    lambda x, y, z: torch.zeros_like(y).addmm_(x, y.conj()),
    lambda x, y, z: (z @ y).conj().addmm_(x, y),
    lambda x, y, z: torch.bmm(torch.stack([x.to_dense()] * 2).to_sparse() if x.is_sparse else torch.stack([x] * 2),
                              torch.stack([y, z]).conj()),
])
def test_products_see_lazy_conjugates(product, device):
    numbers = torch.Generator().manual_seed(0)
    x, y, z = (torch.randn(3, 3, dtype=torch.complex128, generator=numbers) for _ in "xyz")
    x[1] = 0
    found = product(x.to(device).to_sparse(), y.to(device), z.to(device))
    torch.testing.assert_close(found.cpu().resolve_conj(), product(x, y, z).resolve_conj())


@pytest.mark.parametrize("into", [
    lambda s, w, out: torch.addmm(w, s, w, out=out), lambda s, w, out: torch.mm(s, w, out=out),
    lambda s, w, out: torch.sspaddmm(s, s, w),
])
def test_a_product_is_written_where_it_is_said_and_nowhere_else(device, into):
    results = []
    for where in ("cpu", device):
        s, w, out = sparse(where), dense(where), torch.zeros(3, 3, device=where)
        found = into(s, w, out)
        results.append([host(each) for each in (s, w, out, found)])
    for right, other in zip(*results):
        torch.testing.assert_close(other, right)
