"""Idioms of training programs and how often each makes the host wait on CUDA: the table behind the census.

    >>> from gapless.fidelity.idioms import IDIOMS
    >>> IDIOMS["x[mask]"].waits, IDIOMS["x[mask]"].reason
"""

from .bag import Bag, Idiom
from .compiled import COMPILED
from .free import FREE
from .launches import LAUNCHES
from .memory import MEMORY
from .vision import VISION
from .waiting import WAITING

__all__ = ["IDIOMS", "Bag", "Idiom"]

TABLES = (WAITING, FREE, LAUNCHES, VISION, MEMORY, COMPILED)
IDIOMS: dict[str, Idiom] = {idiom.name: idiom for table in TABLES for idiom in table}
assert len(IDIOMS) == sum(map(len, TABLES)), "two idioms have one name"
