"""The gradebook as a table that tells a missing score from 0."""

from __future__ import annotations

from dataclasses import replace

from nbgrader.api import MissingEntry
from nbgrader.plugins import ExportPlugin

from ..files import write_bytes
from .spreadsheet import written
from .standing import Assignment, NoSuchLesson, stored_score

_COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
            "late_submission_penalty", "score", "max_score", "state", "reason")


class TrueCsv(ExportPlugin):
    """nbgrader's CSV with the same columns, where what was not graded has no score instead of 0, and two more: the
    ``state`` of the submission (graded, failed, not graded yet, missing) and the ``reason`` where grading failed.

    A score beside another state than ``graded`` is that of an earlier submission.
    """

    def export(self, gradebook):
        rows: list = [_COLUMNS]
        for assignment in gradebook.assignments:
            if self.assignment and assignment.name not in map(str, self.assignment):
                continue
            try:
                lesson = replace(Assignment.open(self.parent.coursedir, assignment.name), gradebook=gradebook)
            except NoSuchLesson:  # an instructor's own
                lesson = None
            for student in gradebook.students:
                if self.student and student.id not in map(str, self.student):
                    continue
                timestamp = penalty = raw = score = None
                try:
                    submission = gradebook.find_submission(assignment.name, student.id)
                except MissingEntry:
                    pass
                else:
                    timestamp, raw = submission.timestamp, stored_score(submission)
                    if raw is not None:
                        penalty = submission.late_submission_penalty
                        score = max(0.0, raw - penalty)
                standing = lesson.standing(student.id) if lesson else None
                row = [assignment.name, assignment.duedate, timestamp, student.id, student.last_name, student.first_name,
                       student.email, raw, penalty, score, assignment.max_score,
                       standing and standing.state, standing and standing.reason]
                rows.append(row)
        path = self.to or "grades.csv"
        write_bytes(path, written(rows))
        self.log.info("Exported to %s", path)
