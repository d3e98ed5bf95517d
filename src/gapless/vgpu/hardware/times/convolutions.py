"""How long a convolution takes that no tensor core computes: float32 without TF32.

cuDNN holds several algorithms; which of them runs is decided in :mod:`.plans`. Each is a sum of terms, each the seconds of
some work at the data sheet's rates; a fitted constant says how many times as long it takes:

- implicit GEMM (precomputed offsets): the result in tiles of positions × channels, in waves over the SMs. The last block of
  an SM has no other to hide its loads behind: a latency for each term of its sum. A weight gradient splits its long sum
  until every SM works.
- fused Winograd F(2×2, 3×3): a block makes 32 tiles × 32 channels by 16 products, so an image is padded to 8×16 (or, from
  Ampere, four images to 8×4): the ``tile148`` and ``tile442`` of the kernels' names.
- non-fused Winograd F(4×4, 3×3) and F(5×5, 5×5): data, filter and result transformed through memory, 36 or 81 products.
- FFT on tiles of 16×16 or 32×32: the same with complex products for each frequency.
- depthwise: ATen's own kernels (cuda/DepthwiseConv2d.cu), two loads for each multiply-add.

Arithmetic is slower than the peak by the clock that the card sustains, as :mod:`.products` has it, and by a constant of the
architecture. Tiles and kernels are those named in measured runs of cuDNN 8.9 (:mod:`gapless.fidelity.fit.convolutions`),
which are forward, 3×3, stride 1, padding 1. All else follows from the same terms and is assumed: other windows and strides,
gradients, groups, depthwise. All of these work in contiguous order (NCHW): in channels-last order cuDNN turns the images
before and the result after. Winograd: Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, 2016.
"""

# mypy: disable-error-code="arg-type"
# A problem is a convolution's or one of its passes, and a size is no symbol: a test comes before.
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from ..cards import fitted
from ..cards.specs import Card
from . import products

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "forward", "input gradient", "weight gradient"

GEMM_TILES = ((128, 128), (128, 64), (128, 32), (32, 32))  # positions × channels
# cuBLAS's tiles for the products of non-fused Winograd, by the compute capability's first digit.
BATCHED_TILES = {7: ((128, 64), (64, 64), (128, 32), (32, 128)), 8: ((128, 128),), 9: ((128, 128), (128, 64), (64, 64))}
FFT_TILES = ((64, 64), (32, 32))  # of its complex products
WINOGRAD_SIDE, WINOGRAD_PRODUCTS = 32, 16  # a fused block's tiles and channels, and its products for each pair
IMAGES_ROWS_COLUMNS = ((1, 8, 16), (4, 8, 4))  # what a fused block covers
NON_FUSED = {(3, 3): 4, (5, 5): 5}  # window → side of the results that one tile makes
FFT_SIDES = (16, 32)
SPLIT_DEPTH = 64  # no part of a split sum is shorter
# Share of the bandwidth at which cuDNN turns images from one memory format into the other: nchwToNhwcKernel in a trace of an
# A100 (AlexNet, Holistic Trace Analysis's test data), two images that its L2 cache does not hold.
TURNING = 0.8


