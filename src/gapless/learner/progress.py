"""How far the learner has come, as a table: in a notebook and in a terminal.

Each bar has its number and its word beside it: nothing depends on colour alone.
"""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass

from .progress_file import Record, read_progress

_WIDTH = 12


def bar(earned: float, points: float, width: int = _WIDTH) -> str:
    """``[####........]``: full only when all points are earned, empty only when none is."""
    share = earned / points if points else 0.0
    filled = width if share >= 1 else min(max(int(share * width), 1 if earned > 0 else 0), width - 1)
    return f"[{'#' * filled}{'.' * (width - filled)}]"


@dataclass(frozen=True)
class ExerciseProgress:
    """One exercise: its ``points`` as the lesson gives them now, and what was recorded."""

    name: str
    points: float
    record: Record

    @property
    def best(self) -> float:
        return min(self.record.best, self.points)

    @property
    def state(self) -> str:
        """``done``, ``started`` or ``not started``."""
        if self.best >= self.points and self.record.attempts:
            return "done"
        return "started" if self.record.attempts or self.record.hints else "not started"

    @property
    def remarks(self) -> str:
        """How often it was checked, with how many hints; the last result where an earlier one was better."""
        record, parts = self.record, []
        if record.attempts:
            parts.append(f"{record.attempts} check{'s' * (record.attempts != 1)}")
        if record.hints:
            parts.append(f"{record.hints} hint{'s' * (record.hints != 1)}")
        if record.last < record.best:
            parts.append(f"last time {record.last:g}")
        return ", ".join(parts)


@dataclass(frozen=True)
class LessonProgress:
    """One lesson and its exercises."""

    id: str
    title: str
    exercises: tuple[ExerciseProgress, ...]

    @property
    def best(self) -> float:
        return math.fsum(exercise.best for exercise in self.exercises)

    @property
    def points(self) -> float:
        return math.fsum(exercise.points for exercise in self.exercises)

    @property
    def state(self) -> str:
        states = {exercise.state for exercise in self.exercises}
        return states.pop() if len(states) == 1 else "started"


@dataclass(frozen=True)
class Progress:
    """The points recorded on this computer; shows itself in a notebook and in a terminal.

    ``remark``: what is wrong with the file that they are from, or ''.
    """

    lessons: tuple[LessonProgress, ...]
    remark: str = ""

    @property
    def best(self) -> float:
        return math.fsum(lesson.best for lesson in self.lessons)

    @property
    def points(self) -> float:
        return math.fsum(lesson.points for lesson in self.lessons)

    def to_json(self) -> dict:
        """Plain JSON types."""
        return {"best": self.best, "points": self.points, "remark": self.remark, "lessons": [
            {"id": lesson.id, "title": lesson.title, "best": lesson.best, "points": lesson.points, "state": lesson.state,
             "exercises": [asdict(each.record) | {"name": each.name, "best": each.best, "points": each.points,
                                                  "state": each.state} for each in lesson.exercises]}
            for lesson in self.lessons]}

    def _rows(self):
        """(level, name, title or remarks, best, points, state) of each line."""
        for lesson in self.lessons:
            yield 0, lesson.id, lesson.title, lesson.best, lesson.points, lesson.state
            for each in lesson.exercises:
                yield 1, each.name, each.remarks, each.best, each.points, each.state
        if len(self.lessons) > 1:
            yield 0, "the course", "", self.best, self.points, ""

    def __str__(self) -> str:
        rows = list(self._rows())
        width = max((len(name) + 2 * level for level, name, *_ in rows), default=0)
        lines = []
        for level, name, text, best, points, state in rows:
            if level == 0 and lines:
                lines.append("")
            lines.append(f"{'  ' * level + name:<{width}}  {bar(best, points)} {best:>4g} of {points:<4g} {state:<9}  {text}"
                         .rstrip())
        return "\n".join([*lines, *(["", self.remark] if self.remark else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "text-align:left;padding:3px 10px"
        rows = []
        for level, name, text, best, points, state in self._rows():
            weight = "normal" if level else "bold"
            indent = f"padding-left:{10 + 18 * level}px"
            rows.append(
                f'<tr><th scope="row" style="{cell};{indent};font-weight:{weight}">{html.escape(name)}</th>'
                f'<td style="{cell}">{_html_bar(best, points)}</td><td style="{cell}">{best:g} of {points:g}</td>'
                f'<td style="{cell}">{state}</td><td style="{cell}">{html.escape(text)}</td></tr>')
        head = "".join(f'<th scope="col" style="{cell}">{name}</th>'
                       for name in ("lesson, exercise", "bar", "points", "state", ""))
        remark = f"<p>{html.escape(self.remark)}</p>" if self.remark else ""
        return (f"<div><table><caption style=\"text-align:left\">The best points so far, on this computer</caption>"
                f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{remark}</div>")


def _html_bar(best: float, points: float) -> str:
    share = min(best / points, 1.0) if points else 0.0
    return (f'<div role="img" aria-label="{best:g} of {points:g} points" style="width:120px;height:10px;'
            f'border:1px solid currentColor"><div style="width:{100 * share:.0f}%;height:100%;background:currentColor">'
            "</div></div>")


def progress(lesson_id: str | None = None) -> Progress:
    """The progress in the whole course, or in one lesson. Raises UnknownLesson."""
    from ..lessons import LESSONS, find_lesson  # here, not above: a program that only measures does not have to load them

    wanted = [find_lesson(each) for each in (LESSONS if lesson_id is None else [lesson_id])]
    records, remark = read_progress()
    return Progress(tuple(
        LessonProgress(lesson.id, lesson.title, tuple(
            ExerciseProgress(name, exercise.max_points, records.get(lesson.id, {}).get(name, Record()))
            for name, exercise in lesson.exercises.items()))
        for lesson in wanted), remark)
