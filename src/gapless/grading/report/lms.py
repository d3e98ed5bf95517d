"""The gradebook in the forms that Canvas and Moodle import.

Canvas, as in its guides "How do I import grades in the Gradebook?" and "How do I export grades in the Gradebook?":
the columns ``Student``, ``ID``, ``SIS User ID``, ``SIS Login ID``, ``Section``, then the assignments, which Canvas calls
``NAME (NUMBER)``; below the heads a line ``Points Possible``. Moodle, as in its documentation's pages "Grade import" (CSV: a
column that says who, and one for each grade) and "Using Assignment" (the *offline grading worksheet* of one assignment:
``Identifier``, ``Full name``, …, ``Grade``, ``Maximum Grade``). A score that there is not is an empty field.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from ...files import read_regular
from ..spreadsheet import harmless, is_formula
from .facts import ClassFacts, LessonFacts, NoClass, Person

CANVAS, MOODLE = "canvas", "moodle"
LARGEST_ROSTER = 20 * 2**20  # bytes
_CANVAS_WHO = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_POINTS_POSSIBLE = "points possible"
_NUMBERED = re.compile(r" \(\d+\)$")


@dataclass
class Grades:
    """``content``: the CSV. ``remarks``: who or what is not in it, in words for the instructor."""

    content: bytes
    remarks: list[str] = field(default_factory=list)


def grades(facts: ClassFacts, form: str, roster: bytes | None = None) -> Grades:
    """The scores of the class, penalties taken off, for :data:`CANVAS` or :data:`MOODLE`.

    ``roster``: a CSV that the same system has exported: then its lines and columns are kept, and those of the lessons are
    filled. Raises NoClass where it has not the columns that it needs.
    """
    if roster is None:
        return _made(facts, form)
    head, rows = _read(roster)
    return _canvas(facts, head, rows) if form == CANVAS else _worksheet(facts, head, rows)


def read_roster(path: str | Path) -> bytes:
    """Raises NoClass where ``path`` cannot be read."""
    try:
        return read_regular(path, LARGEST_ROSTER)
    except OSError as error:
        raise NoClass(f"{path} cannot be read: {error.strerror}") from None


def _made(facts: ClassFacts, form: str) -> Grades:
    """From what the gradebook alone knows of its students."""
    found = Grades(b"")
    if form == CANVAS:
        lines: list[list] = [[*_CANVAS_WHO, *(lesson.id for lesson in facts.lessons)],
                             ["Points Possible", "", "", "", "", *(_score(lesson.max_score) for lesson in facts.lessons)]]
    else:
        lines = [["Username", "Email address", *(lesson.id for lesson in facts.lessons)]]
    for place, person in enumerate(facts.people):
        who: list[object] = ["", person.lms_id, "", person.id, ""] if form == CANVAS else [person.id, person.email]
        if any(map(is_formula, who)):  # with an apostrophe before it, it would be nobody's
            found.remarks.append(f"{person.id}: left out, as an identifier begins like a spreadsheet's formula: enter the "
                                 "scores by hand")
            continue
        if form == CANVAS:
            who[0] = harmless(person.name or person.id)
        lines.append([*who, *(_score(lesson.rows[place].score) for lesson in facts.lessons)])
    found.content = _written(lines)
    return found


def _canvas(facts: ClassFacts, head: list[str], rows: list[list[str]]) -> Grades:
    """A CSV that Canvas has exported, with the columns of the lessons filled."""
    _need(head, _CANVAS_WHO[:2], "Canvas's gradebook: export it there (Grades → Export → Export Entire Gradebook)")
    found = Grades(b"")
    columns = {}
    for lesson in facts.lessons:
        fitting = [place for place, name in enumerate(head) if lesson.id in (name, _NUMBERED.sub("", name))]
        if len(fitting) > 1:
            raise NoClass(f"the roster has {len(fitting)} columns for {lesson.id}: rename one")
        if not fitting:
            found.remarks.append(f"{lesson.id}: Canvas has no such assignment; its import asks what to do with "
                                 "the new column")
            head.append(lesson.id)
        columns[lesson.id] = fitting[0] if fitting else len(head) - 1
    people = _Finder(facts)
    keys = [head.index(name) for name in ("ID", "SIS Login ID", "SIS User ID") if name in head]
    students = 0
    for row in rows:
        row += [""] * (len(head) - len(row))
        if row[head.index("Student")].strip().lower() == _POINTS_POSSIBLE:
            for lesson in facts.lessons:
                _warn_of_points(found, lesson, row[columns[lesson.id]])
                row[columns[lesson.id]] = row[columns[lesson.id]] or _score(lesson.max_score)
        elif any(row[key].strip() for key in keys):
            students += 1
            place = people.find({head[key]: row[key] for key in keys})
            if place is not None:
                for lesson in facts.lessons:
                    row[columns[lesson.id]] = _score(lesson.rows[place].score)
            else:  # what stands there stays
                found.remarks.append(f"{row[head.index('Student')]}: on the roster, and not in the gradebook")
    return _finished(found, people, [head, *rows], students)


def _worksheet(facts: ClassFacts, head: list[str], rows: list[list[str]]) -> Grades:
    """A Moodle offline grading worksheet, which is of one assignment, with its grades filled."""
    _need(head, ("Identifier", "Grade"), "an offline grading worksheet of Moodle's: download it from the assignment")
    if len(facts.lessons) != 1:
        raise NoClass("a Moodle worksheet is of one assignment: say which with --lesson")
    found, (lesson,) = Grades(b""), facts.lessons
    people = _Finder(facts)
    keys = [head.index(name) for name in ("ID number", "Username", "Email address") if name in head]
    if not keys:
        raise NoClass("the worksheet has neither ID number nor Username nor Email address, as where submissions are "
                      "anonymous, so it is unknown who is who")
    most = next((place for place, name in enumerate(head) if name.lower() == "maximum grade"), None)
    for number, row in enumerate(rows):
        row += [""] * (len(head) - len(row))
        if most is not None and number == 0:  # it is the same in all
            _warn_of_points(found, lesson, row[most])
        place = people.find({head[key]: row[key] for key in keys})
        if place is not None:
            row[head.index("Grade")] = _score(lesson.rows[place].score)
        else:
            found.remarks.append(f"{' '.join(row[key] for key in keys)}: on the roster, and not in the gradebook")
    return _finished(found, people, [head, *rows], len(rows))


# What a platform's column may be of a student in the gradebook.
_MEANS = {"ID": ("lms_id",), "SIS Login ID": ("id", "email"), "SIS User ID": ("id", "lms_id"),
          "ID number": ("lms_id", "id"), "Username": ("id",), "Email address": ("email", "id")}


class _Finder:
    """Finds people of the class by what a learning platform calls them."""

    def __init__(self, facts: ClassFacts):
        self._facts = facts
        self._by: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._met: dict[int, str] = {}
        for place, person in enumerate(facts.people):
            for kind in ("lms_id", "id", "email"):
                if key := getattr(person, kind).strip().lower():
                    self._by[kind, key].add(place)

    def find(self, called: dict[str, str]) -> int | None:
        """The place in the class of whom the platform's line, column → text, is about; None where it is nobody. Raises
        NoClass where it may be two, or somebody had a line already: no score may be another's."""
        places = {place for column, text in called.items() if text.strip() for kind in _MEANS[column]
                  for place in self._by.get((kind, text.strip().lower()), ())}
        said = ", ".join(filter(None, called.values()))
        if len(places) > 1:
            both = ", ".join(sorted(self._facts.people[place].id for place in places))
            raise NoClass(f"the roster's {said} may be several students of the gradebook ({both}): set their lms_user_id")
        for place in places:
            if place in self._met:
                raise NoClass(f"the roster's {self._met[place]} and {said} are one student of the gradebook, "
                              f"{self._facts.people[place].id}: set lms_user_id")
            self._met[place] = said
            return place
        return None

    def missed(self) -> list[Person]:
        return [person for place, person in enumerate(self._facts.people) if place not in self._met]


