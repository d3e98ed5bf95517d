"""Ways to run an entry of PyTorch's databases, besides calling it: each is held against the same on the CPU.

A mode is a function of an entry, a sample and the device that its tensors are on; it gives tensors. ``check(entry, dtype,
mode)`` compares them. What the CPU refuses is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves, tree_map

import gapless

from .entries import CUDA_DRIVERS, EXCEPTIONS, NO_VALUES, compare, entries, find, move, placed

MODES: dict[str, Callable] = {}

_DTYPE = "PyTorch gives float64 of float32 on the CPU: a number that it has wrapped meets a tangent of zeros"
_ON_CPU = "PyTorch reads its arguments as numbers and asserts that they are on the CPU: an error on CUDA too"

# (mode, entry) → why it is left out.
MODE_EXCEPTIONS: dict[tuple[str, str], str] = {
    ("linearize", "nn.functional.rrelu"): "called twice; how far the generator moves on depends on values on the CPU only",
    ("traced", "nn.functional.ctc_loss"): "PyTorch traces lengths on the host as memory without values, on the CPU too",
    ("vmap", "linspace.tensor_overload"): _ON_CPU,
    ("vmap", "logspace.tensor_overload"): _ON_CPU,
    ("hessian", "addcdiv"): _DTYPE,
    ("hessian", "addcmul"): _DTYPE,
    ("hessian", "ldexp"): _DTYPE,
}


# Without rows the CPU's kernel ends the process, or gives memory that nobody wrote.
_NEVER_EMPTY = {"native_batch_norm", "_native_batch_norm_legit", "nn.functional.pdist", "_segment_reduce",
                "nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss", "resize_"}


def mode(function: Callable) -> Callable:
    """Decorator: the function is a mode, by its name."""
    MODES[function.__name__] = function
    return function


class Unfit(Exception):
    """The mode says nothing about this sample."""


def _call(op, sample: SampleInput, device: torch.device):
    return op(sample.input, *sample.args, **placed(op, sample.kwargs, device))


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _differentiable(tree) -> list[torch.Tensor]:
    return [each for each in _tensors(tree) if each.is_floating_point() or each.is_complex()]


def _leaves(sample: SampleInput) -> list[torch.Tensor]:
    found = [each for each in _tensors((sample.input, sample.args, sample.kwargs)) if each.requires_grad]
    if not found:
        raise Unfit
    return found


def _weights(like: torch.Tensor) -> torch.Tensor:
    """The same on every device."""
    return torch.linspace(0.5, 1.5, like.numel()).reshape(like.shape).to(like.device, like.dtype)


def _as_function(op, sample: SampleInput, device: torch.device):
    """The entry as a function of the sample's differentiable tensors, and these."""
    leaves = _leaves(sample)
    places = {id(leaf): place for place, leaf in enumerate(leaves)}

    def function(*given):
        put = lambda leaf: given[places[id(leaf)]] if id(leaf) in places else leaf  # noqa: E731
        args, kwargs = tree_map(put, ((sample.input, *sample.args), dict(sample.kwargs)))
        return tuple(each for each in _differentiable(op(*args, **placed(op, kwargs, device))))

    return function, tuple(leaves)


@mode
def forward_mode(op, sample, device):
    """Tangents by dual numbers."""
    if not op.supports_forward_ad:
        raise Unfit
    function, leaves = _as_function(op, sample, device)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(each.detach(), _weights(each)) for each in leaves]
        return [forward_ad.unpack_dual(each) for each in function(*duals)]


@mode
def jvp(op, sample, device):
    """Tangents by ``torch.func.jvp``."""
    if not op.supports_forward_ad:
        raise Unfit
    function, leaves = _as_function(op, sample, device)
    leaves = tuple(each.detach() for each in leaves)
    return torch.func.jvp(function, leaves, tuple(map(_weights, leaves)))


@mode
def linearize(op, sample, device):
    """Tangents by ``torch.func.linearize``, two of them."""
    if not op.supports_forward_ad:
        raise Unfit
    function, leaves = _as_function(op, sample, device)
    leaves = tuple(each.detach() for each in leaves)
    value, derivative = torch.func.linearize(function, *leaves)
    return value, derivative(*map(_weights, leaves)), derivative(*(2 - _weights(each) for each in leaves))


@mode
def traced(op, sample, device):
    """A graph of ``make_fx``, called with other values than it was traced with."""
    function, leaves = _as_function(op, sample, device)
    leaves = tuple(each.detach() for each in leaves)
    graph = make_fx(function)(*leaves)
    torch.manual_seed(1)
    return graph(*(each * 0.875 for each in leaves))


@mode
def second_derivative(op, sample, device):
    """Gradients of the gradients."""
    if not op.supports_gradgrad:
        raise Unfit
    leaves = _leaves(sample)
    out = [each for each in _differentiable(_call(op, sample, device)) if each.requires_grad]
    first = torch.autograd.grad(out, leaves, list(map(_weights, out)), create_graph=True, allow_unused=True)
    through = [each for each in first if each is not None and each.requires_grad]
    if not through:
        raise Unfit
    return first, torch.autograd.grad(through, leaves, list(map(_weights, through)), allow_unused=True)


