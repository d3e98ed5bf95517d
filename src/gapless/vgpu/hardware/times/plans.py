"""The plans that cuDNN has for a convolution, in the order in which its heuristic thinks them fast.

A plan is one engine of cuDNN's: the kernels that it runs, and in how much memory. Without ``torch.backends.cudnn.benchmark``
the first runs whose workspace fits, with it the fastest of the first ``benchmark_limit`` (:mod:`...core.tuning`).

**The heuristic is an assumption**: NVIDIA publishes none, and the times that this model was fitted to are the autotuner's.
Assumed: it knows how fast each plan is, except that it does not trust fused Winograd where layers are narrow, and takes it
there for no faster than the implicit GEMM. So much is seen from outside: cuDNN 5 took the precomputed GEMM for 3×3
convolutions of less than 48 channels where Winograd was faster (github.com/nagadomi/waifu2x, issue 122); and NVIDIA's own
example of a gain, 64 filters of 3×3 on 32×64×64×64, is such a layer: forward 1430 → 840 µs, "gains mostly forward" (Szymon
Migacz, *PyTorch performance tuning guide*, ECCV 2020). The model gives 1.4 to 1.5 there forward, as much for the input's
gradient and 1 for the weight's: of several rules this one was chosen because it does, so that example is no test of it.
Today's cuDNN ranks its engines by mode A, which is fast, or B, which is more accurate and takes the host longer (NVIDIA,
*cuDNN frontend*, "Graphs", "Heuristics"); PyTorch asks for ``INSTANT``, A's older name, also for the plans that it tries,
and for B where ``TORCH_CUDNN_USE_HEURISTIC_MODE_B`` is set (ATen, ``ConvUtils.h``, ``cudnn/Conv_v8.cpp``). What these choose
otherwise than cuDNN 7 has not been measured here. On tensor cores the heuristic is taken to be right.

**On tensor cores** the fitted time is the fastest tile's. Other tiles, which trial runs try too, take as much longer as they
compute without effect: at the edges of the result, and in a last wave that leaves SMs idle. Assumed.

**In contiguous order** such kernels work in channels-last order all the same (NVIDIA, *cuDNN developer guide*, "Tensor
transformations"): kernels run before and after them that turn the images, together as long as the fit found that this order
costs. The split is assumed; in half precision the fit gives the forward pass less than a real transposition takes, as cuDNN
also has kernels that need none. What they write is workspace. In float32 it is the other way round.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cards.fitted import constants
from ..cards.specs import Card
from . import tensor_cores
from .convolutions import Algorithm, Convolution, Turned, engines, turning_s

WIDE = 128  # channels, in and out, from which the heuristic trusts fused Winograd: an assumption
TILES = ((256, 128), (128, 128), (128, 64), (64, 64))  # of tensor cores' kernels, positions × channels


class Part(NamedTuple):
    """One kernel of a plan. ``turns``: bytes that it brings into another memory format; 0: the convolution itself."""

    name: str
    start_s: float
    busy_s: float
    turns: int = 0

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """On the card that the plan was made for."""
        return self.start_s, self.busy_s


class Plan(NamedTuple):
    """One way to compute a convolution. ``dtype``: what it computes in."""

    engine: str
    dtype: str
    parts: tuple[Part, ...]
    workspace_bytes: int

    @property
    def seconds(self) -> float:
        """Of all its kernels."""
        return sum(part.start_s + part.busy_s for part in self.parts)


def plans(problem: Convolution | tensor_cores.Pass, card: Card, dtype: str) -> list[Plan]:
    """The plans for ``problem`` in ``dtype`` on ``card``, the heuristic's choice first."""
    shape = problem.of if isinstance(problem, tensor_cores.Pass) else problem
    found = []
    if isinstance(problem, tensor_cores.Pass) and tensor_cores.has(card, dtype):
        found = _on_tensor_cores(problem, card, dtype)
    if not found or dtype == "tf32":  # a program that allows it allows the library its float32 kernels still
        in_float32 = [_in_float32(shape, one, card, dtype) for one in engines(shape, card)]
        found += in_float32
        if min(shape.channels_in, shape.channels_out) < WIDE:
            plain_s = min((plan.seconds for plan in in_float32 if plan.engine.startswith("implicit_gemm")), default=0.0)
            return sorted(found, key=lambda plan: (max(plan.seconds, plain_s), True) if plan.engine.startswith("winograd ")
                          else (plan.seconds, False))
    return sorted(found, key=lambda plan: plan.seconds)


def without_workspace(problem: Convolution | tensor_cores.Pass, card: Card, dtype: str) -> Plan:
    """What computes ``problem`` where the memory has no room for another plan: no tensor cores, nothing turned."""
    shape = problem.of if isinstance(problem, tensor_cores.Pass) else problem
    return min((_plain(one, dtype) for one in engines(shape, card) if not one.workspace_bytes),
               key=lambda plan: plan.seconds)


def _in_float32(shape: Convolution, one: Algorithm, card: Card, dtype: str) -> Plan:
    turned = shape.turned() if shape.channels_last else []
    return _between(_plain(one, dtype), [(each, turning_s(each, card)) for each in turned], card)


def _plain(one: Algorithm, dtype: str) -> Plan:
    dtype = "float32" if dtype == "tf32" else dtype
    return Plan(one.name, dtype, (Part(one.name, one.start_s, one.seconds - one.start_s),), one.workspace_bytes)


def _between(plan: Plan, rewritten: list[tuple[Turned, float]], card: Card) -> Plan:
    """``plan`` between kernels that rewrite its images, each so many seconds or as long as the shortest kernel."""
    least_s = card.kernel_floor_ns / 1e9
    before, after = ([Part(each.name, 0.0, max(busy_s, least_s), each.size)
                      for each, busy_s in rewritten if each.before is first] for first in (True, False))
    return plan._replace(parts=(*before, *plan.parts, *after),
                         workspace_bytes=plan.workspace_bytes + sum(each.size for each, _ in rewritten))


def _on_tensor_cores(problem: tensor_cores.Pass, card: Card, dtype: str) -> list[Plan]:
    known = constants("tensor_cores", card.fit_key)
    bandwidth = card.bandwidth_bytes_per_s * known["bandwidth"]
    work = problem.work(card)._replace(layout=()).sized()
    rewritten = [(turned, known[name] * size / bandwidth) for name, size, turned in problem.rewritten()]
    found = []
    for tile, lost in _losses(problem, card, work.on_tensor_cores):
        busy = tensor_cores.busy_s(work._replace(flops=work.flops * lost, least_flops=work.least_flops * lost), card, dtype,
                                   known)
        found.append(_between(Plan(tile, dtype, (Part(tile, known["start_s"], busy),), 0), rewritten, card))
    return found


def _losses(problem: tensor_cores.Pass, card: Card, on_tensor_cores: bool) -> list[tuple[str, float]]:
    """Each tile and how many times as much it computes as the one that computes least."""
    if not on_tensor_cores or problem.of.groups > 1:
        return [("depthwise" if problem.of.depthwise else "grouped", 1.0)]
    rows, columns = problem.rows_and_columns
    found = []
    for m, n in TILES:
        tiles = -(-rows // m) * -(-columns // n)
        found.append((f"implicit_gemm {m}x{n}", tiles * m * n * (-(-tiles // card.sm_count) * card.sm_count / tiles)))
    least = min(computed for _, computed in found)
    return [(name, computed / least) for name, computed in found]
