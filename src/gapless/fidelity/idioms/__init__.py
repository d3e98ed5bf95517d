"""Idioms of training programs and how often each makes the host wait on CUDA: the table behind the census.

    >>> from gapless.fidelity.idioms import IDIOMS
    >>> IDIOMS["x[mask]"].waits, IDIOMS["x[mask]"].reason
"""

from .bag import Bag, Idiom
from .free import FREE
from .vision import VISION
from .waiting import WAITING

__all__ = ["IDIOMS", "Bag", "Idiom"]

IDIOMS: dict[str, Idiom] = {idiom.name: idiom for idiom in (*WAITING, *FREE, *VISION)}
assert len(IDIOMS) == len(WAITING) + len(FREE) + len(VISION), "two idioms have one name"
