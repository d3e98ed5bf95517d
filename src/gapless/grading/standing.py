"""Where each student's submission of a lesson stands in a class: graded, failed, not graded yet, or missing.

It is read from what there is each time, never remembered: a submission is graded when the gradebook holds the very scores
of a grading of what lies in ``submitted/`` now.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import math
import os
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc

from ..course.notebooks.submission import SubmissionError
from ..course.verdicts import points
from ..files import read_regular, write_bytes
from ..marker import exercise_name
from .gradebook import opened
from .spreadsheet import written
from .submission import HandedIn, find_handed_in

RECORDS = "results"  # for each submission its results and the executed test notebook; not for learners
CHECK = "check_"  # the grade cell of exercise NAME is check_NAME
GRADED, FAILED, UNGRADED, MISSING = "graded", "failed", "not graded yet", "missing"
# What nbgrader's exchange puts beside a submission, and wants back beside its feedback.
BOOKKEEPING = ("timestamp.txt", "submission_secret.txt")
LARGEST_BOOKKEEPING = 10_000  # bytes


class NoSuchLesson(ValueError):
    """The gradebook has no such assignment, or one that is no lesson of this course."""


@dataclass(frozen=True)
class Submitted:
    """What a student has handed in: the notebook, the exchange's files beside it, and a fingerprint of them all."""

    found: HandedIn
    beside: dict[str, bytes]
    timestamp: datetime | None
    fingerprint: str


@dataclass(frozen=True)
class Standing:
    """How it stands with a student's submission.

    ``reason``: in words, where it failed; ``by_learner``: whether the learner can fix that. ``score`` is the last one that
    was stored, of an earlier submission perhaps, or None where there is none; ``pages``: whether there is a graded notebook
    that the gradebook agrees with.
    """

    student: str
    state: str
    reason: str = ""
    by_learner: bool = False
    score: float | None = None
    pages: bool = False


