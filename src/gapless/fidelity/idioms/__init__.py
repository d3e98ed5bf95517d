"""Idioms of training programs and how often each makes the host wait on CUDA: the table behind the census.

    >>> from gapless.fidelity.idioms import IDIOMS
    >>> IDIOMS["x[mask]"].waits, IDIOMS["x[mask]"].reason
"""

import torch

from .bag import Bag, Idiom
from .compiled import COMPILED
from .free import FREE
from .launches import LAUNCHES
from .memory import MEMORY
from .vision import VISION
from .waiting import WAITING

__all__ = ["IDIOMS", "NOT_IN_2_11", "Bag", "Idiom"]

TABLES = (WAITING, FREE, LAUNCHES, VISION, MEMORY, COMPILED)
IDIOMS: dict[str, Idiom] = {idiom.name: idiom for table in TABLES for idiom in table}
# What PyTorch 2.11 does otherwise, as seen on an H100: it has no such kernel, or a copy back that blocks.
NOT_IN_2_11 = ("Adagrad(fused=True).step", "clip_grad_norm_ of a sparse gradient", "save_on_cpu, pinned")
assert len(IDIOMS) == sum(map(len, TABLES)), "two idioms have one name"
if torch.__version__.startswith("2.11."):
    for _name in NOT_IN_2_11:
        del IDIOMS[_name]
