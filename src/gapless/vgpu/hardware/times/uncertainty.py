"""By how much modelled times may miss: the share of them that 80 % of the measured times are within.

Of a kernel: by its kind, dtype and card, as others measured kernels of that kind (``fitted/uncertainty.json``). A card that
nobody measured gets twice the mean of the measured ones: cards left out of the fit of products needed 1.0 to 1.5 times their
own. Of a step: the mean of its kernels', weighted by their time, as if all missed in one direction; never less than what
whole steps missed, which also stands for the kinds that nobody measured alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..cards.fitted import constants
from ..cards.specs import Card

SHARE = 0.8  # of the measured times are within it


def of_kernel(card: Card, kind: str, dtype: str = "float32") -> float:
    """Of a kernel of ``kind`` that computes in ``dtype``, or of a ``collective``; a step's where nobody measured any."""
    known = constants("uncertainty", card.fit_key)
    return known.get(f"{kind}:{dtype}", known.get(kind, known["step"]))


def of_step(card: Card, kernels: Iterable[tuple[str, str, float]]) -> float:
    """Of all ``kernels`` together: (kind, dtype, how long it takes in any unit) each."""
    least = constants("uncertainty", card.fit_key)["step"]
    weighted = total = 0.0
    for kind, dtype, time in kernels:
        weighted += of_kernel(card, kind, dtype) * time
        total += time
    return max(least, weighted / total) if total else least
