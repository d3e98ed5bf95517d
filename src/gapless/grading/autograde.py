"""nbgrader's autograde, made to keep what it has until it has something better.

With ``--force``, or for a newer submission, nbgrader deletes the graded notebook before it grades the new one, and
when grading fails it deletes what there is of that too. Here the earlier one is kept aside and put back.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbgrader.apps.api
import nbgrader.apps.autogradeapp
from nbgrader.converters import Autograde

from .preprocessors import check_submitted


class KeepingAutograde(Autograde):
    """Autograde that never loses an earlier result to a failure, not even when it is killed."""

    def convert_notebooks(self):
        self._finished: set[str] = set()
        self._kept: dict[str, str] = {}
        for assignment_id, student_id in self._found():
            dest = self._destination(assignment_id, student_id)
            if os.path.isdir(_aside(dest)):
                self.log.warning("an earlier grading of %s was cut short: its result from before is put back", dest)
                _put_back(dest)
        try:
            super().convert_notebooks()
        finally:
            for dest in self._kept:
                if dest in self._finished:
                    shutil.rmtree(_aside(dest))
                else:
                    self.log.warning("%s is as it was before this grading", dest)
                    _put_back(dest)

    def _found(self):
        for path in self.assignments:
            path = Path(path)
            yield path.name, path.parent.name

    def _destination(self, assignment_id, student_id):
        return os.path.normpath(self._format_dest(assignment_id, student_id))

    def init_destination(self, assignment_id, student_id):
        dest = self._destination(assignment_id, student_id)
        if os.path.isdir(dest):
            _keep(dest)
            self._kept[dest] = student_id
        proceed = super().init_destination(assignment_id, student_id)
        if not proceed:
            self._finished.add(dest)
        return proceed

    def convert_single_notebook(self, notebook_filename):
        check_submitted(notebook_filename, Path(notebook_filename).stem, ())
        super().convert_single_notebook(notebook_filename)

    def set_permissions(self, assignment_id, student_id):
        super().set_permissions(assignment_id, student_id)
        # nbgrader's last step for a submission.
        self._finished.add(self._destination(assignment_id, student_id))


def use_keeping_autograde() -> None:
    """Make ``nbgrader autograde`` and the formgrader use :class:`KeepingAutograde`; for ``nbgrader_config.py``.

    nbgrader has no setting for the class.
    """
    nbgrader.apps.autogradeapp.Autograde = KeepingAutograde
    nbgrader.apps.api.Autograde = KeepingAutograde


def _aside(dest: str) -> str:
    head, tail = os.path.split(dest)
    return os.path.join(head, f".{tail}.before")


def _keep(dest: str) -> None:
    """Copy ``dest`` aside; the copy has its final name only once it is whole."""
    aside = _aside(dest)
    shutil.rmtree(aside + ".tmp", ignore_errors=True)
    shutil.copytree(dest, aside + ".tmp")
    os.replace(aside + ".tmp", aside)


def _put_back(dest: str) -> None:
    if os.path.isdir(dest):
        shutil.rmtree(dest)
    os.replace(_aside(dest), dest)
