"""The fit of :mod:`gapless.vgpu.hardware.times.tensor_cores` and :mod:`.feature_maps` to whole networks of timm.

Each network's step is run once on the virtual GPU, without values and with a host that costs nothing, and leaves a list:
which kernels, how often. Kernels of other models keep their times. Then the constants are those with the least squares of
log(predicted ÷ measured) over the steps, large deviations counted linearly. Shares of the bandwidth stay below
``MOST_MEMORY``: no kernel moves more. What no step tells stays where the search started.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import contextmanager

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import csr_matrix

from ... import vgpu
from ...vgpu.core import tuning
from ...vgpu.hardware.cards.specs import CARDS
from ...vgpu.hardware.kernels import costs, feature_maps
from ...vgpu.hardware.times import tensor_cores
from ...vgpu.hardware.times.plans import Part
from .. import networks
from ..measured import Network
from ..predict import NO_HOST, card_of
from .products import Rows

MODEL = "tensor_cores"
SOURCE = "timm's published benchmarks (Apache-2.0), records/measured/timm.csv: uncompiled, float16 under autocast"
ROWS = Network

SAMPLE = 1500  # rows that the search uses
STEEPNESS = 0.08  # of the loss: a relative error above it counts about in proportion, not squared
PRIOR = 0.1  # weight of the logarithm of each constant over its start
MOST_MEMORY, WIDEST = 0.95, 20.0  # the largest share of the bandwidth; how far from its start a constant may go
MOST_CLOCK = 1.05  # a card's own factor on shares of bandwidth or peak
# The paddings were fitted alone, to the networks that have them: see :mod:`.tensor_cores` in the times.
FIXED = {"bandwidth": 1.0, "forward_padding": 0.4, "gradient_padding": 4.5}
_MEMORY = {
    "attention_memory": 0.9, "convolution_memory": 0.9, "grouped_memory": 0.7,
    "batch_norm_nchw": 0.9, "batch_norm_nhwc": 0.85, "batch_norm_evaluation_nchw": 0.8, "batch_norm_evaluation_nhwc": 0.9,
    "batch_norm_backward_nchw": 0.65, "batch_norm_backward_nhwc": 0.85, "group_norm": 0.7, "group_norm_backward": 0.7,
    "pooling_nchw": 0.6, "pooling_nhwc": 0.6, "pooling_backward_nchw": 0.4, "pooling_backward_nhwc": 0.4,
    "resizing": 0.3, "layout": 0.4,
    **{f"depthwise_{what}_{where}_memory": share for what, share in (("forward", 0.8), ("input", 0.5), ("weight", 0.5))
       for where in ("nhwc", "nchw", "aten")},
}
START = {
    **_MEMORY, "start_s": 2e-6, "product": 1.1, "attention": 0.8,
    "attention_masked": 0.5, "pointwise": 1.1, "window": 1.1, "nchw": 0.9, "strided_gradient": 0.5, "weight_gradient": 0.9,
    "edge": 30.0, "fill": 5.0,
    "grouped_forward_nhwc": 0.9, "grouped_forward_nhwc_edge": 8.0, "grouped_forward_nchw": 0.9,
    "grouped_forward_nchw_edge": 20.0, "grouped_gradient_nhwc": 0.3, "grouped_gradient_nhwc_edge": 1.0,
    "grouped_gradient_nchw": 0.8, "grouped_gradient_nchw_edge": 3.0, "grouped_slow": 0.065, "grouped_slow_edge": 40.0,
    "forward_input_layout": 1.0, "forward_output_layout": 0.2, "gradient_input_layout": 0.5, "gradient_output_layout": 0.5,
    "weight_input_layout": 4.0, "weight_output_layout": 1.0, "grouped_forward_input_layout": 1.0,
    "grouped_forward_output_layout": 1.0, "grouped_gradient_input_layout": 5.0, "grouped_gradient_output_layout": 5.0,
    **{f"depthwise_{what}_{where}": share for what, share in (("forward", 0.15), ("input", 0.12), ("weight", 0.08))
       for where in ("nhwc", "nchw", "aten")},
}
_OURS = (tensor_cores.Product, tensor_cores.Attention, tensor_cores.Pass)


@contextmanager
def _counted():
    """Inside, what is launched is counted: (problem, dtype) → how often, and → ns. A convolution is one problem, whatever
    kernels its plan has."""
    counts, took_ns, of, chosen = Counter(), {}, costs.Kernel.duration_and_share, tuning.chosen

    def count(kernel, ns):
        counts[kernel.problem, kernel.dtype] += 1
        took_ns[kernel.problem, kernel.dtype] = ns

    def duration_and_share(kernel, card):
        found = of(kernel, card)
        if not isinstance(kernel.problem, Part):
            count(kernel, found[0])
        return found

    def chosen_and_counted(kernel, *trial):
        found = chosen(kernel, *trial)
        count(kernel, sum(of(part, vgpu.card())[0] for part in found))
        return found

    costs.Kernel.duration_and_share, tuning.chosen = duration_and_share, chosen_and_counted
    try:
        yield counts, took_ns
    finally:
        costs.Kernel.duration_and_share, tuning.chosen = of, chosen


class Steps:
    """Measured steps, as what the search needs of them: how often each kernel runs, and the time of all others."""

    def __init__(self, rows: Sequence[Network]):
        """Runs each of ``rows`` on the virtual GPU; those that the installed timm does not have are left out."""
        maker = networks.Maker()
        self.rows = [row for row in sorted(rows, key=networks.order) if not row.compiled and maker.has(row.model)]
        kernels: dict = {}
        places, rest = [], []
        for number, row in enumerate(self.rows):
            counts, rest_ns = self._kernels(maker, row)
            rest.append(rest_ns / 1e9)
            places += [(number, kernels.setdefault((row.card, *key), len(kernels)), count) for key, count in counts.items()]
        rows_of, columns, counts = zip(*places)
        self.counts = csr_matrix((counts, (rows_of, columns)), (len(self.rows), len(kernels)))
        self.rest_s, self.measured_s = np.array(rest), np.array([row.ms / 1e3 for row in self.rows])
        of_products = {key: place for key, place in kernels.items() if isinstance(key[1], tensor_cores.Product)}
        self._products = _products(of_products)
        self._groups = _grouped({key: place for key, place in kernels.items() if key not in of_products})

    @staticmethod
    def _kernels(maker, row: Network) -> tuple[Counter, int]:
        card = card_of(row.card, host=NO_HOST)
        with networks.as_measured():
            step = maker.step(row, vgpu.enable(card))
            step()  # makes gradients and momentum, and tunes
            vgpu.timeline().reset()
            with _counted() as (counts, took_ns):
                step()
            total_ns = vgpu.timeline().current.ready_ns
        ours, ours_ns = Counter(), 0
        for (problem, dtype), count in counts.items():
            if isinstance(problem, feature_maps.Traffic) or (isinstance(problem, _OURS) and tensor_cores.has(card, dtype)):
                ours[problem, dtype] += count
                ours_ns += count * took_ns[problem, dtype]
        return ours, total_ns - ours_ns

    def kernel_s(self, known: dict, own: dict) -> np.ndarray:
        """Seconds of each kernel with the constants ``known``, and those of each card in ``own``."""
        found = np.empty(self.counts.shape[1])
        for (card, dtype, *_), (places, work) in self._groups.items():
            constants = {**known, **own.get(card, {})}
            found[places] = constants["start_s"] + tensor_cores.busy_s(work, CARDS[card], dtype, constants)
        for places, products, full_rate in self._products:
            constants = {**known, **own.get(products.card.key, {})}  # they tell only at what rate
            found[places] = products.predicted_s(tensor_cores.product_constants(products.card, constants, full_rate))
        return found

    def predicted_s(self, known: dict, own: dict, chosen=slice(None)) -> np.ndarray:
        """Seconds of the steps ``chosen``."""
        return self.rest_s[chosen] + self.counts[chosen] @ self.kernel_s(known, own)


def _products(kernels: dict) -> list[tuple[np.ndarray, Rows, bool]]:
    """Products of one card, dtype, layout and rate: their places, themselves as arrays, and whether at the full rate."""
    groups = defaultdict(list)
    for (card, problem, dtype), place in kernels.items():
        key = card, dtype, problem.of.matrices > 1, problem.of.element_bytes, problem.full_rate
        groups[key].append((place, problem.padded))
    found = []
    for (card, dtype, batched, element_bytes, full_rate), members in groups.items():
        places, products = zip(*members)
        sizes = {name: np.array([getattr(each, name) for each in products], float)
                 for name in ("matrices", "rows", "columns", "depth")}
        rows = Rows(CARDS[card], batched, **sizes, measured_s=np.zeros(len(places)), element_bytes=element_bytes,
                    dtype=dtype)
        found.append((np.array(places), rows, full_rate))
    return found


def _grouped(kernels: dict) -> dict:
    """Kernels whose times follow from the same constants: their places, and their work with arrays in it."""
    groups = defaultdict(list)
    for (card, problem, dtype), place in kernels.items():
        work = problem.work(CARDS[card])
        names = work.rates, tuple(name for name, _ in work.edges), work.memory, tuple(name for name, _ in work.layout)
        groups[card, dtype, *names, work.on_tensor_cores].append((place, work))
    found = {}
    for key, members in groups.items():
        places, works = zip(*members)
        edges, layout = (tuple((named[0][0], np.array([size for _, size in named], float))
                               for named in zip(*(getattr(work, part) for work in works))) for part in ("edges", "layout"))
        found[key] = np.array(places), works[0]._replace(
            flops=np.array([work.flops for work in works]), least_flops=np.array([work.least_flops for work in works]),
            bytes=np.array([work.bytes for work in works], float),
            edges=edges, layout=layout)
    return found


def sampled(rows: Sequence[Network], count: int = SAMPLE) -> list[Network]:
    """``count`` uncompiled rows, the same at every call."""
    rows = [row for row in rows if not row.compiled]
    return random.Random(0).sample(rows, min(count, len(rows)))


def fit(rows: Sequence[Network], leave_out: str | None = None) -> dict:
    """The ``shared`` constants, and for each card its ``math`` and ``bandwidth``: factors on the shares of its peak and of
    its bandwidth. Without the rows of the card ``leave_out``."""
    steps = Steps(sampled([row for row in rows if row.card != leave_out]))
    return constants(steps)


def constants(steps: Steps, chosen=slice(None)) -> dict:
    """The same from the steps ``chosen``."""
    cards = sorted({row.card for row in steps.rows})
    names = [*START, *(f"{what} {card}" for card in cards for what in ("math", "bandwidth"))]
    first = cards[0]
    start = np.log([*START.values(), *[1.0] * (2 * len(cards))])
    least, most = start - np.log(WIDEST), start + np.log(WIDEST)
    for place, name in enumerate(names):
        if name in _MEMORY:
            most[place] = np.log(MOST_MEMORY)
        elif " " in name:
            # Shares are those of the first card: its own factors are 1.
            narrow = 1e-6 if name.endswith(f" {first}") else np.log(MOST_CLOCK)
            least[place], most[place] = (-4 * narrow, narrow)
    measured = np.log(steps.measured_s[chosen])

    def split(values):
        found = dict(zip(names, np.exp(values).tolist()))
        own = {card: {what: found.pop(f"{what} {card}") for what in ("math", "bandwidth")} for card in cards}
        return {**FIXED, **found}, own

    def deviations(values):
        known, own = split(values)
        away = np.log(steps.predicted_s(known, own, chosen)) - measured
        return np.concatenate([away, PRIOR * (values - start)])

    begin = np.clip(start, least + 1e-9, most - 1e-9)
    shared, own = split(least_squares(deviations, begin, bounds=(least, most), loss="soft_l1", f_scale=STEEPNESS,
                                      max_nfev=40).x)
    shared["fed"] = float(np.mean([card["math"] for card in own.values()]))
    return {"shared": {name: float(f"{value:.4g}") for name, value in shared.items()},
            "cards": {card: {name: float(f"{value:.4g}") for name, value in found.items()} for card, found in own.items()}}
