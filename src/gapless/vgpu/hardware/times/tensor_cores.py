"""How long products, convolutions and fused attention take in half precision and TF32.

Products: tiles in waves (:mod:`.products`), with constants of their own (``fitted/half_products.json``): linear layers in
float16 on A100, A40 and H100 tell them. A card that was not measured takes the shared ones, at the rate of
:func:`product_constants`. Convolutions and attention: a kernel computes or waits for memory, and the two overlap in part:
its time is the root of the sum of their squares.

- Arithmetic: FLOPs at the tensor cores' dense peak, with channels padded to the 8 that they take, times a share of the
  peak for each kind of kernel. A share may exceed 1: GeForce cards clock above the data sheet's boost. Tiles that stand
  out over the edge of a small matrix, and filling and emptying the pipeline around a short sum, each take
  ``1 + constant ÷ size`` times as long.
  It takes no less time than one small tile on every SM: with fewer tiles the others are idle; deep sums are split.
- Memory: everything once, at a share of the bandwidth.
- Convolutions in contiguous order (NCHW): cuDNN's kernels for tensor cores work in NHWC, and others convert to it and
  back around themselves: bytes of the input and of the output, times a fitted share of them.
- In NHWC, channels that are no multiple of 16 bytes (8 in half precision, 4 in TF32): cuDNN pads them, in a tensor of its
  own (since 7.6.3; before, such layers missed the tensor cores: NVIDIA, *Convolutional layers user's guide*). Bytes read and
  written, times a share that was fitted, alone, to ReXNet, HRNet and GhostNet. In the training rows (cuDNN 8.3) it
  costs ten times what it costs in inference (a newer cuDNN); which of this is padding, the data do not tell.
- Products whose rows in memory do not begin at multiples of 8 bytes: half the rate (``UNALIGNED``). cuBLAS takes tensor
  cores for them since version 11, and is the faster the larger the power of two (NVIDIA, *Matrix multiplication
  background user's guide*, which advises 16 bytes). How much is assumed, after one figure: GPT-2 124M trains about 1.25
  times as fast with 50,304 words as with 50,257 (Andrej Karpathy, nanoGPT), and the layer of that size is a third of its
  FLOPs. Rows of 392 bytes seem to cost little: at half the rate timm's ResMLP, gMixer and gMLP are predicted 9 % off, at
  the full rate 7 %.
- Grouped convolutions: narrow groups fill the tensor cores badly (an edge again). In NHWC, cuDNN 8.3 computes gradients
  fast where there are at least 32 groups, and else with kernels some ten times as slow: seen in the data, not documented.
- Depthwise: no tensor cores. In NHWC cuDNN's kernels; in NCHW cuDNN's or ATen's (cuda/DepthwiseConv2d.cu), by the rule
  of ATen's ``use_cudnn_depthwise`` (Convolution.cpp).

Fitted end to end to whole networks (timm, float16 on RTX 3090 and 4090: :mod:`gapless.fidelity.fit.networks`), so that
single kernels may be off where the sum is right. Assumed: bfloat16 as float16; TF32 the same against its own peak;
attention's backward at its forward's share; how badly few tiles fill a card; and that other cards sustain what their
power pays for (:func:`sustained_share`). Against published figures that no constant was fitted to (ResNet-50, training and
inference, NHWC, V100, T4 and A100; NVIDIA's DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5): within
15 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ..cards.fitted import constants
from ..cards.specs import Card
from . import products
from .convolutions import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Convolution, Turned

PADDING = 8  # channels and depths are padded to it
ALIGNMENT = 16  # bytes that a load brings at best
ROW_ALIGNMENT = 8  # bytes from which a product loses nothing
SMALL_TILE = 64  # the side of the smallest tile
SPLIT_DEPTH = 256  # no part of a split sum is shorter
FAST_GROUPS = 32
TENSOR_JOULES = 1 / 6  # energy of a FLOP on tensor cores, of a float32 one's: an assumption
# What these kernels, written for Ampere's instructions, reach on Hopper of what they would by Ampere's share: medians of
# lengths from 512 to 4096 (batch 4, 12 heads of 64) on an H100 (torch 2.11; records/measured/h100_kernels.json).
HOPPER_ATTENTION, HOPPER_SPLIT_ATTENTION = 0.54, 0.22
UNALIGNED = 0.5
GEFORCE_CLOCK = 1.12  # GeForce cards clock so far above the data sheet's boost, others do not: an assumption


class Work(NamedTuple):
    """What a kernel does, and the names of the fitted constants that say how fast."""

    rates: tuple[str, ...]  # shares of the peak, multiplied
    flops: float
    edges: tuple[tuple[str, float], ...]  # each adds its constant ÷ this
    memory: str  # share of the bandwidth
    bytes: float
    layout: tuple[tuple[str, float], ...] = ()  # each adds its constant × these bytes at the full bandwidth
    on_tensor_cores: bool = True
    least_flops: float = 0.0  # fewer take no less time

    def sized(self) -> Work:
        """Without edges where there is nothing to compute: their sizes may be zero."""
        return self if self.flops else self._replace(edges=())


def busy_s(work: Work, card: Card, dtype: str, known: dict):
    """Seconds of ``work`` on ``card`` with the constants ``known``; numbers in ``work`` may be arrays."""
    if work.on_tensor_cores:
        rate = card.peak_flops[dtype] * (known.get("math") or sustained_share(card, known))
    else:
        rate = card.peak_flops["float32"]
    bandwidth = card.bandwidth_bytes_per_s * known["bandwidth"]
    flops = work.flops
    for name, size in work.edges:
        flops = flops * (1 + known[name] / size)
    flops = (flops + work.least_flops + abs(flops - work.least_flops)) / 2  # the larger, also of arrays
    math_s = flops / rate
    for name in work.rates:
        math_s = math_s / known[name]
    memory_s = work.bytes / (bandwidth * known[work.memory])
    total = (math_s * math_s + memory_s * memory_s) ** 0.5
    for name, size in work.layout:
        total = total + known[name] * size / bandwidth
    return total


def sustained_share(card: Card, known: dict) -> float:
    """Share of the tensor cores' peak that large products sustain, by the law of :func:`products.sustained_share`."""
    power = card.power_w - constants("products")["idle_w_per_sm"] * card.sm_count
    joules = constants("products")["joules_per_flop_nm"] * TENSOR_JOULES * card.process_nm
    nominal = card.peak_flops["float16"] * products.nominal_flops(card) / card.peak_flops["float32"]
    fed = known["fed"] if "GeForce" in card.name else known["fed"] / GEFORCE_CLOCK
    return (fed**-8 + (power / joules / nominal) ** -8) ** (-1 / 8)


