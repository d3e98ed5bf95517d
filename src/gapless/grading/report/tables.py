"""A class as CSV."""

from __future__ import annotations

from ..spreadsheet import written
from .facts import ClassFacts


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
