"""nbgrader's autograde and its feedback, made to keep what they promise.

nbgrader makes rows in the gradebook and a folder in ``autograded/`` before it grades, and takes the folder for a sign that
a submission is graded: where it is ended in between, the student has 0 points and is skipped ever after. Here a grading is
made aside. Then the scores are stored in one transaction, and last the graded notebook gets its place; what was there
before stays until then. Whether a submission is graded is read from all three (:mod:`gapless.grading.standing`).
"""

from __future__ import annotations

import contextlib
import html
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import nbgrader.apps.api
import nbgrader.apps.autogradeapp
import nbgrader.apps.generatefeedbackapp
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde, GenerateFeedback, NbGraderException
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from nbgrader.utils import find_all_files
from sqlalchemy.exc import DBAPIError
from tqdm import tqdm
from traitlets import Bool, Integer, Unicode
from traitlets.config import Config

from ..course.notebooks.submission import SubmissionError, plain_notebook
from ..files import InUse, locked, write_json
from .grade import default_device
from .gradebook import GradebookLost, address, check_writable, in_words, opened, patiently, shown, writing
from .preprocessors import GradeWithPapermill
from .sandbox.confine import GradingError
from .standing import FAILED, GRADED, RECORDS, UNGRADED, Assignment, NoSuchLesson, Standing, Submitted, summary
from .workers.cluster import DaskWorkers
from .workers.job import Job, Outcome
from .workers.kept import KeptWorker
from .workers.pool import LocalWorkers, Workers, grade_all, most_workers

_LOCK = ".autograde.lock"
_TEMPLATES = Path(__file__).parent / "templates"