def product_constants(card: Card, known: dict, full_rate: bool) -> dict:
    """What :func:`products.start_and_busy_s` takes. Large products sustain the card's own share of the peak where they were
    measured by themselves, else one by the constants ``known`` of whole networks."""
    own = constants("half_products", card.fit_key)
    share = own.get("rate_share") or (known.get("math") or sustained_share(card, known)) * known["product"]
    return {**own, "rate_share": share if full_rate else share * UNALIGNED}


def _found(work: Work, card: Card, dtype: str) -> tuple[float, float]:
    known = constants("tensor_cores", card.fit_key)
    return known["start_s"], busy_s(work.sized(), card, dtype, known)


def _faster(work: Work, in_float32, card: Card, dtype: str) -> tuple[float, float]:
    """Of ``work``; of the same problem ``in_float32`` where the card has no such tensor cores, and where that takes less in
    TF32: a program that allows it allows the library its float32 kernels still."""
    if not has(card, dtype):
        return in_float32.start_and_busy_s(card, "float32")
    return _or_in_float32(_found(work, card, dtype), in_float32, card, dtype)


def _or_in_float32(found: tuple[float, float], in_float32, card: Card, dtype: str) -> tuple[float, float]:
    return min(found, in_float32.start_and_busy_s(card, "float32"), key=sum) if dtype == "tf32" else found