def _finished(found: Grades, people: _Finder, lines: list[list[str]], students: int) -> Grades:
    if not people._met:
        raise NoClass(f"none of the {students} students on the roster is in the gradebook: give them the platform's ID as "
                      "lms_user_id (nbgrader db student import), its login as id, or the same email")
    found.remarks += [f"{person.id}: in the gradebook, and not on the roster" for person in people.missed()]
    found.content = _written(lines)
    return found


def _warn_of_points(found: Grades, lesson: LessonFacts, stated: str) -> None:
    try:
        other = bool(stated.strip()) and float(stated.replace(",", ".")) != lesson.max_score
    except ValueError:
        return  # "(read only)"
    if other:
        found.remarks.append(f"{lesson.id}: {stated} points there, {_score(lesson.max_score)} here: make it the same there")


def _score(value: float | None) -> str:
    return "" if value is None else f"{round(value, 4):g}"


def _read(content: bytes) -> tuple[list[str], list[list[str]]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise NoClass(f"the roster is no CSV in UTF-8: {error}") from None
    if not rows:
        raise NoClass("the roster is empty")
    return [name.strip() for name in rows[0]], rows[1:]


def _need(head: list[str], names: tuple[str, ...], what: str) -> None:
    if missing := [name for name in names if name not in head]:
        raise NoClass(f"the roster has no column {', '.join(missing)}; it should be {what}")
    if double := {name for name in head if head.count(name) > 1 and name in (*_CANVAS_WHO, "Identifier", "Grade")}:
        raise NoClass(f"the roster has the column {', '.join(sorted(double))} twice")


def _written(lines: list[list[str]]) -> bytes:
    table = io.StringIO()
    csv.writer(table, lineterminator="\r\n").writerows(lines)
    return table.getvalue().encode("utf-8", "replace")