class KeepingAutograde(Autograde):
    """Autograde that takes nothing for graded but what is, and never loses an earlier result, not even when it is killed."""

    gradebook_seconds = Integer(60, min=1, help="How long to wait for a gradebook that another program has locked, or "
                                             "whose server is away").tag(config=True)
    workers = Integer(0, min=0, help="How many submissions to grade at once on this machine; 0: one a processor, and one "
                                     "more, as far as there is memory").tag(config=True)
    scheduler = Unicode("", help="Grade on a Dask cluster: the address of its scheduler, such as tcp://host:8786").tag(
        config=True)

    progress = Bool(False, help="Whether to show a bar: done, failed, time left").tag(config=True)

    lock_seconds = Integer(0, min=0, help="How long to wait for another autograde in this course").tag(config=True)

    def start(self):
        try:
            with locked(Path(self.coursedir.root) / _LOCK, self.lock_seconds):
                super().start()
        except InUse as holder:
            self._refuse(f"another autograde runs in this course ({holder}): nothing was graded. Wait until it is done")
        except (NoSuchLesson, GradingError) as error:
            self._refuse(str(error))
        except DBAPIError as error:
            self._refuse(f"the gradebook {shown(self.coursedir.db_url)} cannot be used: {in_words(error)}")
        except OSError as error:
            self._refuse(f"this course cannot be written: {error}")

    def _refuse(self, why: str):
        self.log.error(why)
        raise NbGraderException(why) from None

    def init_notebooks(self):
        self._assignment = Assignment.open(self.coursedir, self.coursedir.assignment_id)
        self._students = self._assignment.students(self.coursedir.student_id)
        if not self._students:
            self._refuse(f"nothing was handed in: there is no {self._format_source(self.coursedir.assignment_id, '*')}"
                         if self.coursedir.student_id == "*" else
                         f"nothing was handed in by {self.coursedir.student_id}")

    def convert_notebooks(self):
        try:
            with self._writing() as gradebook:
                check_writable(gradebook)
        except DBAPIError as error:
            self._refuse(f"the gradebook {shown(self.coursedir.db_url)} cannot be written ({in_words(error)}): nothing was "
                         "graded")
        reasons: dict[str, str] = {}
        bar = tqdm(total=len(self._students), desc=self._assignment.lesson, unit="submission", disable=not self.progress)
        try:
            with bar:
                for student, reason in self._grade_all():
                    reasons[student] = reason
                    bar.set_postfix(failed=sum(map(bool, reasons.values())), refresh=False)
                    bar.update()
            standings = self._summarise()
        except GradebookLost as error:
            done = sum(not reason for reason in reasons.values())
            self._refuse(f"{error}. {done} of {len(self._students)} are graded; the same command grades the others once the "
                         "gradebook is there again")
        except BaseException:
            with contextlib.suppress(GradebookLost):
                self._summarise()
            raise
        states = {each.student: each.state for each in standings}  # who has handed in nothing any more may not be there
        failed = [student for student in self._students if reasons[student] or states.get(student) != GRADED]
        for student in failed:
            self.log.error("There was an error processing assignment '%s' for student '%s': %s", self._assignment.lesson,
                           student.encode("utf-8", "replace").decode(),
                           reasons[student] or "it, or its score, has changed since")
        if failed:
            raise NbGraderException(f"{len(failed)} of {len(self._students)} submissions could not be graded")

    def _summarise(self) -> list[Standing]:
        standings, words = self._patiently(lambda: summary(self._assignment))
        if self.progress:  # with a bar the log stays quiet
            print(words.splitlines()[0])
        for line in words.splitlines():
            self.log.info(line)
        return standings

    def _patiently(self, action):
        return patiently(self.coursedir.db_url, self.gradebook_seconds, self.log.warning, action)

    def _writing(self):
        return writing(self.coursedir.db_url, self.coursedir.course_id, self.gradebook_seconds)

    def _grade_all(self) -> Iterator[tuple[str, str]]:
        """Grade what is not graded yet: each student, and '' or the reason why that failed."""
        jobs: dict[str, _Begun] = {}
        settled: list[tuple[str, str]] = []

        def begin() -> Iterator[tuple[str, Job]]:
            for student in self._students:
                try:
                    begun = self._begin(student)
                except GradebookLost:
                    raise
                except Exception as error:
                    settled.append((student, self._failed(student, error)))
                    continue
                if begun is None:
                    settled.append((student, ""))
                else:
                    jobs[student] = begun
                    yield student, begun.job

        with self._workers() as workers:
            for student, outcome in grade_all(begin(), workers):
                yield from settled
                settled.clear()
                yield student, self._finish(student, jobs.pop(student), outcome)
        yield from settled

    def _workers(self) -> Workers:
        grader = GradeWithPapermill(parent=self)
        if self.scheduler:
            return DaskWorkers(self.scheduler, grader.unconfined)
        on_gpu = (grader.device or default_device()).startswith("cuda")  # another's work would show in the times
        most = 1 if on_gpu else min(self.workers or most_workers(), len(self._students))
        return LocalWorkers(most)

    def _begin(self, student: str) -> _Begun | None:
        """What to grade of ``student``; None where that is graded. Raises SubmissionError, OSError, DBAPIError."""
        for place in self._places(student):
            _mend(place)
        submitted = self._assignment.read(student)
        graded = self._patiently(lambda: self._assignment.is_graded(student, submitted))
        if graded and not self.force:
            self.log.info("Skipping existing assignment: %s is graded", self._places(student)[0])
            return None
        self._assignment.failure_file(student).unlink(missing_ok=True)
        begun = _Begun(submitted, graded)
        try:
            self._patiently(lambda: self._sanitize(student, begun))
        except GradebookLost:
            raise
        except Exception as error:
            raise _Failed(begun) from error
        return begun

    def _finish(self, student: str, begun: _Begun, outcome: Outcome | Exception) -> str:
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self._keep(student, begun, outcome)
            return ""
        except GradebookLost:
            raise
        except Exception as error:
            return self._failed(student, _Failed(begun), error)
        finally:
            with contextlib.suppress(OSError):
                for place in self._places(student):
                    _mend(place)

    def _failed(self, student: str, error: BaseException, cause: Exception | None = None) -> str:
        """Why, in words; noted down beside the submission where it was to be graded."""
        begun = error.begun if isinstance(error, _Failed) else None
        if begun is not None:
            error = cause or error.__cause__
        if not isinstance(error, (GradingError, SubmissionError, OSError, DBAPIError, MissingEntry)):
            self.log.error("an error in grading itself", exc_info=error)
        reason = _in_words(error)
        if begun is not None and not begun.graded:
            with contextlib.suppress(OSError, ValueError):
                write_json(self._assignment.failure_file(student),
                           {"submission": begun.submitted.fingerprint, "reason": reason})
        return reason

    def _places(self, student: str) -> tuple[Path, Path]:
        """Where the graded notebook lies, and where its results."""
        return (self._assignment.folder(self.coursedir.autograded_directory, student),
                self._assignment.folder(RECORDS, student))

    def _sanitize(self, student: str, begun: _Begun) -> None:
        """Bring what was handed in into nbgrader's form, and say what to grade."""
        lesson, submitted = self._assignment.lesson, begun.submitted
        self.log.info("Grading %s of %s", submitted.found.name, student)
        if not self.create_student:
            with opened(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
                gradebook.find_student(student)
        self.notebooks = [str(self._assignment.folder(self.coursedir.submitted_directory, student) / submitted.found.name)]
        self.run_pre_convert_hook()
        begun.resources = {"unique_key": lesson, "output_files_dir": f"{lesson}_files",
                           "nbgrader": {"student": student, "assignment": lesson, "notebook": lesson,
                                        "db_url": address(self.coursedir.db_url)},
                           "gapless": {"notes": submitted.found.notes}}
        begun.notebook = nbformat.from_dict(plain_notebook(submitted.found.notebook))
        self._export(begun, sanitizing=True)
        begun.job = GradeWithPapermill(parent=self).job(begun.notebook, begun.resources, here=not self.scheduler)

    def _export(self, begun: _Begun, sanitizing: bool) -> None:
        self._sanitizing = sanitizing
        self._init_preprocessors()
        written, begun.resources = self.exporter.from_notebook_node(begun.notebook, begun.resources)
        begun.notebook = nbformat.reads(written, as_version=4)
        self._sanitizing = True

    def _keep(self, student: str, begun: _Begun, outcome: Outcome) -> None:
        """Put what came out where it belongs: first aside, then into the gradebook, and last into its place."""
        lesson, submitted = self._assignment.lesson, begun.submitted
        begun.resources["gapless"]["outcome"] = outcome
        self._export(begun, sanitizing=False)
        graded, resources = begun.notebook, begun.resources
        # Tells which results and which graded notebook belong together.
        grading = secrets.token_hex(8)
        graded.metadata["gapless"] = {"grading": grading}
        place, record = self._places(student)
        new = _new(place)
        for name, content in submitted.beside.items():
            (new / name).write_bytes(content)
        masters = Path(self.coursedir.format_path(self.coursedir.source_directory, ".", lesson))
        for path in find_all_files(str(masters), [*self.coursedir.ignore, "*.ipynb"]):
            copy = new / Path(path).relative_to(masters)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        (new / f"{lesson}.ipynb").write_text(nbformat.writes(graded), encoding="utf-8")
        self._allow(new)
        results = {**resources["gapless"]["results"], "submission": submitted.fingerprint, "file": submitted.found.name,
                   "grading": grading}
        write_json(_new(record) / f"{lesson}.json", results)
        write_json(_aside(record, "new") / f"{lesson}.ipynb", resources["gapless"]["executed"])
        self._patiently(lambda: self._store(student, submitted, graded))
        for each in (record, place):
            _take_place(each)
        self.run_post_convert_hook()

    def _allow(self, folder: Path) -> None:
        """nbgrader's permissions."""
        for path in folder.rglob("*"):
            if path.is_file():
                path.chmod(int(str(self.permissions), 8))
        if self.coursedir.groupshared:
            for path in (folder, folder.parent, *(each for each in folder.rglob("*") if each.is_dir())):
                with contextlib.suppress(PermissionError):
                    path.chmod((path.stat().st_mode | 0o2770) & 0o2777)

    def _store(self, student: str, submitted: Submitted, graded) -> None:
        """All that the gradebook has of a submission, at once or not at all, where nbgrader stores it bit by bit."""
        lesson = self._assignment.lesson
        with self._writing() as gradebook:
            gradebook.update_or_create_student(student)
            submission = gradebook.update_or_create_submission(lesson, student)
            submission.timestamp = submitted.timestamp
            saver = SaveAutoGrades(parent=self)
            saver.gradebook, saver.notebook_id, saver.assignment_id, saver.student_id = gradebook, lesson, lesson, student
            for number, cell in enumerate(graded.cells):
                saver.preprocess_cell(cell, {}, number)
            notebook = gradebook.find_submission_notebook(lesson, lesson, student)
            notebook.late_submission_penalty = None
            if submission.total_seconds_late > 0:
                late = AssignLatePenalties(parent=self)
                late.init_plugin()
                penalty = late.plugin_inst.late_submission_penalty(student, notebook.score, submission.total_seconds_late)
                if penalty is not None:
                    notebook.late_submission_penalty = late._check_late_penalty(notebook, penalty)


class ButtonAutograde(KeepingAutograde):
    """For the formgrader's button, which grades one student: its worker is kept for the next one, and where another button
    is pressed meanwhile it waits. JupyterLab is idle as long, so it does not wait for a class."""

    lock_seconds = Integer(20, min=0, help="How long to wait for another autograde in this course").tag(config=True)

    _kept = KeptWorker()

    def _workers(self) -> Workers:
        return super()._workers() if self.scheduler else self._kept


class TrueFeedback(GenerateFeedback):
    """Feedback pages for what is graded, and for what could not be graded a page that says what to hand in.

    Pages are made again each time: nbgrader leaves an old one where the submission's time is the same.
    """

    force = Bool(True, help="Whether to make pages that are there already again").tag(config=True)

    def __init__(self, coursedir=None, **options):
        super().__init__(coursedir=coursedir, **options)
        theirs = self.config.HTMLExporter  # our page extends theirs
        self.update_config(Config(HTMLExporter={
            "template_name": "gapless_feedback",
            "extra_template_basedirs": [str(_TEMPLATES), *theirs.extra_template_basedirs],
            "extra_template_paths": [*theirs.extra_template_paths, *theirs.extra_template_basedirs]}))

    def start(self):
        try:
            super().start()
        except NoSuchLesson as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    def init_notebooks(self):
        self._assignment = Assignment.open(self.coursedir, self.coursedir.assignment_id)
        self._standings = {student: self._assignment.standing(student)
                           for student in self._assignment.students(self.coursedir.student_id)}
        self.assignments = {}
        for student, standing in self._standings.items():
            if standing.state == UNGRADED:
                self.log.warning("%s: what was handed in is not graded yet; %s", student,
                                 "the page is that of the earlier grading" if standing.pages else "there is no page")
            if standing.pages and standing.state != FAILED:
                folder = self._format_source(self._assignment.lesson, student)
                self.assignments[folder] = [os.path.join(folder, f"{self._assignment.lesson}.ipynb")]
        if not self._standings:
            raise NbGraderException(f"nothing was handed in of {self._assignment.lesson}")

    def convert_notebooks(self):
        for standing in self._standings.values():
            if standing.state == FAILED:
                self._write_reason(standing)
        super().convert_notebooks()

    def set_permissions(self, assignment_id, student_id):
        # A learner fetches the page by the name of the file that was handed in.
        name = self._assignment.handed_in_as(student_id)
        folder = self._assignment.folder(self.coursedir.feedback_directory, student_id)
        page = folder / f"{self._assignment.lesson}.html"
        if name and Path(name).stem != page.stem:
            shutil.copy(page, folder / f"{Path(name).stem}.html")
        super().set_permissions(assignment_id, student_id)

    def _write_reason(self, standing: Standing) -> None:
        folder = self._assignment.folder(self.coursedir.feedback_directory, standing.student)
        submitted = self._assignment.folder(self.coursedir.submitted_directory, standing.student)
        lesson, reason = self._assignment.lesson, html.escape(standing.reason.encode("utf-8", "replace").decode())
        if standing.by_learner:
            words = (f"<p>{reason}.</p><p>Open the notebook in JupyterLab, save it, and hand it in again as {lesson}.ipynb."
                     "</p>")
        else:
            words = ("<p>Grading itself failed. That is not your fault, and you do not have to hand in anything again: "
                     "your instructor has the reason.</p>")
        if standing.score is not None:
            words += f"<p>What you handed in before was graded: its {standing.score:g} points stay until then.</p>"
        page = (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{lesson}: not graded</title></head>'
                f"<body><h1>{lesson} could not be graded</h1>{words}</body></html>\n")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        names = {lesson}
        with contextlib.suppress(OSError):
            names |= {Path(each.name).stem for each in os.scandir(submitted) if each.name.endswith(".ipynb")}
        for name in names:
            (folder / f"{name}.html").write_text(page, encoding="utf-8")
        with contextlib.suppress(SubmissionError):
            for name, content in self._assignment.beside(standing.student).items():
                (folder / name).write_bytes(content)
        super().set_permissions(lesson, standing.student)


@dataclass
class _Begun:
    """A grading under way. ``graded``: whether this very submission was graded before."""

    submitted: Submitted
    graded: bool
    notebook: nbformat.NotebookNode | None = None
    resources: dict | None = None
    job: Job | None = None


class _Failed(Exception):
    """A grading that had begun came to nothing."""

    def __init__(self, begun: _Begun):
        super().__init__()
        self.begun = begun


def use_keeping_autograde() -> None:
    """Make nbgrader's commands and its formgrader use :class:`KeepingAutograde`, :class:`ButtonAutograde` and
    :class:`TrueFeedback`; for ``nbgrader_config.py``.

    nbgrader has no setting for these classes.
    """
    nbgrader.apps.autogradeapp.Autograde = KeepingAutograde
    nbgrader.apps.api.Autograde = ButtonAutograde
    for module in (nbgrader.apps.generatefeedbackapp, nbgrader.apps.api):
        module.GenerateFeedback = TrueFeedback


def _in_words(error: BaseException) -> str:
    if isinstance(error, DBAPIError):
        return f"the gradebook cannot be used: {in_words(error)}"
    return str(error) if isinstance(error, (GradingError, OSError, MissingEntry)) else f"{type(error).__name__}: {error}"


# -- folders that change at once ------------------------------------------------------------------

def _aside(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.{what}")


def _new(place: Path) -> Path:
    """An empty folder beside ``place``, for what is to take its place."""
    new = _aside(place, "new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    return new


def _take_place(place: Path) -> None:
    """Put what was made by :func:`_new` where it belongs. Ended in between, :func:`_mend` puts the old back."""
    before = _aside(place, "before")
    if place.exists():
        os.replace(place, before)
    os.replace(_aside(place, "new"), place)
    shutil.rmtree(before, ignore_errors=True)


def _mend(place: Path) -> None:
    """Clear what a grading that was ended left beside ``place``."""
    before = _aside(place, "before")
    if before.exists() and not place.exists():
        os.replace(before, place)
    for what in ("before", "new"):
        shutil.rmtree(_aside(place, what), ignore_errors=True)