@dataclass(frozen=True)
class Convolution:
    """One pass of a correlation y = w ⋆ x: x is batch × channels_in × size_in, y is batch × channels_out × size_out.

    ``direction``: what is computed, y, or the gradient of x or of w. A transposed convolution is the input gradient of the
    convolution that it transposes. One, two or three dimensions.
    """

    direction: str
    batch: int
    channels_in: int
    channels_out: int
    size_in: tuple[int, ...]
    size_out: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    element_bytes: int = 4
    channels_last: bool = False

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """Seconds of its kernels' starts, and of their work, by the fastest algorithm."""
        best = min(algorithms(self, card), key=lambda found: found.seconds)
        turned_s = sum(turning_s(each, card) for each in self.turned()) if self.channels_last else 0.0
        return best.start_s, best.seconds - best.start_s + turned_s

    def turned(self) -> list[Turned]:
        """What is brought into the other memory format where it works in that: its operands before, the result after."""
        x, _, y = (size * self.element_bytes for size in self.sizes)
        before = {FORWARD: (x,), INPUT_GRADIENT: (y,), WEIGHT_GRADIENT: (x, y)}[self.direction]
        after = {FORWARD: (y,), INPUT_GRADIENT: (x,), WEIGHT_GRADIENT: ()}[self.direction]
        there, back = ("nhwcToNchw", "nchwToNhwc") if self.channels_last else ("nchwToNhwc", "nhwcToNchw")
        return [*(Turned(f"{there}Kernel", size, True) for size in before),
                *(Turned(f"{back}Kernel", size, False) for size in after)]

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """Elements of x, w and y."""
        return (self.batch * self.channels_in * prod(self.size_in),
                self.channels_out * (self.channels_in // self.groups) * prod(self.window),
                self.batch * self.channels_out * prod(self.size_out))

    @property
    def depthwise(self) -> bool:
        """Each channel for itself, as ATen has it (Convolution.cpp, is_depthwise)."""
        return self.groups == self.channels_in > 1 and len(self.window) > 1

    @property
    def multiply_adds(self) -> int:
        """Of any direction."""
        return self.sizes[2] * (self.channels_in // self.groups) * prod(self.window)


class Turned(NamedTuple):
    """A tensor that cuDNN rewrites for a convolution, ``before`` it or after it: the ``name`` of the kernel, and the bytes
    that it writes."""

    name: str
    size: int
    before: bool


def turning_s(turned: Turned, card: Card) -> float:
    """Seconds of a kernel that reads and writes all of it."""
    return 2 * turned.size / (card.bandwidth_bytes_per_s * TURNING)


class Algorithm(NamedTuple):
    """One way to compute a convolution: how long all of it takes, how much of that are its kernels' starts, workspace."""

    name: str
    seconds: float
    start_s: float
    workspace_bytes: int


class Way(NamedTuple):
    """An algorithm before the fit's constants: each term's name and seconds, of arithmetic at the data sheet's peak and
    of memory traffic at its bandwidth."""

    name: str
    engine: str  # what cuDNN chooses by: the algorithm, with a tile of its own where it has several
    tile: str
    kernels: int
    workspace_bytes: int
    math: tuple[tuple[str, float], ...]
    memory: tuple[tuple[str, float], ...]


def algorithms(problem: Convolution, card: Card, constants: Mapping[str, float] | None = None) -> list[Algorithm]:
    """Every algorithm that can compute ``problem`` in float32, each with the tiles that suit it best. ``constants``: those
    fitted, if None."""
    found: dict[str, Algorithm] = {}
    for way, one in _timed(problem, card, constants):
        if way.name not in found or one.seconds < found[way.name].seconds:
            found[way.name] = one
    return list(found.values())


def engines(problem: Convolution, card: Card) -> list[Algorithm]:
    """The same with each engine for itself, under its name."""
    found: dict[str, Algorithm] = {}
    for way, one in _timed(problem, card, None):
        if way.engine not in found or one.seconds < found[way.engine].seconds:
            found[way.engine] = one._replace(name=way.engine)
    return list(found.values())


def _timed(problem: Convolution, card: Card, constants: Mapping[str, float] | None) -> Iterator[tuple[Way, Algorithm]]:
    if constants is None:
        constants = fitted.constants("convolutions", card.fit_key)
    math = constants.get(architecture(card), constants["math"]) / sustained_share(card) ** constants["power"]
    for way in ways(problem, card):
        start = way.kernels * constants["start_s"]
        seconds = start + (math * sum([constants[name] * part for name, part in way.math])
                           + sum([constants[name] * part for name, part in way.memory]))
        yield way, Algorithm(way.name, seconds, start, way.workspace_bytes)


def architecture(card: Card) -> str:
    """The constant that says how much longer than at the sustained rate this architecture's kernels take (default: math)."""
    return "math_{}.{}".format(*card.compute_capability)


def sustained_share(card: Card) -> float:
    """Share of the float32 peak that the card's clock sustains in large products."""
    return products.rate_share(card, fitted.constants("products", card.fit_key))


def ways(problem: Convolution, card: Card) -> Iterator[Way]:
    """Every algorithm with every tile."""
    if problem.depthwise:
        yield _depthwise(problem, card)
        return
    yield from _implicit_gemm(problem, card)
    simple = problem.groups == 1 and len(problem.window) == 2 and set(problem.stride + problem.dilation) == {1}
    if not simple:
        return
    if problem.window == (3, 3) and problem.direction != WEIGHT_GRADIENT:
        yield from _fused_winograd(problem, card)
    if problem.window in NON_FUSED:
        made = NON_FUSED[problem.window]
        side = made + problem.window[0] - 1
        yield from _transformed(problem, card, "winograd_non_fused", made, side * side, 1)
    if max(problem.window) > 1 and problem.window[0] == problem.window[1]:
        for side in FFT_SIDES:
            made = side - problem.window[0] + 1
            if made > 1:
                yield from _transformed(problem, card, "fft", made, side * (side // 2 + 1), 2)


def _per_sm(blocks: int, multiply_adds: float, card: Card) -> float:
    """Seconds at the peak of blocks assigned to the SMs in turn, each block with so many multiply-adds: the fullest SM's."""
    return -(-blocks // card.sm_count) * card.sm_count * multiply_adds * 2 / card.peak_flops["float32"]


def _latency(depth: float, card: Card) -> float:
    """Seconds at the peak of one multiply-add in each SM for each term of a sum: the fitted constant says for how many of
    them a block waits for its next terms, which other blocks hide except for the last one's."""
    return depth * card.sm_count * 2 / card.peak_flops["float32"]


def _traffic(problem: Convolution, card: Card) -> tuple[float, float]:
    """Seconds at full bandwidth of what a pass reads, and of what it writes."""
    x, w, y = (size * problem.element_bytes / card.bandwidth_bytes_per_s for size in problem.sizes)
    written = {FORWARD: y, INPUT_GRADIENT: x, WEIGHT_GRADIENT: w}[problem.direction]
    return x + w + y - written, written


def _implicit_gemm(problem: Convolution, card: Card) -> Iterator[Way]:
    groups, window = problem.groups, prod(problem.window)
    channels_in, channels_out = problem.channels_in // groups, problem.channels_out // groups
    matrices = groups
    if problem.direction == FORWARD:
        rows, columns, depth = problem.batch * prod(problem.size_out), channels_out, channels_in * window
    elif problem.direction == INPUT_GRADIENT:
        # A strided one is a convolution for each phase of the stride that a tap falls on, each with its share of the taps.
        phases = prod(min(taps, stride) for taps, stride in zip(problem.window, problem.stride))
        reached = prod(-(-size // stride) for size, stride in zip(problem.size_in, problem.stride))
        rows, columns, depth = problem.batch * reached, channels_in, channels_out * window / phases
        matrices *= phases
    else:
        rows, columns, depth = channels_in * window, channels_out, problem.batch * prod(problem.size_out)
    read, written = _traffic(problem, card)
    for m, n in GEMM_TILES:
        tiles = matrices * -(-rows // m) * -(-columns // n)
        splits: set[float] = {1}
        if problem.direction == WEIGHT_GRADIENT and tiles:
            splits.add(max(1, min(4 * card.sm_count // tiles, depth // SPLIT_DEPTH)))
        for parts in splits:
            blocks = tiles * parts
            sums = 2 * (parts - 1) * written  # a partial result written and read
            tile = f"{m}x{n}"
            yield Way("implicit_gemm", f"implicit_gemm {tile}", tile, 2 if parts == 1 else 3, 0,
                      ((f"gemm_{m}x{n}", _per_sm(blocks, m * n * depth / parts, card)),
                       ("latency", _latency(depth / parts, card))),
                      (("gemm_traffic", read + written + sums),))


def _fused_winograd(problem: Convolution, card: Card) -> Iterator[Way]:
    size, channels, depth = problem.size_out, problem.channels_out, problem.channels_in
    if problem.direction == INPUT_GRADIENT:
        size, channels, depth = problem.size_in, depth, channels
    read, written = _traffic(problem, card)
    area = WINOGRAD_SIDE * WINOGRAD_SIDE * WINOGRAD_PRODUCTS
    weights = channels * depth * problem.element_bytes / card.bandwidth_bytes_per_s
    for images, height, width in IMAGES_ROWS_COLUMNS[:1 if card.compute_capability < (8, 0) else 2]:
        blocks = (-(-problem.batch // images) * -(-size[0] // height) * -(-size[1] // width) * -(-channels // WINOGRAD_SIDE))
        tile = f"{images}x{height}x{width}"
        yield Way("winograd", f"winograd {tile}", tile, 2, channels * depth * WINOGRAD_PRODUCTS * problem.element_bytes,
                  (("winograd", _per_sm(blocks, area * depth, card)), ("winograd_fill", _per_sm(blocks, area, card))),
                  (("winograd_filter", weights * (9 + WINOGRAD_PRODUCTS)),
                   ("winograd_traffic", read - 9 * weights + written)))


def _transformed(problem: Convolution, card: Card, name: str, made: int, matrices: int, words: int) -> Iterator[Way]:
    """Data, filter and result through memory as ``matrices`` matrices of ``words`` numbers (2: complex) an element, between
    the transforms a batch of products; a tile makes ``made`` × ``made`` results."""
    size = problem.size_in if problem.direction == INPUT_GRADIENT else problem.size_out
    tiles = problem.batch * -(-size[0] // made) * -(-size[1] // made)
    channels_in, channels_out = problem.channels_in, problem.channels_out
    second = problem.element_bytes / card.bandwidth_bytes_per_s
    x, w, y = problem.sizes
    x_second = (x + matrices * words * tiles * channels_in) * second
    w_second = (w + matrices * words * channels_in * channels_out) * second
    y_second = (y + matrices * words * tiles * channels_out) * second
    if problem.direction == FORWARD:
        rows, columns, depth, data, filters, result = tiles, channels_out, channels_in, x_second, w_second, y_second
    elif problem.direction == INPUT_GRADIENT:
        rows, columns, depth, data, filters, result = tiles, channels_in, channels_out, y_second, w_second, x_second
    else:  # the filter is what comes out, and small
        rows, columns, depth, data, filters, result = channels_in, channels_out, tiles, x_second + y_second, w_second, 0.0
    elements = tiles * (channels_in + channels_out) + channels_in * channels_out
    workspace = matrices * words * problem.element_bytes * elements
    memory = ((f"{name}_data", data), (f"{name}_filter", filters), (f"{name}_result", result))
    for m, n in FFT_TILES if words > 1 else BATCHED_TILES[min(max(card.compute_capability[0], 7), 9)]:
        # A product of complex numbers is four multiply-adds.
        each = m * n * words * words
        blocks = matrices * -(-rows // m) * -(-columns // n)
        kind = f"{name}_math" if words > 1 else f"batched_{max(m, n)}x{min(m, n)}"
        side = made + problem.window[0] - 1
        yield Way(name, f"{name} {side}x{side}", f"{m}x{n}", 4, workspace, ((kind, _per_sm(blocks, each * depth, card)),
                  ("batched_fill", _per_sm(blocks, each, card)), ("latency", _latency(depth, card))), memory)


def _depthwise(problem: Convolution, card: Card) -> Way:
    read, written = _traffic(problem, card)
    work = problem.multiply_adds * 2 / card.peak_flops["float32"]
    if problem.direction == WEIGHT_GRADIENT:
        # A block for each number of the weight, which reads its whole planes of x and of the gradient: r² times over.
        found = "depthwise_weight"
    else:
        found = "depthwise"
    return Way("depthwise", "depthwise", "", 1, 0, ((found, work),), (("depthwise_traffic", read + written),))
