"""From a learning platform's archive to ``submitted/``: whose file is it, and which of them is the submission.

``nbgrader zip_collect LESSON`` unpacks ``downloaded/LESSON/archive/`` and asks :class:`CarefulCollector` about each file.
Names that are understood, ``FILE`` being what the learner called it:

- Canvas (``lib/content_zipper.rb`` in its repository): ``lovelaceada_12345_67890_FILE`` or, late,
  ``lovelaceada_LATE_12345_67890_FILE``, the first number being the user's, the second the upload's; anonymous:
  ``anon_Ab1cD_67890_FILE``;
- Moodle: ``Ada Lovelace_12345_assignsubmission_file_FILE``, or a folder ``Ada Lovelace_12345_assignsubmission_file_``; the
  number is the participant's in this assignment alone;
- a folder of files that ``lesson.submit(name="ada")`` made, whatever they are called now; of files called
  ``ada--02_masked_loss.ipynb``; or of folders called like students.

Who has sent a file is the platform's word where there is a platform: what learners write into names is not asked then.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from nbgrader.api import Gradebook
from nbgrader.plugins import FileNameCollectorPlugin
from traitlets import List

from ..course.notebooks.submission import SubmissionError, parse_notebook, read_notebook_bytes, submission_in
from .standing import Assignment, NoSuchLesson
from .submission import is_for

_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_[a-z]+(?:_(?P<file>.*))?")
_CANVAS = re.compile(r"(?P<name>[^\W_]\w*?)_(?P<late>LATE_)?(?P<number>\d+)_(?P<upload>\d+)_(?P<file>.+)")
_ANONYMOUS = re.compile(r"(?P<late>LATE_)?anon_(?P<number>[^\W_]+)_(?P<upload>\d+)_(?P<file>.+)")
_NOBODYS = ("it is not clear whose it is: put it into a folder called like the student, or have it handed in again with "
            "lesson.submit(name=…)")
_OWN = re.compile(r"(?:Copy of )?(?P<name>.+?)--\d\d_\w+")


@dataclass(frozen=True)
class Sent:
    """A file, as its place in an archive tells of it: the learner's own name for it (``file``); who sent it: the platform's
    ``number`` for the learner, a ``name``; the ``upload``'s number, which grows with time; whether it came ``late``.
    ``platform``: "Canvas", "Moodle", or "" where the name is what somebody wrote."""

    file: str
    name: str = ""
    number: str = ""
    upload: int | None = None
    late: bool = False
    platform: str = ""


def read_place(path: PurePath) -> Sent:
    """What the file's path, from the archives' folder on, tells of it."""
    for part in reversed(path.parts):
        if found := _MOODLE.fullmatch(part):
            own = found["file"] if part == path.name and found["file"] else path.name
            return Sent(own, found["name"], found["number"], platform="Moodle")
    for part in reversed(path.parts):
        if found := _ANONYMOUS.fullmatch(part) or _CANVAS.fullmatch(part):
            own = found["file"] if part == path.name else path.name
            name = found.groupdict().get("name", "anon")
            return Sent(own, name, found["number"], int(found["upload"]), bool(found["late"]), "Canvas")
    own = _OWN.match(path.name)
    return Sent(path.name, own["name"] if own else "")


class Roster:
    """The students of a gradebook, found by what a platform says of them. ``students``: of each its id, first name, last
    name, e-mail address and number on the platform, where they are known."""

    def __init__(self, students: Iterable[tuple[str, str | None, str | None, str | None, str | None]]):
        self._ids: set[str] = set()
        self._numbers: dict[str, set[str]] = defaultdict(set)
        self._names: dict[str, set[str]] = defaultdict(set)
        for student, first, last, email, number in students:
            self._ids.add(student)
            if number:
                self._numbers[str(number)].add(student)
            for name in (student, email, f"{first or ''}{last or ''}", f"{last or ''}{first or ''}"):
                if name and _letters(name):
                    self._names[_letters(name)].add(student)

    def __bool__(self) -> bool:
        return bool(self._ids)

    def find(self, sent: Sent) -> str | None:
        """The one student who it can be, or None."""
        if sent.name in self._ids and not sent.platform:
            return sent.name
        number = self._numbers.get(sent.number) if sent.platform == "Canvas" else None
        without_group = sent.name.partition("-")[2] if sent.platform == "Moodle" else ""
        for found in (number, self._names.get(_letters(sent.name)), self._names.get(_letters(without_group))):
            if found and len(found) == 1:
                return next(iter(found))
        return None


def _letters(name: str) -> str:
    """A name as it is compared: Canvas runs them together, in lower case."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFC", name)).casefold()


def _as_id(name: str) -> str:
    return re.sub(r"[^\w.@]+", "-", unicodedata.normalize("NFC", name)).strip("-._")


@dataclass(frozen=True)
class Collected:
    """Where a file goes: to ``student``, under the name ``file``; ``remark``: what the instructor should know of it."""

    student: str
    file: str
    remark: str = ""


