"""The known wrong answers of lesson 01, by exercise; the functions as handed out are among them."""

from __future__ import annotations

from .mistaken_choices import BATCHES, IDLE
from .mistaken_shares import EFFICIENCY, OCCUPIED, UTILIZATION
from .mistaken_tables import MEMORY, OPERATORS, SOURCES

MISTAKES = {
    "gpu_utilization": UTILIZATION,
    "sm_efficiency": EFFICIENCY,
    "achieved_occupancy": OCCUPIED,
    "choose_batch_size": BATCHES,
    "top_operators": OPERATORS,
    "memory_by_operator": MEMORY,
    "source_of": SOURCES,
    "why_idle": IDLE,
}
