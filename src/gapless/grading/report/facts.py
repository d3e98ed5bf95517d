"""What is known of a class: points from the gradebook, gradings from ``results/``, answers from ``submitted/``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment, SubmittedNotebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import selectinload

from ...course.notebooks.stub import handed_out
from ...course.notebooks.submission import SubmissionError, cell_source, parse_notebook, read_notebook_bytes
from ...course.verdicts import FAIL
from ...marker import exercise_name, file_name, joined
from ..gradebook import opened
from ..sandbox.confine import GradingError
from ..standing import CHECK, MISSING, Assignment, NoSuchLesson, Standing, stored_score
from .similar import Alike, Parts, Unreadable, alike, parts


class NoClass(ValueError):
    """There is nothing to report on; the message says why and what to do."""


@dataclass(frozen=True)
class Person:
    """A student as the gradebook has them."""

    id: str
    name: str = ""
    email: str = ""
    lms_id: str = ""
    on_roster: bool = True


@dataclass(frozen=True)
class Mark:
    """Points of one grade cell: what counts, and where an instructor changed it what grading gave (``auto``)."""

    score: float | None
    auto: float | None
    by_hand: bool


@dataclass(frozen=True)
class Row:
    """A student's submission of a lesson. ``raw``: points before the late ``penalty``; ``score``: what counts, None where
    there is none. ``grading``: what the results of the last grading say, {} where there are none."""

    person: Person
    standing: Standing
    marks: dict[str, Mark] = field(default_factory=dict)
    raw: float | None = None
    penalty: float = 0.0
    late_s: float = 0.0
    timestamp: datetime | None = None
    grading: dict = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        return None if self.raw is None else max(0.0, self.raw - self.penalty)


@dataclass(frozen=True)
class Cause:
    """Why a check gave no points: an ``example`` of its message, and who got such a one."""

    exercise: str
    example: str
    who: tuple[str, ...]


@dataclass(frozen=True)
class LessonFacts:
    """A lesson in a class. ``most``: exercise → its points; ``alike``: exercise → groups of answers; ``answers``: (student,
    exercise) → text; ``unread``: how many answers could not be compared."""

    id: str
    most: dict[str, float]
    rows: list[Row]
    causes: list[Cause]
    alike: dict[str, list[Alike]]
    answers: dict[tuple[str, str], str]
    unread: int

    @property
    def max_score(self) -> float:
        return sum(self.most.values())

    def scores(self) -> list[float]:
        """Those that there are, of students on the roster or not."""
        return [row.score for row in self.rows if row.score is not None]

    def unlike(self) -> dict[str, Counter]:
        """What should be one and the same for all who are graded: its name → value → how many."""
        found = {"confinement": Counter(), "device": Counter(), "gapless": Counter(), "torch": Counter()}
        for row in self.rows:
            if row.grading:
                versions = row.grading.get("versions")
                versions = versions if isinstance(versions, dict) else {}
                for name, counted in found.items():
                    where = versions if name in ("gapless", "torch") else row.grading
                    counted[str(where.get(name, "not recorded"))] += 1
        return found


@dataclass(frozen=True)
class ClassFacts:
    """A class: its lessons, and everybody in the gradebook or in ``submitted/``; ``left_out``: assignments that are no
    lessons of the course."""

    people: list[Person]
    lessons: list[LessonFacts]
    left_out: list[str]


def class_facts(course: CourseDirectory, lessons: Iterable[str] = (), compare: bool = True) -> ClassFacts:
    """What is known of the class of ``course``. ``lessons``: only these; by default all of which something was handed in or
    graded. ``compare``: whether answers are compared. Raises NoClass."""
    require_gradebook(course)
    lessons = list(dict.fromkeys(lessons))
    with opened(course.db_url, course.course_id) as gradebook:
        known = [each.name for each in gradebook.assignments]
        roster = [
            Person(
                each.id, " ".join(filter(None, (each.first_name, each.last_name))), each.email or "", each.lms_user_id or ""
            )
            for each in gradebook.students
        ]
        if unknown := set(lessons) - set(known):
            raise NoClass(
                f"the gradebook has no assignment {', '.join(map(repr, sorted(unknown)))}; it has "
                f"{', '.join(sorted(known)) or 'none: run nbgrader generate_assignment LESSON first'}"
            )
        there, left_out = [], []
        for name in sorted(lessons or known):
            try:
                there.append(Assignment.open(course, name))
            except NoSuchLesson as error:
                if lessons:
                    raise NoClass(str(error)) from None
                left_out.append(name)
        handed_in = {each.lesson: each.students() for each in there}
        on_roster = {each.id for each in roster}
        strangers = sorted({student for each in handed_in.values() for student in each} - on_roster)
        people = sorted([*roster, *(Person(each, on_roster=False) for each in strangers)], key=lambda each: each.id)
        found = [
            _lesson(gradebook, each, people, compare)
            for each in there
            if lessons or handed_in[each.lesson] or gradebook.assignment_submissions(each.lesson)
        ]
    if not any(row.score is not None or row.grading for each in found for row in each.rows):
        raise NoClass("nothing is graded yet: run gapless grade-class COURSE first")
    return ClassFacts(people, found, left_out)


def require_gradebook(course: CourseDirectory) -> None:
    """Raises NoClass where there is none; opening one would make it."""
    try:
        url = make_url(course.db_url)
        if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).is_file():
            raise NoClass(
                f"there is no gradebook {url.database}: run nbgrader generate_assignment LESSON in the course first"
            )
        with opened(course.db_url, course.course_id):
            pass
    except GradingError as error:
        raise NoClass(str(error)) from None
    except (ArgumentError, DBAPIError) as error:
        raise NoClass(f"the gradebook cannot be used: {getattr(error, 'orig', error)}") from None


def _lesson(gradebook: Gradebook, assignment: Assignment, people: list[Person], compare: bool) -> LessonFacts:
    assignment = replace(assignment, gradebook=gradebook)
    query = gradebook.db.query(SubmittedAssignment).filter(SubmittedAssignment.name == assignment.lesson)
    # Held while they are read one by one: what SQLAlchemy has in memory it does not ask the database for.
    held = query.options(selectinload(SubmittedAssignment.notebooks).selectinload(SubmittedNotebook.grades)).all()
    rows = [_row(gradebook, assignment, person) for person in people]
    del held
    answers = _answers(assignment, [row for row in rows if row.standing.state != MISSING]) if compare else {}
    groups, unread = _alike(assignment, answers)
    most = {_exercise(check): points for check, points in assignment.checks.items()}
    return LessonFacts(assignment.lesson, most, rows, causes(assignment.lesson, rows), groups, answers, unread)


def _exercise(check: str) -> str:
    return check.removeprefix(CHECK)


def _row(gradebook: Gradebook, assignment: Assignment, person: Person) -> Row:
    standing = assignment.standing(person.id)
    grading = assignment.last_grading(person.id)
    try:
        submission = gradebook.find_submission(assignment.lesson, person.id)
    except MissingEntry:
        return Row(person, standing, grading=grading)
    marks = {}
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            there = grade.auto_score is not None or grade.manual_score is not None
            by_hand = bool(grade.extra_credit) or (grade.manual_score is not None and grade.manual_score != grade.auto_score)
            marks[_exercise(grade.name)] = Mark(grade.score if there else None, grade.auto_score, by_hand)
    return Row(
        person,
        standing,
        marks,
        stored_score(submission),
        submission.late_submission_penalty or 0.0,
        max(0.0, submission.total_seconds_late),
        submission.timestamp,
        grading,
    )


# -- causes ---------------------------------------------------------------------------------------


def causes(lesson: str, rows: Iterable[Row]) -> list[Cause]:
    """What checks said where they failed, by exercise and by what it is about; that which met most students first.

    Two messages are about the same when they hold the same known mistake's words, or when they differ in numbers and quoted
    code alone. A student counts once for each.
    """
    reasons = _known_mistakes(lesson)
    who: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    examples: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for row in rows:
        for check in row.grading.get("checks", ()):
            if check.get("outcome") == FAIL:
                message = str(check.get("message"))
                key = (
                    check["exercise"],
                    next((why for why in reasons.get(check["exercise"], ()) if why in message), _general(message)),
                )
                who[key][row.person.id] = None
                examples[key][message] += 1
    found = [Cause(key[0], examples[key].most_common(1)[0][0], tuple(students)) for key, students in who.items()]
    return sorted(found, key=lambda each: (-len(each.who), each.exercise, each.example))


def _known_mistakes(lesson: str) -> dict[str, list[str]]:
    known = _course_lesson(lesson)
    found: dict[str, list[str]] = defaultdict(list)
    for each in (known, *known.variants.values()) if known else ():
        for name, exercise in each.exercises.items():
            found[name] += [mistake.why for mistake in exercise.teaching.mistakes]
    return found


def _course_lesson(lesson: str):
    from ...lessons import LESSONS

    return LESSONS.get(lesson)


_DIFFERS = re.compile(r"`[^`]*`|(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|[-+]?\d[\d.,]*(?:e[-+]?\d+)?")


def _general(message: str) -> str:
    return _DIFFERS.sub("…", message)


# -- answers --------------------------------------------------------------------------------------


def _answers(assignment: Assignment, rows: list[Row]) -> dict[tuple[str, str], str]:
    found = {}
    for row in rows:
        try:
            notebook = assignment.read(row.person.id).found.notebook
        except SubmissionError:
            continue
        for name, text in _cells(notebook).items():
            if name in assignment.exercises:
                found[row.person.id, name] = text
    return found


def _cells(notebook: dict) -> dict[str, str]:
    """Exercise → its text, as grading takes it: of copies the last, the files of a program put together."""
    sources = [cell_source(cell) for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    files = {name: source for source in sources if not exercise_name(source) and (name := file_name(source))}
    return {name: joined(source, files) for source in sources if (name := exercise_name(source))}


def _alike(assignment: Assignment, answers: dict[tuple[str, str], str]) -> tuple[dict[str, list[Alike]], int]:
    by_exercise: dict[str, dict[str, Parts]] = defaultdict(dict)
    unread = 0
    for (student, exercise), text in answers.items():
        try:
            by_exercise[exercise][student] = parts(text)
        except Unreadable:
            unread += 1
    told = _told(assignment) if answers else {}
    found = {exercise: alike(each, told.get(exercise, ())) for exercise, each in by_exercise.items()}
    return {exercise: groups for exercise, groups in found.items() if groups}, unread


_SOLUTION = re.compile(r"^\s*### (?:BEGIN|END) SOLUTION.*$", re.MULTILINE)


def _told(assignment: Assignment) -> dict[str, list[Parts]]:
    """Exercise → what everybody has been given, and the solutions: of the course's notebooks and of all its programs."""
    texts: dict[str, list[str]] = defaultdict(list)
    course = assignment.course
    for folder in (course.source_directory, course.release_directory):
        path = Path(course.format_path(folder, ".", assignment.lesson)) / f"{assignment.lesson}.ipynb"
        try:
            for name, text in _cells(parse_notebook(read_notebook_bytes(path), path)).items():
                texts[name].append(_SOLUTION.sub("", text))
        except SubmissionError:
            continue
    known = _course_lesson(assignment.lesson)
    for each in (known, *known.variants.values()) if known else ():
        for name, exercise in each.exercises.items():
            texts[name].append(handed_out(exercise))
    found: dict[str, list[Parts]] = defaultdict(list)
    for name, each in texts.items():
        for text in dict.fromkeys(each):
            try:
                found[name].append(parts(text))
            except Unreadable:
                continue
    return found
