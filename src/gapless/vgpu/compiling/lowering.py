"""What an operator is to Inductor: loops over elements, reductions, calls of libraries.

From ``torch/_inductor/lowering.py`` and ``decomposition.py``, ``torch/_decomp/decompositions.py``: an operator that is
one kernel of CUDA's may be several loops there (a layer norm: the sums of its rows, then its elements), and much that has a
kernel of its own is an elementwise loop (a transposing copy, a lookup, ``cat``, pooling). Products, convolutions, attention,
sorts and scans stay calls. A convolution's bias is added by a loop (``kernel/conv.py``), a product's within it.
"""

# mypy: disable-error-code="union-attr"
# A problem is a convolution's or one of its passes, and a size is no symbol: a test comes before.
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..hardware.kernels.fusion import LIBRARY, POINTWISE, REDUCTION, ROWS, SAME, Access, Step


class Form(NamedTuple):
    """A tensor: which block of memory it lies in, and how. ``whole``: it is all of the block; ``copied``: a
    copy of it is meant, which lies so."""

    buffer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    whole: bool
    copied: bool = False

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that exist: an expanded dimension counts once."""
        return self.dtype.itemsize * math.prod(size for size, stride in zip(self.shape, self.strides) if stride or not size)

    @property
    def is_contiguous(self) -> bool:
        """Whether it lies row by row."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True


class Call(NamedTuple):
    """One call of an operator. ``name``: without ``aten::``; ``written``: the tensors that it wrote; ``kinds``: those of its
    kernels."""

    name: str
    args: tuple
    out: Any
    written: tuple[Form, ...]
    kinds: tuple[str, ...]


def forms(tree) -> list[Form]:
    """All tensors in ``tree``."""
    if isinstance(tree, Form):
        return [tree]
    return [form for each in tree for form in forms(each)] if isinstance(tree, tuple) else []


def how(form: Form, result: Form) -> object:
    """How the elements of ``form`` lie beside those of ``result``."""
    if form.shape == result.shape and form.strides == result.strides:
        return SAME
    if form.numel == result.numel and form.is_contiguous and result.is_contiguous:
        return SAME
    if result.is_contiguous and len(form.shape) == len(result.shape) and form.numel > 1:
        varied = [place for place, (size, stride) in enumerate(zip(form.shape, form.strides)) if size != 1 and stride]
        last = max(varied, default=0)
        rows = form._replace(shape=form.shape[:last + 1], strides=form.strides[:last + 1])
        if rows.shape == result.shape[:last + 1] and rows.is_contiguous:
            return ROWS
    return form.shape, form.strides, form.offset


# A step's number, of the kernel that draws a graph's seeds.
SEEDS = -2