@dataclass(frozen=True)
class Assignment:
    """A lesson in a class: ``course`` as nbgrader is configured; the ``exercises`` and the most points of each grade cell
    (``checks``) by name, as the gradebook has them. ``gradebook``: one that is open already, for questions about a class:
    opening one takes longer than reading a submission's scores."""

    course: CourseDirectory
    lesson: str
    exercises: list[str]
    checks: dict[str, float] = field(default_factory=dict)
    gradebook: Gradebook | None = field(default=None, compare=False, repr=False)

    @classmethod
    def open(cls, course: CourseDirectory, lesson: str) -> Assignment:
        """Raises NoSuchLesson, GradingError, sqlalchemy's DBAPIError."""
        with opened(course.db_url, course.course_id) as gradebook:
            try:
                notebooks = gradebook.find_assignment(lesson).notebooks
            except MissingEntry:
                raise NoSuchLesson(f"the gradebook has no assignment {lesson!r}: run nbgrader generate_assignment {lesson}, "
                                   "with --force where notebooks/ has it already") from None
            if [notebook.name for notebook in notebooks] != [lesson]:
                there = ", ".join(notebook.name for notebook in notebooks) or "none"
                raise NoSuchLesson(f"the assignment {lesson!r} should hold one notebook of its own name; it holds: {there}")
            return cls(course, lesson,
                       [cell.name for cell in notebooks[0].source_cells if exercise_name(cell.source or "") == cell.name],
                       {cell.name: cell.max_score for cell in notebooks[0].grade_cells})

    @property
    def max_score(self) -> float:
        return math.fsum(self.checks.values())

    def folder(self, step: str, student: str) -> Path:
        """``step``: a folder of the course, such as ``submitted``."""
        return Path(self.course.format_path(step, student, self.lesson))

    def students(self, pattern: str = "*") -> list[str]:
        """Who has handed something in: the ids that match ``pattern``, except for those that nbgrader leaves out."""
        escaped = self.course.format_path(self.course.submitted_directory, "(?P<student>.*)", re.escape(self.lesson),
                                          escape=True)
        # The course's own folder may hold signs that mean something in a pattern.
        found = glob.glob(self.course.directory_structure.format(
            nbgrader_step=self.course.submitted_directory, student_id=pattern, assignment_id=glob.escape(self.lesson)),
            root_dir=self.course.root)
        students = {re.fullmatch(escaped, str(Path(self.course.root, path)))["student"] for path in found}
        return sorted(students - set(self.course.student_id_exclude.split(",")))

    def read(self, student: str) -> Submitted:
        """What ``student`` has handed in. Raises SubmissionError."""
        found = find_handed_in(self.folder(self.course.submitted_directory, student), self.lesson, self.exercises)
        beside = self.beside(student)
        try:
            stated = beside.get("timestamp.txt", b"").decode().strip()
            timestamp = parse_utc(stated) if stated else None
        except ValueError:
            raise SubmissionError("timestamp.txt holds no time: hand the notebook in again") from None
        fingerprint = hashlib.sha256()
        for part in (found.name.encode("utf-8", "surrogateescape"), found.content, *beside.values()):
            fingerprint.update(hashlib.sha256(part).digest())
        return Submitted(found, beside, timestamp, fingerprint.hexdigest())

    def beside(self, student: str) -> dict[str, bytes]:
        """What the exchange has put beside a submission, by file name. Raises SubmissionError."""
        found = {}
        for name in BOOKKEEPING:
            try:
                found[name] = read_regular(self.folder(self.course.submitted_directory, student) / name, LARGEST_BOOKKEEPING)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise SubmissionError(f"{name} cannot be read: {error.strerror}") from None
        return found

    def standing(self, student: str) -> Standing:
        """How it stands with ``student``'s submission now."""
        record, score = self._stored(student)
        earlier: dict[str, Any] = {"score": score, "pages": record is not None}
        if not os.path.lexists(self.folder(self.course.submitted_directory, student)):
            return Standing(student, MISSING, **earlier)
        try:
            submitted = self.read(student)
        except SubmissionError as error:
            return Standing(student, FAILED, str(error), True, **earlier)
        if record is not None and record["submission"] == submitted.fingerprint:
            return Standing(student, GRADED, **earlier)
        failure = _read_json(self.failure_file(student))
        if failure is not None and failure.get("submission") == submitted.fingerprint:
            return Standing(student, FAILED, str(failure.get("reason")), **earlier)
        return Standing(student, UNGRADED, **earlier)

    def is_graded(self, student: str, submitted: Submitted) -> bool:
        """Whether the stored scores are those of this very submission."""
        record, _ = self._stored(student)
        return record is not None and record["submission"] == submitted.fingerprint

    def everyone(self) -> list[Standing]:
        """The standing of all who are in the gradebook or have handed something in."""
        with opened(self.course.db_url, self.course.course_id) as gradebook:
            known = {student.id for student in gradebook.students}
            with_it = replace(self, gradebook=gradebook)
            return [with_it.standing(student) for student in sorted(known | set(self.students()))]

    def results_file(self, student: str) -> Path:
        return self.folder(RECORDS, student) / f"{self.lesson}.json"

    def failure_file(self, student: str) -> Path:
        folder = self.folder(RECORDS, student)
        return folder.with_name(f"{folder.name}.failed.json")

    def last_grading(self, student: str) -> dict:
        """The results of the last grading, as :meth:`.grade.Result.to_json` gives them, where results, graded notebook and
        gradebook are of one and the same; else {}."""
        return self._stored(student)[0] or {}

    def handed_in_as(self, student: str) -> str | None:
        """The name of the file that was graded last."""
        record, _ = self._stored(student)
        return record["file"] if record else None

    def _stored(self, student: str) -> tuple[dict | None, float | None]:
        """The results of the last grading, where results, graded notebook and gradebook are of one and the same, and the
        score in the gradebook."""
        record = _read_json(self.results_file(student))
        graded = _read_json(self.folder(self.course.autograded_directory, student) / f"{self.lesson}.ipynb")
        try:
            whole = graded["metadata"]["gapless"]["grading"] == record["grading"] and {"submission", "file"} <= set(record)
            scores = {check: points(each for each in record["checks"] if CHECK + each["exercise"] == check)[0]
                      for check in self.checks}
        except (KeyError, TypeError):
            whole = scores = False
        at_hand = (contextlib.nullcontext(self.gradebook) if self.gradebook is not None
                   else opened(self.course.db_url, self.course.course_id))
        with at_hand as gradebook:
            try:
                submission = gradebook.find_submission(self.lesson, student)
            except MissingEntry:
                return None, None
            in_gradebook = {grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades}
            return (record if whole and in_gradebook == scores else None), stored_score(submission)


def stored_score(submission) -> float | None:
    """The points of nbgrader's ``SubmittedAssignment``, penalties not taken off; None where a cell has none yet, which
    nbgrader itself counts as 0."""
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    if any(grade.auto_score is None and grade.manual_score is None for grade in grades):
        return None
    return submission.score


def summary(assignment: Assignment) -> tuple[list[Standing], str]:
    """Everyone's standing, written to ``results/LESSON.csv``, and the same in words."""
    standings = assignment.everyone()
    rows = [("student", "state", "score", "max_score", "reason"),
            *((each.student, each.state, None if each.score is None else f"{each.score:g}", f"{assignment.max_score:g}",
               each.reason) for each in standings)]
    path = Path(assignment.course.root) / RECORDS / f"{assignment.lesson}.csv"
    try:
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, written(rows))
        where = f"all of them: {path}"
    except OSError as error:
        where = f"{path} cannot be written: {error.strerror}"
    lines = [f"{assignment.lesson}: " + ", ".join(
        f"{count} {state}" for state in (GRADED, FAILED, UNGRADED, MISSING)
        if (count := sum(each.state == state for each in standings)) or state == GRADED) + f" ({where})"]
    for each in standings:
        if each.state != GRADED:
            kept = "" if each.score is None else f" (the earlier score stays: {each.score:g})"
            lines.append(f"  {each.student}: {each.state}{': ' * bool(each.reason)}{each.reason}{kept}")
    return standings, "\n".join(lines).encode("utf-8", "replace").decode("utf-8")


def _read_json(path: Path) -> dict | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
