"""How long kernels over feature maps take that memory holds back: normalisation by channel, pooling, changes of layout.

Each is its bytes at a share of the bandwidth, by kind and memory format; the shares are fitted to whole networks
(:mod:`gapless.fidelity.fit.networks`). Batch norm reads its input twice in training (statistics, then the
result) and once in evaluation; its backward reads input and gradient twice each.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fitted import constants
from .specs import Card
from .tensor_cores import Work, busy_s


@dataclass(frozen=True, slots=True)
class Traffic:
    """``size`` bytes moved by a kernel of a ``kind``, whose share of the bandwidth is the constant of that name."""

    kind: str
    size: float

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        known = constants("tensor_cores", card.fit_key)
        return known["start_s"], busy_s(self.work(card), card, "float32", known)

    def work(self, card: Card) -> Work:
        """Its work, on any card."""
        return Work((), 0.0, (), self.kind, self.size, on_tensor_cores=False)
