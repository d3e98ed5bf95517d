"""An exercise's annotated solution: ``solution.md`` in its folder, or what the exercise makes itself."""

from __future__ import annotations

from importlib import resources

from .exercise import Lesson


def annotated_solution(lesson: Lesson, name: str) -> str:
    """The text, as Markdown. Raises FileNotFoundError where the lesson has none."""
    exercise = lesson.exercises[name]
    if exercise.teaching.solution is not None:
        return exercise.teaching.solution()
    package = exercise.slow.__module__.rpartition(".")[0]
    return (resources.files(package) / "solution.md").read_text(encoding="utf-8")