def has(card: Card, dtype: str) -> bool:
    """Whether ``card`` has a rate for ``dtype`` that is not float32's."""
    return dtype != "float32" and dtype in card.peak_flops


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


def _least_flops(card: Card, rows: int, columns: int, depth: int) -> float:
    """FLOPs of a smallest tile on every SM, with its part of the sum where few tiles share out their sums."""
    tiles = -(-rows // SMALL_TILE) * -(-columns // SMALL_TILE)
    part = max(min(depth, SPLIT_DEPTH), depth * min(1.0, tiles / card.sm_count))
    return 2.0 * SMALL_TILE * SMALL_TILE * part * card.sm_count


@dataclass(frozen=True, slots=True)
class Product:
    """A product of matrices, on tensor cores where the dtype is one of theirs. ``aligned``: whether the rows of all three
    begin at multiples of 8 bytes; else its layout changes nothing."""

    of: products.Product
    aligned: bool = True

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        if not has(card, dtype):
            return self.of.start_and_busy_s(card, "float32")
        known = product_constants(card, constants("tensor_cores", card.fit_key), self.full_rate)
        found = products.start_and_busy_s(self.padded, card, known, self.of.matrices > 1, dtype=dtype)
        return _or_in_float32(found, self.of, card, dtype)

    @property
    def full_rate(self) -> bool:
        """Whether its layout lets tensor cores work at their full rate."""
        return self.aligned or min(self.of.rows, self.of.columns, self.of.depth) < PADDING

    @property
    def padded(self) -> products.Product:
        """What tensor cores compute of it."""
        return replace(self.of, columns=_padded(self.of.columns), depth=_padded(self.of.depth))


@dataclass(frozen=True, slots=True)
class Attention:
    """Fused attention: ``flops`` of its products, ``size`` bytes read and written. In float32 the memory-efficient kernel
    makes each product of three in TF32, where the card has that (ATen, transformers/cuda/mem_eff_attention/
    gemm_kernel_utils.h, ``OpMultiplyAddFastF32``)."""

    flops: float
    size: float
    masked: bool
    blocks: int

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        split = dtype in ("float32", "tf32") and has(card, "tf32")
        flops = 3 * self.flops if split else self.flops
        if card.compute_capability >= (9, 0):
            share = HOPPER_SPLIT_ATTENTION if split else HOPPER_ATTENTION
            if self.masked:  # measured without a mask, which makes no kernel faster
                fitted = constants("tensor_cores")
                share = min(1.0, share * fitted["attention"] / fitted["attention_masked"])
            flops /= share
        return _found(replace(self, flops=flops).work(card, split or has(card, dtype)), card, "tf32" if split else dtype)

    def work(self, card: Card, on_tensor_cores: bool = True) -> Work:
        """Its work on ``card``."""
        flops = self.flops * max(1.0, card.sm_count / self.blocks)
        return Work(("attention_masked" if self.masked else "attention",), flops, (), "attention_memory", self.size,
                    on_tensor_cores=on_tensor_cores)


@dataclass(frozen=True)
class Pass:
    """One pass of a convolution, on tensor cores where the dtype is one of theirs."""

    of: Convolution

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        return _faster(self.work(card), self.of, card, dtype)

    def work(self, card: Card) -> Work:
        """Its work on ``card``."""
        shape = self.of
        x, w, y = (size * shape.element_bytes for size in shape.sizes)
        if shape.depthwise:
            return self._depthwise(float(x + w + y))
        gradient = shape.direction != FORWARD
        format = "nhwc" if shape.channels_last else "nchw"
        way = "gradient" if gradient else "forward"
        layout = tuple([(name, size) for name, size, _ in self.rewritten()])
        if shape.groups > 1:
            kind = "slow" if gradient and shape.channels_last and shape.groups < FAST_GROUPS else f"{way}_{format}"
            return Work((f"grouped_{kind}",), 2.0 * shape.multiply_adds,
                        ((f"grouped_{kind}_edge", shape.channels_in // shape.groups),), "grouped_memory", float(x + w + y),
                        layout)
        taps = prod(shape.window)
        positions = shape.batch * prod(shape.size_out)
        channels_in, channels_out = shape.channels_in, shape.channels_out
        rates = ["window" if taps > 1 else "pointwise"]
        if format == "nchw":
            rates.append("nchw")
        rows, columns = self.rows_and_columns
        if shape.direction == FORWARD:
            depth = channels_in * taps
        elif shape.direction == INPUT_GRADIENT:
            depth = channels_out * taps
            if taps > 1 and max(shape.stride) > 1:
                rates.append("strided_gradient")
        else:
            depth = positions
            rates.append("weight_gradient")
        flops = 2.0 * positions * _padded(channels_in) * _padded(channels_out) * taps
        edges = (("edge", rows), ("edge", columns), ("fill", depth))
        return Work(tuple(rates), flops, edges, "convolution_memory", float(x + w + y), layout,
                    least_flops=_least_flops(card, rows, columns, depth))

    def rewritten(self) -> list[tuple[str, int, Turned]]:
        """What cuDNN rewrites for its kernels: the constant that says for how long, times these bytes, and which tensor. In
        contiguous order that turns the images, and pads them by the way; else those are padded whose channels do not fill
        16 bytes."""
        shape = self.of
        if shape.depthwise:
            return []
        input_first = shape.direction != INPUT_GRADIENT
        way = "forward" if shape.direction == FORWARD else "gradient"
        if not shape.channels_last:
            kind = way
            if shape.groups > 1:
                kind = f"grouped_{way}"
            elif shape.direction == WEIGHT_GRADIENT:
                kind = "weight"
            names = (f"{kind}_input_layout", f"{kind}_output_layout")
            return [(name, turned.size, turned)
                    for name, turned in zip(names if input_first else names[::-1], shape.turned())]
        if shape.groups > 1:
            return []
        found, together = [], ALIGNMENT // shape.element_bytes
        channels = (shape.channels_in, shape.channels_out)
        for count, turned in zip(channels if input_first else channels[::-1], shape.turned()):
            padded = -(-count // together) * together
            if padded != count:
                name = "nhwcAddPaddingKernel" if turned.before else "nhwcRemovePaddingKernel"
                wide = turned._replace(name=name, size=turned.size // count * padded)
                found.append((f"{way}_padding", turned.size + wide.size, wide))
        return found

    @property
    def rows_and_columns(self) -> tuple[int, int]:
        """Of the result, as of a product of matrices."""
        shape = self.of
        if shape.direction == FORWARD:
            return shape.batch * prod(shape.size_out), shape.channels_out
        if shape.direction == INPUT_GRADIENT:
            return shape.batch * prod(shape.size_in), shape.channels_in
        return shape.channels_out, shape.channels_in * prod(shape.window)

    def _depthwise(self, size: float) -> Work:
        shape = self.of
        kind = {FORWARD: "forward", INPUT_GRADIENT: "input"}.get(shape.direction, "weight")
        name = f"depthwise_{kind}_{'nhwc' if shape.channels_last else 'nchw' if _cudnn_takes(shape) else 'aten'}"
        return Work((name,), 2.0 * shape.multiply_adds, (), f"{name}_memory", size, on_tensor_cores=False)


def _cudnn_takes(shape: Convolution) -> bool:
    """ATen's rule for depthwise convolutions in float16 and contiguous order, in batches."""
    if len(shape.window) != 2 or shape.window[0] != shape.window[1] or shape.window[0] not in (1, 3, 5):
        return False
    width, channels = shape.size_in[1], shape.channels_in
    if shape.element_bytes != 2 or width < 7 or channels < 32 or max(shape.dilation) > 1:
        return False
    if max(shape.stride) == 1:
        return True
    return max(shape.stride) == 2 and shape.window[0] > 1 and (channels >= 512 or (channels >= 256 and width >= 28))