def assign(files: Mapping[PurePath, bytes | None], lesson: str, exercises: Iterable[str], roster: Roster
           ) -> dict[PurePath, Collected | str]:
    """Where each of ``files`` (path from the archives' folder → content, None where it cannot be read) goes, or why it goes
    to nobody.

    Of a student's notebooks of the lesson the one uploaded last is called ``LESSON.ipynb``, which is the one that is graded.
    Where no upload has a number and they differ in an exercise, all keep their names, and autograde asks for one of them.
    """
    exercises = list(exercises)
    sent: dict[PurePath, Sent] = {}
    for path, content in files.items():
        found = read_place(path)
        if not found.platform:
            own = _handed_in_by(content) or found.name or next(
                (part for part in reversed(path.parts[:-1]) if roster.find(Sent(path.name, part))), "")
            found = Sent(found.file, own)
        sent[path] = found
    numbers = Counter(name for name, _ in {(_letters(each.name), each.number) for each in sent.values() if each.platform})
    result: dict[PurePath, Collected | str] = {}
    of_student: dict[str, list[PurePath]] = defaultdict(list)
    remarks: dict[PurePath, str] = {}
    for path, each in sent.items():
        student = roster.find(each)
        if student is None:
            student = _as_id(each.name)
            if each.platform == "Canvas" or numbers[_letters(each.name)] > 1:
                student += f"-{each.number}"
            if not _as_id(each.name):
                result[path] = _NOBODYS
                continue
            if roster:
                number = f", number {each.number}" if each.number else ""
                remarks[path] = f"nobody on the roster is {each.name!r}{number}: collected as {student}"
        of_student[student].append(path)
    for student, paths in of_student.items():
        names = _names(paths, sent, files, lesson, exercises)
        several = sum(_is_lesson(files[path], lesson, exercises) for path in paths) > 1
        for path in paths:
            told = [remarks.get(path), "late, says Canvas" if sent[path].late else None,
                    "one of several notebooks of this student" if several else None]
            result[path] = Collected(student, names[path], "; ".join(filter(None, told)))
    return result


def _names(paths: list[PurePath], sent: Mapping[PurePath, Sent], files: Mapping[PurePath, bytes | None], lesson: str,
           exercises: list[str]) -> dict[PurePath, str]:
    """What each of a student's files is called in ``submitted/``: no two alike."""
    expected = f"{lesson}.ipynb"
    fitting = [path for path in paths if _is_lesson(files[path], lesson, exercises)]
    first: PurePath | None = None
    if all(sent[path].upload is not None for path in fitting):
        first = max(fitting, key=lambda path: sent[path].upload, default=None)
    elif len({_graded(files[path], lesson, exercises) for path in fitting}) == 1:
        first = fitting[0]
    names = {} if first is None else {first: expected}
    rivals = Counter(sent[path].file for path in paths)
    for path in paths:
        if path == first:
            continue
        own = PurePath(sent[path].file).name
        stem, dot, suffix = own.partition(".ipynb")
        number, name = sent[path].upload or 1, own
        while name in names.values() or (name == expected and (first is not None or rivals[own] > 1)):
            name, number = f"{stem} ({number}){dot}{suffix}", number + 1
        names[path] = name
    return names


def _notebook(content: bytes | None) -> dict | None:
    try:
        return None if content is None else parse_notebook(content, "it")
    except SubmissionError:
        return None


def _handed_in_by(content: bytes | None) -> str:
    """The name that ``lesson.submit`` was given."""
    try:
        name = _notebook(content)["metadata"]["gapless"]["handed_in_by"]
    except (KeyError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def _is_lesson(content: bytes | None, lesson: str, exercises: list[str]) -> bool:
    notebook = _notebook(content)
    return notebook is not None and (not exercises or is_for(notebook, lesson, set(exercises)))


def _graded(content: bytes | None, lesson: str, exercises: list[str]):
    found = submission_in(_notebook(content), lesson, {lesson: exercises}, lesson)
    return tuple(sorted(found.cells.items())) if exercises else content


class CarefulCollector(FileNameCollectorPlugin):
    """nbgrader's collector for the names of this module. What it makes of a file is logged where it is not plain."""

    valid_ext = List([".ipynb", ".txt", ".json"], help="Browsers add the others behind .ipynb").tag(config=True)

    def collect(self, submitted_file: str) -> dict | None:
        if not hasattr(self, "_assigned"):
            self._assigned = self._assign()
        found = self._assigned.get(submitted_file)
        if found is None:
            return None
        if isinstance(found, str):
            self.log.error("%s: %s", submitted_file, found)
            return None
        if found.remark:
            self.log.warning("%s: %s", submitted_file, found.remark)
        # nbgrader puts the file's own ending in place of the name's last one.
        ending = os.path.splitext(submitted_file)[1]
        more = ending if ending != ".ipynb" and found.file.endswith(".ipynb") else ""
        return {"student_id": found.student, "file_id": found.file + more}

    def _assign(self) -> dict[str, Collected | str]:
        """By the files' full paths."""
        course, lesson = self.parent.coursedir, self.parent.coursedir.assignment_id
        root = Path(self.parent._format_collect_path(self.parent.extracted_directory))
        files: dict[PurePath, bytes | None] = {}
        for folder, folders, names in os.walk(root):
            folders[:] = [each for each in folders if each not in ("__MACOSX", ".ipynb_checkpoints")]
            for name in names:
                if ".ipynb" in name and not name.startswith("._") and os.path.splitext(name)[1] in self.valid_ext:
                    path = Path(folder, name)
                    try:
                        files[path.relative_to(root)] = read_notebook_bytes(path, follow_links=False)
                    except SubmissionError:
                        files[path.relative_to(root)] = None
        try:
            exercises = Assignment.open(course, lesson).exercises
        except NoSuchLesson:
            exercises = []
        with Gradebook(course.db_url, course.course_id) as gradebook:
            roster = Roster((each.id, each.first_name, each.last_name, each.email, each.lms_user_id)
                            for each in gradebook.students)
        ordered = dict(sorted(files.items()))
        return {str(root / path): found for path, found in assign(ordered, lesson, exercises, roster).items()}
