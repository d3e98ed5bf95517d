"""Lesson 01: a tour of the profiler. What its views show is computed from the trace.

After "What's New in PyTorch Profiler 1.9" (PyTorch blog, 2021): its views, and its example, ResNet-50 with batch 4 against
32; the code is ours.
"""

from __future__ import annotations

from collections.abc import Callable

from ...course.exercise import Lesson, Program
from . import stage
from .achieved_occupancy.exercise import EXERCISE as ACHIEVED_OCCUPANCY
from .choose_batch_size.exercise import EXERCISE as CHOOSE_BATCH_SIZE
from .gpu_utilization.exercise import EXERCISE as GPU_UTILIZATION
from .memory_by_operator.exercise import EXERCISE as MEMORY_BY_OPERATOR
from .quick import QUICK
from .sm_efficiency.exercise import EXERCISE as SM_EFFICIENCY
from .source_of.exercise import EXERCISE as SOURCE_OF
from .top_operators.exercise import EXERCISE as TOP_OPERATORS
from .why_idle.exercise import EXERCISE as WHY_IDLE
from .workload import training_step

EXERCISES = (GPU_UTILIZATION, SM_EFFICIENCY, ACHIEVED_OCCUPANCY, CHOOSE_BATCH_SIZE, WHY_IDLE, TOP_OPERATORS,
             MEMORY_BY_OPERATOR, SOURCE_OF)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """A training step with larger and larger batches. There is nothing to fix: ``fixed`` is not used."""

    def program(batch_size: int, article: str) -> Program:
        return Program(f"batch {batch_size}", lambda device: training_step(batch_size, device), article, samples=batch_size)

    return [program(4, "the start"), program(8, "—"), program(16, "—"), program(32, "GPU utilisation +60.68 points")]


LESSON = Lesson(
    id="01_profiler_tour",
    title="A tour of the profiler",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=lambda device: "ResNet-50, images of 3×224×224, float32",
    article="batch 4 → 32, PyTorch 1.9",
    imported_late=(),
    quick=QUICK,
)