class Lowering:
    """Steps for a list of calls, for a card with ``sm_count`` multiprocessors.

    Memory that is written again is another block to what follows, as after PyTorch's functionalization: ``base`` has the
    block of memory that each is."""

    def __init__(self, sm_count: int):
        self.sm_count = sm_count
        self.steps: list[Step] = []
        self.base: dict[int, int] = {}
        self._now: dict[int, int] = {}
        self._temporary = itertools.count(-1, -1)
        self._seeds: int | None = None

    def add(self, number: int, call: Call) -> None:
        """The steps of ``call``, the list's ``number``. A graph's random numbers come from seeds that are drawn first
        (``fx_passes/replace_random.py``)."""
        if call.name in RANDOM and self._seeds is None:
            self._seeds = self.temporary(8).buffer
            self.steps.append(Step("inductor_seeds", LIBRARY, 1, (), (Access(self._seeds, 8),), number=SEEDS))
        rule = RULES.get(call.name) or _rule(call)
        before = dict(self._now) if len(call.written) else self._now
        self._before = before
        for form in call.written:
            if form.buffer in self.base:
                fresh = next(self._temporary)
                self.base[fresh] = form.buffer
                self._now[form.buffer] = fresh
            else:
                self.base[form.buffer] = self._now[form.buffer] = form.buffer
        self.number = number
        rule(self, call)

    def now(self, buffer: int) -> int:
        """What the block of memory ``buffer`` is in the end."""
        return self._now.get(buffer, buffer)

    # -- accesses -----------------------------------------------------------------------------------

    def read(self, form: Form, at: object, nbytes: float | None = None) -> Access:
        """``form`` as it was before the call."""
        self.base.setdefault(form.buffer, form.buffer)
        return Access(self._before.get(form.buffer, form.buffer), form.nbytes if nbytes is None else nbytes, at)

    def write(self, form: Form) -> Access:
        """``form`` as it is after the call."""
        return Access(self._now[form.buffer], form.nbytes)

    def temporary(self, nbytes: float) -> Access:
        """A block that only these steps know."""
        fresh = next(self._temporary)
        return Access(fresh, nbytes, ROWS)

    @property
    def seeds(self) -> Access:
        """The graph's."""
        return Access(self._seeds, 8, "one")

    # -- steps --------------------------------------------------------------------------------------

    def loop(self, call: Call, reads: tuple[Access, ...], writes: tuple[Form | Access, ...], numel: int | None = None,
             **more) -> None:
        """A loop over the elements of what it writes."""
        for each in writes:
            access = each if isinstance(each, Access) else self.write(each)
            forced = False
            if isinstance(each, Form) and not each.whole and each in call.written:
                before = self._before.get(each.buffer, each.buffer)
                if before != access.buffer:
                    reads, forced = (*reads, Access(before, 0, "rest")), True
            count = numel if numel is not None else each.numel
            self.steps.append(Step(call.name, POINTWISE, count, reads, (Access(access.buffer, access.nbytes),),
                                   **{"forced": forced, **more}))

    def reduce(self, call: Call, numel: int, reduced: int, reads: tuple[Access, ...], writes: tuple[Access, ...],
               outer: bool = False, **more) -> None:
        """A reduction; in two stages where it has few results of many elements."""
        writes = tuple(Access(each.buffer, each.nbytes) for each in writes)
        parts = splits(self.sm_count, numel, reduced, outer)
        if parts > 1:
            between = tuple(self.temporary(each.nbytes * parts) for each in writes)
            self.steps.append(Step(call.name, REDUCTION, numel * parts, reads,
                                   tuple(Access(each.buffer, each.nbytes) for each in between), -(-reduced // parts), outer,
                                   **more))
            reads = tuple(Access(each.buffer, each.nbytes, SAME) for each in between)
            reduced = parts
        self.steps.append(Step(call.name, REDUCTION, numel, reads, writes, reduced, outer, **more))

    def library(self, call: Call, reads: list[Form], writes: tuple[Access, ...]) -> None:
        """A call of a library's kernels."""
        found = []
        for form in reads:
            access = self.read(form, SAME)
            if form.copied:
                fresh = Access(self.temporary(0).buffer, form.nbytes)
                turned = (access._replace(how="turned"),)
                self.steps.append(Step("copy", POINTWISE, form.numel, turned, (fresh,), forced=True))
                access = fresh
            found.append(access)
        self.steps.append(Step(call.name, LIBRARY, max((form.numel for form in reads), default=1), tuple(found), writes,
                               number=self.number))


def splits(sm_count: int, numel: int, reduced: int, outer: bool) -> int:
    """How many parts a reduction is cut into (``ir.py``, ``Reduction.num_splits``; ``choices.py``,
    ``reduction_split_factor``)."""
    threads, warps = 2048, 256
    least, most = 32 * sm_count * threads, 512 * sm_count * threads
    total = numel * reduced
    if numel > 1 and (reduced <= 32 or numel >= sm_count * 64):
        return 1
    if not outer:
        if numel >= 2 * sm_count or reduced <= 8192:
            return 1
        if total <= least:
            size = 32
        elif total < most:
            blocks = -(-(sm_count * threads // (2 * warps)) // numel)
            size = -(-reduced // (warps * blocks))
        else:
            size = 512
        return -(-reduced // (size * warps))
    across = -(-numel // 128)
    if total < least:
        size = 32
    elif total < most:
        blocks = -(-(sm_count * threads // warps) // across)
        size = -(-reduced // (4 * blocks))
    else:
        size = 512
    return max(-(-reduced // (4 * size)), 1)


# -- rules ------------------------------------------------------------------------------------------

Rule = Callable[[Lowering, Call], None]
RULES: dict[str, Rule] = {}


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: the function gives the steps of these operators."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return register


LIBRARIES = frozenset({"matmul", "convolution", "attention", "sort", "scan", "scatter"})

# Arithmetic for an element; of others 1.
OPERATIONS = {"gelu": 8, "gelu_backward": 14, "silu": 4, "silu_backward": 7, "sigmoid": 3, "sigmoid_backward": 3, "tanh": 5,
              "tanh_backward": 3, "native_dropout": 4, "hardswish": 5, "hardswish_backward": 8, "hardsigmoid": 4,
              "mish": 8, "softplus": 5, "native_batch_norm": 6, "native_layer_norm": 5, "elu": 4, "erf": 6}

_REDUCTIONS = frozenset({"reduction"})


def _rule(call: Call) -> Rule:
    """Of an operator that has none of its own: by its kernels. One without a name is none of the compiler's."""
    kinds = set(call.kinds)
    if not call.name:
        return _library
    if kinds & LIBRARIES or call.name.startswith("_fused_"):
        return _library
    if call.name.startswith("_foreach_"):
        return _foreach
    if kinds & _REDUCTIONS:
        return _reduction
    if "normalization" in kinds:
        return _library
    return _pointwise


def _library(lowering: Lowering, call: Call) -> None:
    lowering.library(call, forms(call.args), tuple(lowering.write(form) for form in call.written))


def _pointwise(lowering: Lowering, call: Call) -> None:
    if not call.written:
        return
    result = max(call.written, key=lambda form: form.numel)
    written = {form.buffer for form in call.written}
    given = [form for form in forms(call.args) if form.buffer not in written or call.name != "copy_"]
    lowering.loop(call, tuple(lowering.read(form, how(form, result)) for form in given), call.written,
                  operations=OPERATIONS.get(call.name.rstrip("_"), 1))


RANDOM = ("rand", "randn", "rand_like", "randn_like", "randint", "bernoulli", "bernoulli_", "uniform_", "normal_", "random_",
          "exponential_", "native_dropout", "_fused_dropout", "rrelu_with_noise")


@lowers(*RANDOM)
def _random(lowering: Lowering, call: Call) -> None:
    result = call.written[0]
    reads = tuple(lowering.read(form, how(form, result)) for form in forms(call.args) if form not in call.written)
    lowering.loop(call, (*reads, lowering.seeds), call.written, random=True, operations=4)


def _foreach(lowering: Lowering, call: Call) -> None:
    lists = [each for each in call.args if isinstance(each, tuple) and each and isinstance(each[0], Form)]
    for place, result in enumerate(call.written):
        given = [each[place % len(each)] for each in lists]
        one = call._replace(written=(result,))
        lowering.loop(one, tuple(lowering.read(form, how(form, result)) for form in given), (result,), listed=True)


def _dims(call: Call, form: Form) -> set[int]:
    """The dimensions that a reduction takes; all where none are given."""
    count = max(len(form.shape), 1)
    for each in call.args[1:3]:
        if isinstance(each, tuple) and each and all(isinstance(dim, int) for dim in each):
            return {dim % count for dim in each}
        if isinstance(each, int) and not isinstance(each, bool) and "norm" not in call.name:
            return {each % count}
    return set(range(count))


def _is_outer(form: Form, dims: set[int]) -> bool:
    """Whether neighbours in memory go to different results."""
    inner = [place for place, (size, stride) in enumerate(zip(form.shape, form.strides)) if size > 1]
    return bool(inner) and min(inner, key=lambda place: form.strides[place]) not in dims


def _reduction(lowering: Lowering, call: Call) -> None:
    given = forms(call.args)
    if not given or not call.written:
        return _library(lowering, call)
    first, result = given[0], call.written[0]
    numel = max(result.numel, 1)
    outer = _is_outer(first, _dims(call, first))
    if first.numel <= numel:
        return _pointwise(lowering, call)
    reads = tuple(lowering.read(form, SAME if form.is_contiguous and form.numel == first.numel else how(form, first))
                  for form in given)
    lowering.reduce(call, numel, first.numel // numel, reads, tuple(lowering.write(form) for form in call.written), outer)


# -- softmax, norms ---------------------------------------------------------------------------------


def _rows(form: Form, dim: int) -> tuple[int, int, bool]:
    """Results, elements of each, and whether those are not neighbours."""
    length = form.shape[dim % len(form.shape)] if form.shape else 1
    return form.numel // max(length, 1), length, _is_outer(form, {dim % max(len(form.shape), 1)})


@lowers("_softmax", "_log_softmax")
def _softmax(lowering: Lowering, call: Call) -> None:
    x, out = call.args[0], call.written[0]
    rows, length, outer = _rows(x, call.args[1])
    read = lowering.read(x, how(x, out))
    most, total = lowering.temporary(4 * rows), lowering.temporary(4 * rows)
    lowering.reduce(call, rows, length, (read,), (most,), outer)
    lowering.reduce(call, rows, length, (read, most), (total,), outer, operations=2)
    lowering.loop(call, (read, most, total), (out,), operations=3)


@lowers("_softmax_backward_data", "_log_softmax_backward_data")
def _softmax_backward(lowering: Lowering, call: Call) -> None:
    grad, found, dim = call.args[:3]
    out = call.written[0]
    rows, length, outer = _rows(found, dim)
    reads = (lowering.read(grad, how(grad, out)), lowering.read(found, how(found, out)))
    total = lowering.temporary(4 * rows)
    lowering.reduce(call, rows, length, reads, (total,), outer, operations=2)
    lowering.loop(call, (*reads, total), (out,), operations=2)


def _as_rows(access: Access) -> Access:
    return Access(access.buffer, access.nbytes, ROWS)


@lowers("native_layer_norm", "native_group_norm", "_fused_rms_norm")
def _layer_norm(lowering: Lowering, call: Call) -> None:
    x, (out, *kept) = call.args[0], call.written
    rows = max(kept[0].numel, 1)
    read = lowering.read(x, how(x, out))
    sums = [lowering.write(each) for each in kept]
    lowering.reduce(call, rows, x.numel // rows, (read,), tuple(sums), operations=3)
    affine = tuple(lowering.read(form, "row") for form in forms(call.args[1:]))
    lowering.loop(call, (read, *map(_as_rows, sums), *affine), (out,), operations=4)


@lowers("native_layer_norm_backward", "native_group_norm_backward")
def _layer_norm_backward(lowering: Lowering, call: Call) -> None:
    _norm_backward(lowering, call, statistics=2)


@lowers("_fused_rms_norm_backward")
def _rms_norm_backward(lowering: Lowering, call: Call) -> None:
    _norm_backward(lowering, call, statistics=1)


def _norm_backward(lowering: Lowering, call: Call, statistics: int) -> None:
    grad, x, *rest = call.args
    kept, affine = forms(tuple(rest))[:statistics], forms(tuple(rest))[statistics:]
    rows = max(kept[0].numel, 1)
    out = call.out
    kept = [lowering.read(each, ROWS) for each in kept]
    weight = [lowering.read(form, "row") for form in affine[:1]]
    if out[0] is not None:
        reads = (lowering.read(grad, how(grad, out[0])), lowering.read(x, how(x, out[0])), *kept, *weight)
        sums = lowering.temporary(4 * rows), lowering.temporary(4 * rows)
        lowering.reduce(call, rows, x.numel // rows, reads, sums, operations=4)
        lowering.loop(call, (*reads, *sums), (out[0],), operations=6)
    for each in out[1:]:
        if each is not None:
            reads = (lowering.read(grad, SAME), *((lowering.read(x, SAME), *kept) if each is out[1] else ()))
            lowering.reduce(call, each.numel, grad.numel // max(each.numel, 1), reads, (lowering.write(each),), outer=True)


_BATCH_NORMS = ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
                "_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional")


@lowers(*_BATCH_NORMS)
def _batch_norm(lowering: Lowering, call: Call) -> None:
    x, out = call.args[0], call.out[0]
    channels = [lowering.read(form, "channel") for form in forms(call.args[1:])]
    training = next((a for a in call.args if isinstance(a, bool)), False)
    read = lowering.read(x, how(x, out))
    if not training:
        lowering.loop(call, (read, *channels), (out,), operations=6)
        for form in call.written[1:]:
            lowering.loop(call, (), (form,))
        return
    kept = [form for form in forms(call.out[1:]) if form.numel]
    count = x.shape[1] if len(x.shape) > 1 else 1
    sums = [lowering.write(form) for form in kept[:2]]
    lowering.reduce(call, count, x.numel // max(count, 1), (read,), tuple(sums), outer=True, operations=3)
    sums = tuple(Access(each.buffer, each.nbytes, "channel") for each in sums)
    lowering.loop(call, (read, *sums, *(channels[:2])), (out,), operations=4)
    running = [form for form in call.written if form not in forms(call.out)]
    for form, total in zip(running, sums):
        lowering.loop(call, (lowering.read(form, SAME), Access(total.buffer, total.nbytes)), (form,))
    for form in forms(call.out)[3:]:
        lowering.loop(call, (), (form,))


@lowers("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward")
def _batch_norm_backward(lowering: Lowering, call: Call) -> None:
    maps = [form for form in forms(call.args) if len(form.shape) > 1]
    grad, x = maps[:2]
    channels = tuple(lowering.read(form, "channel") for form in forms(call.args) if len(form.shape) == 1)
    like = call.out[0] or x
    reads = (lowering.read(grad, how(grad, like)), lowering.read(x, how(x, like)))
    count = x.shape[1]
    sums = tuple(lowering.write(form) if form is not None else lowering.temporary(4 * count) for form in call.out[1:3])
    lowering.reduce(call, count, x.numel // max(count, 1), (*reads, *channels), sums, outer=True, operations=4)
    if call.out[0] is not None:
        sums = tuple(Access(each.buffer, each.nbytes, "channel") for each in sums)
        lowering.loop(call, (*reads, *channels, *sums), (call.out[0],), operations=6)


# -- convolutions, pooling, lookups, losses ----------------------------------------------------------


@lowers("convolution", "_convolution", "cudnn_convolution", "convolution_overrideable")
def _convolution(lowering: Lowering, call: Call) -> None:
    x, weight, bias = call.args[:3]
    out = call.written[0]
    if bias is None:
        return _library(lowering, call)
    product = Access(lowering.temporary(0).buffer, out.nbytes)
    lowering.library(call, [x, weight], (product,))
    lowering.loop(call, (product, lowering.read(bias, "channel")), (out,))
    return None


@lowers("convolution_backward", "convolution_backward_overrideable")
def _convolution_backward(lowering: Lowering, call: Call) -> None:
    grad, x, weight = call.args[:3]
    found = [form for form in call.out[:2] if form is not None]
    if found:
        lowering.library(call, [grad, x, weight], tuple(lowering.write(form) for form in found))
    if call.out[2] is not None:
        bias = call.out[2]
        lowering.reduce(call, bias.numel, grad.numel // max(bias.numel, 1), (lowering.read(grad, SAME),),
                        (lowering.write(bias),), outer=True)


@lowers("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "upsample_nearest2d", "upsample_bilinear2d",
        "upsample_bicubic2d", "max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward",
        "upsample_nearest2d_backward", "adaptive_max_pool2d", "avg_pool1d", "avg_pool3d", "max_pool3d_with_indices")
def _windows(lowering: Lowering, call: Call) -> None:
    result = call.written[0]
    reads = tuple(lowering.read(form, ("window", form.shape)) for form in forms(call.args))
    lowering.loop(call, reads, call.written, windowed=True, operations=10, numel=result.numel)


@lowers("embedding", "index_select", "gather", "index", "_unsafe_index", "take")
def _lookup(lowering: Lowering, call: Call) -> None:
    source, *indices = forms(call.args)
    out = call.written[0]
    lowering.loop(call, (lowering.read(source, ("lookup", *(i.buffer for i in indices)), min(out.nbytes, source.nbytes)),
                         *(lowering.read(form, ROWS if form.numel < out.numel else SAME) for form in indices)), (out,))


@lowers("cat", "stack")
def _cat(lowering: Lowering, call: Call) -> None:
    reads = tuple(lowering.read(form, ("cat", place)) for place, form in enumerate(forms(call.args)))
    lowering.loop(call, reads, call.written, joined=True)


@lowers("embedding_dense_backward")
def _scattered(lowering: Lowering, call: Call) -> None:
    """Zeros, then atomic additions: a loop over the gradient, which reads and writes what it adds to."""
    grad, indices = call.args[:2]
    out = call.written[0]
    zeros = lowering.temporary(0)
    lowering.loop(call, (), (Access(zeros.buffer, out.nbytes),), numel=out.numel, forced=True)
    reads = (lowering.read(grad, SAME), lowering.read(indices, ROWS), Access(zeros.buffer, grad.nbytes, "scattered"))
    lowering.loop(call, reads, (Access(lowering.write(out).buffer, grad.nbytes),), numel=grad.numel, forced=True)


@lowers("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(lowering: Lowering, call: Call) -> None:
    x, labels, *weight = forms(call.args)
    loss = call.written[0]
    reads = (lowering.read(labels, SAME), lowering.read(x, "picked", labels.numel * x.dtype.itemsize),
             *(lowering.read(form, "row") for form in weight))
    if loss.numel > 1 or labels.numel <= 1:
        return lowering.loop(call, reads, call.written)
    return lowering.reduce(call, 1, labels.numel, reads, tuple(lowering.write(form) for form in call.written))


@lowers("nll_loss_backward", "nll_loss2d_backward")
def _nll_loss_backward(lowering: Lowering, call: Call) -> None:
    grad, _, labels, *rest = forms(call.args)
    rows = ROWS if call.name == "nll_loss_backward" else "picked"
    lowering.loop(call, (lowering.read(labels, rows), lowering.read(grad, "one"), *(lowering.read(f, "one") for f in rest)),
                  call.written, operations=3)
