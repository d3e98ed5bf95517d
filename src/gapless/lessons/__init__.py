"""The lessons: their workloads, exercises, checks and points."""

from ..course.exercise import Exercise, Lesson, full_size
from .capstone.lesson import LESSON as _CAPSTONE
from .convolutions.lesson import LESSON as _CONVOLUTIONS
from .data_loading.lesson import LESSON as _DATA_LOADING
from .data_parallel.lesson import LESSON as _DATA_PARALLEL
from .kernel_fusion.lesson import LESSON as _KERNEL_FUSION
from .launch_overhead.lesson import LESSON as _LAUNCH_OVERHEAD
from .masked_loss.lesson import LESSON as _MASKED_LOSS
from .memory.lesson import LESSON as _MEMORY
from .metric_collection.lesson import LESSON as _METRIC_COLLECTION
from .profiler_tour.lesson import LESSON as _PROFILER_TOUR
from .two_clocks.lesson import LESSON as _TWO_CLOCKS

# `gapless new-lesson` adds a line here, and one to the imports above.
_ALL = (
    _CAPSTONE,
    _CONVOLUTIONS,
    _DATA_LOADING,
    _DATA_PARALLEL,
    _KERNEL_FUSION,
    _LAUNCH_OVERHEAD,
    _MASKED_LOSS,
    _MEMORY,
    _METRIC_COLLECTION,
    _PROFILER_TOUR,
    _TWO_CLOCKS,
)
LESSONS: dict[str, Lesson] = {lesson.id: lesson for lesson in sorted(_ALL, key=lambda lesson: lesson.id)}


class UnknownLesson(ValueError):
    """The id is no lesson of the course; the message lists those there are."""


def find_lesson(lesson_id: str) -> Lesson:
    """The lesson with this id, e.g. ``02_masked_loss``. Raises UnknownLesson."""
    try:
        return LESSONS[lesson_id]
    except KeyError:
        raise UnknownLesson(f"no lesson is called {lesson_id!r}; the course has {', '.join(LESSONS)}") from None


__all__ = ["Exercise", "LESSONS", "Lesson", "UnknownLesson", "find_lesson", "full_size"]