@mode
def hessian(op, sample, device):
    """``jacrev``, ``jacfwd`` and one of the other, of a small sample."""
    function, leaves = _as_function(op, sample, device)
    if leaves[0].numel() > 12 or not op.supports_forward_ad:
        raise Unfit
    first, rest = leaves[0].detach(), tuple(each.detach() for each in leaves[1:])
    reduced = lambda x: function(x, *rest)[0]  # noqa: E731
    found = [torch.func.jacrev(reduced)(first), torch.func.jacfwd(reduced)(first)]
    if op.supports_gradgrad and op.supports_fwgrad_bwgrad:
        found.append(torch.func.hessian(lambda x: reduced(x).abs().sum())(first))
    return found


def _batched(sample: SampleInput):
    tensors = list(_tensors((sample.input, sample.args, sample.kwargs)))
    if not tensors or not isinstance(sample.input, torch.Tensor):
        raise Unfit
    x = sample.input.detach()
    return torch.stack([x, x.flip(0) if x.dim() else x, x])


@mode
def vmap(op, sample, device):
    """Over a batch of the first argument."""
    return torch.func.vmap(lambda x: op(x, *sample.args, **placed(op, sample.kwargs, device)),
                           randomness="same")(_batched(sample))


@mode
def gradients_by_sample(op, sample, device):
    """``vmap`` over ``vjp``."""
    function, leaves = _as_function(op, sample, device)
    leaves = tuple(each.detach() for each in leaves)

    def gradients(*given):
        out, backward = torch.func.vjp(function, *given)
        return backward(tuple(map(_weights, out)))

    return torch.func.vmap(gradients, randomness="same")(*(torch.stack([each, each * 0.875]) for each in leaves))


@mode
def functionalize(op, sample, device):
    """By ``torch.func.functionalize``."""
    if not isinstance(sample.input, torch.Tensor):
        raise Unfit
    return torch.func.functionalize(
        lambda x: op(x, *sample.args, **placed(op, sample.kwargs, device)))(sample.input.detach())


@mode
def in_place(op, sample, device):
    """The entry's variant with a trailing underscore, and the gradients through it."""
    variant = op.get_inplace()
    if variant is None or not isinstance(sample.input, torch.Tensor) or sample.broadcasts_input:
        raise Unfit
    base = sample.input.detach().clone().requires_grad_(sample.input.requires_grad)
    written = base.clone()
    out = variant(written, *sample.args, **sample.kwargs)
    assert out is written, "another tensor came back"
    if base.requires_grad and op.supports_inplace_autograd:
        return out, torch.autograd.grad(out, base, _weights(out), allow_unused=True)
    return out


@mode
def out_argument(op, sample, device):
    """Results in memory that is there: of the right shape, of none, and a view."""
    if not op.supports_out or isinstance(sample.input, (list, tuple)):
        raise Unfit
    with torch.no_grad():
        torch.manual_seed(1)
        result = _call(op, sample, device)
        found = []
        for make in (torch.zeros_like, lambda t: t.new_empty(0),
                     lambda t: torch.zeros((*t.shape, 2), dtype=t.dtype, device=t.device)[..., 0]):
            torch.manual_seed(1)
            out = make(result) if isinstance(result, torch.Tensor) else tuple(map(make, result))
            given = op(sample.input, *sample.args, **placed(op, sample.kwargs, device), out=out)
            assert all(a is b for a, b in zip(_tensors(given), _tensors(out))), "another tensor came back"
            found.append(out)
    return found


@mode
def noncontiguous(op, sample, device):
    """Arguments with gaps between their elements, and their gradients."""
    return _with_gradients(op, sample.noncontiguous(), device)


@mode
def empty(op, sample, device):
    """No rows, in each argument that has as many as the first, and the gradients."""
    rows = sample.input.shape[:1] if isinstance(sample.input, torch.Tensor) else ()
    if not rows or op.name in _NEVER_EMPTY:
        raise Unfit
    return _with_gradients(op, sample.transform(
        lambda t: t.detach()[:0].requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) and t.shape[:1] == rows else t),
        device)


def _with_gradients(op, sample: SampleInput, device: torch.device):
    out = _call(op, sample, device)
    leaves = [each for each in _tensors((sample.input, sample.args, sample.kwargs)) if each.requires_grad]
    through = [each for each in _differentiable(out) if each.requires_grad]
    if not leaves or not through:
        return out
    return out, torch.autograd.grad(through, leaves, list(map(_weights, through)), allow_unused=True)


def tasks(how: str) -> list[str]:
    """The entries to be run in the mode ``how``."""
    return [name for name in entries(torch.float32) if name not in EXCEPTIONS and (how, name) not in MODE_EXCEPTIONS]


def check(name: str, how: str, most_samples: int | None = None) -> tuple[int, int]:
    """Compare an entry in the mode ``how`` on the virtual GPU with the CPU: (samples compared, 0).

    Raises what the virtual GPU raises and the CPU does not, and AssertionError where values, shapes or dtypes differ.
    """
    op, device, function = find(name), gapless.device("vgpu"), MODES[how]
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)):
            if most_samples is not None and number >= most_samples:
                break
            if sample.kwargs.get("driver") not in CUDA_DRIVERS:
                continue
            moved = sample.transform(lambda t: move(t, device) if isinstance(t, torch.Tensor) else t)
            try:
                torch.manual_seed(1)
                wanted = function(op, sample, torch.device("cpu"))
            except Exception:  # the CPU cannot, or the mode does not fit
                continue
            torch.manual_seed(1)
            found = function(op, moved, device)
            compare(found, wanted, values=op.name not in NO_VALUES, what=f"sample {number}", rtol=1e-4, atol=1e-5)
            compared += 1
    return compared, 0


__all__ = ["MODES", "MODE_EXCEPTIONS", "check", "tasks"]
