"""A class as CSV. Cells that a spreadsheet would take for a formula are made text by an apostrophe before them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from .facts import ClassFacts

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def harmless(value: object) -> object:
    """``value``; text that begins as a spreadsheet's formula does, with an apostrophe before it. None is an empty cell."""
    if value is None:
        return ""
    return f"'{value}" if is_formula(value) else value


def is_formula(value: object) -> bool:
    """Whether a spreadsheet might compute ``value`` instead of showing it."""
    return isinstance(value, str) and value.lstrip(" \n").startswith(_FORMULA)


def written(rows: Iterable[Iterable[object]]) -> bytes:
    """The CSV of ``rows``, every cell made harmless, in UTF-8."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([harmless(value) for value in row] for row in rows)
    return table.getvalue().replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")


def tables(facts: ClassFacts) -> dict[str, bytes]:
    """Name → CSV: ``points`` (a line for each student and exercise), ``submissions`` (a line for each student and lesson),
    ``causes`` and ``alike``."""
    points: list[list] = [["lesson", "student", "name", "exercise", "points", "max_points", "auto_points", "by_hand"]]
    submissions: list[list] = [["lesson", "student", "name", "in_gradebook", "state", "reason", "raw_score", "late_s",
                                "late_penalty", "score", "max_score", "device", "confinement", "gapless", "torch",
                                "seed_hex"]]
    causes: list[list] = [["lesson", "exercise", "students", "message", "who"]]
    alike: list[list] = [["lesson", "exercise", "least_share", "most_share", "who"]]
    for lesson in facts.lessons:
        for row in lesson.rows:
            person, standing, grading = row.person, row.standing, row.grading
            versions = grading.get("versions") if isinstance(grading.get("versions"), dict) else {}
            # As text: a spreadsheet rounds numbers of 20 digits.
            seed = f"{seed:#x}" if isinstance(seed := grading.get("seed"), int) else seed
            submissions.append([lesson.id, person.id, person.name, int(person.on_roster), standing.state, standing.reason,
                                row.raw, row.late_s, row.penalty if row.raw is not None else None, row.score,
                                lesson.max_score, grading.get("device"), grading.get("confinement"),
                                versions.get("gapless"), versions.get("torch"), seed])
            for name, mark in row.marks.items():
                points.append(
                    [
                        lesson.id,
                        person.id,
                        person.name,
                        name,
                        mark.score,
                        lesson.most.get(name),
                        mark.auto,
                        int(mark.by_hand),
                    ]
                )
        causes += [[lesson.id, each.exercise, len(each.who), each.example, "; ".join(each.who)] for each in lesson.causes]
        alike += [
            [lesson.id, exercise, round(group.least, 3), round(group.most, 3), "; ".join(group.who)]
            for exercise, groups in lesson.alike.items()
            for group in groups
        ]
    return {
        "points": written(points),
        "submissions": written(submissions),
        "causes": written(causes),
        "alike": written(alike),
    }
