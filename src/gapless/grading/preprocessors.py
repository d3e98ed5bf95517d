"""What nbgrader runs on a submission in this course, in place of executing it.

nbgrader uses each cell's metadata and what the cells display when they are executed. A learner's
notebook may have lost the one, and the other can be forged. So here cells are known by their marker lines, the
learner's notebook is never executed, and what a grade cell displays is put there by the grader.
"""

from __future__ import annotations

import os

import nbformat
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import determine_grade
from traitlets import Bool, Integer, List, Unicode

from ..course.verdicts import as_html, points
from ..marker import exercise_name
from ..measure.device import VARIABLE
from .notebooks.testnotebook import FOLDER, find_test_notebook
from .sandbox.confine import UNCONFINED, GradingError, require_confinement
from .standing import CHECK
from .workers.job import Job, grade_job


class RestoreLesson(NbGraderPreprocessor):
    """Gives the cells of a submission (as :func:`gapless.course.notebooks.submission.plain_notebook` leaves it) back the
    metadata that the gradebook knows.

    Exercise cells are known by their marker lines (of several the last counts, as in grading), check cells by
    their id or text. What is missing is put back: a check cell behind its exercise, an
    exercise cell as a remark without the marker line, so that it is graded as missing. All other nbgrader
    metadata goes.
    """

    def preprocess(self, nb, resources):
        info = resources["nbgrader"]
        with Gradebook(info["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(info["notebook"], info["assignment"])
            self._source = {cell.name: cell.source for cell in notebook.source_cells}
            grades = {cell.name: cell.max_score for cell in notebook.grade_cells}
            solutions = {cell.name for cell in notebook.solution_cells}
            self._known = {
                cell.name: {"schema_version": 3, "grade_id": cell.name, "grade": cell.name in grades, "task": False,
                            "solution": cell.name in solutions, "locked": cell.locked, "checksum": cell.checksum,
                            "cell_type": cell.cell_type}
                | ({"points": grades[cell.name]} if cell.name in grades else {})
                for cell in notebook.source_cells}
        exercises = [name for name, source in self._source.items() if exercise_name(source) == name]
        cells = [(cell, cell.metadata.pop("nbgrader", {}).get("grade_id")) for cell in nb.cells]
        place = {}
        for i, (cell, stated) in enumerate(cells):
            name = self._recognise(cell, stated, exercises)
            if name is not None:
                if name in place:
                    self.log.warning("cell %s is there more than once; the last one counts", name)
                place[name] = i
        for name, i in place.items():
            cell = cells[i][0]
            cell.metadata["nbgrader"] = dict(self._known[name])
            if self._known[name]["locked"]:
                cell.source = self._source[name]
        restored = {i: [cell] for i, (cell, _) in enumerate(cells)}
        end = restored[len(cells)] = []
        for name in exercises:
            check = CHECK + name
            if name not in place:
                self.log.warning("exercise %s is missing", name)
                gone = self._cell(name, f"# The cell of exercise {name} is missing from this notebook.")
                if check in place:
                    restored[place[check]].insert(-1, gone)
                else:
                    end.append(gone)
            if check in self._known and check not in place:
                self.log.warning("cell %s is missing; it was put back", check)
                (restored[place[name]] if name in place else end).append(self._cell(check, self._source[check]))
        nb.cells = [cell for i in sorted(restored) for cell in restored[i]]
        return nb, resources

    def _recognise(self, cell, stated, exercises):
        if cell.cell_type == "code":
            name = exercise_name(cell.source)
            if name is not None:
                return name if name in exercises else None
        if stated in self._known and stated not in exercises:
            return stated if cell.cell_type == self._known[stated]["cell_type"] else None
        text = cell.source.strip()
        for name, known in self._known.items():
            if known["locked"] and known["cell_type"] == cell.cell_type and self._source[name].strip() == text:
                return name
        return None

    def _cell(self, name, source):
        new = nbformat.v4.new_code_cell if self._known[name]["cell_type"] == "code" else nbformat.v4.new_markdown_cell
        return new(source, metadata={"nbgrader": dict(self._known[name])})


class ReadableText(NbGraderPreprocessor):
    """For feedback's pages: text that nbconvert cannot show, such as one with a picture that is not attached, becomes its
    source, so that nobody goes without a page."""

    # HTMLExporter sets it for all that it runs, and nbgrader's base class would warn that it knows no such option.
    display_data_priority = List(help="Not used: of outputs nothing is shown here").tag(config=True)

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type == "markdown":
            try:
                HTMLExporter().markdown2html({"cell": cell}, cell.source)
            except Exception as error:  # whatever a learner's text brings about
                self.log.warning("cell %d is shown as it was written: %s", index, error)
                cell.source = f"{_FENCE}text\n{cell.source}\n{_FENCE}"
        return cell, resources


_FENCE = "`" * 40  # no text has such


class GradeWithPapermill(NbGraderPreprocessor):
    """Grades the notebook by the lesson's test notebook and shows the result in the grade cells.

    Each grade cell gets one output: its points, which is what nbgrader reads, and for people the checks with
    their messages, and the timeline of the learner's step. The results JSON and the executed test notebook are in
    the resources, ``gapless.results`` and ``gapless.executed``; what ``gapless.notes`` there says is shown to the learner.
    Where it was graded already, ``gapless.outcome`` is that. Where grading itself fails, or there is no sandbox, this raises
    GradingError, so that nothing is stored.
    """

    test_notebooks = Unicode(FOLDER, help="Folder of the test notebooks, from the course's root").tag(config=True)
    device = Unicode("", help="Device to grade on; by default the course's device").tag(config=True)
    unconfined = Bool(False, help="Grade without a sandbox where there is none: graded code can then read and change your "
                                  "files, the gradebook included").tag(config=True)
    attempts = Integer(3, min=1, help="How often to try where a measurement was too noisy to decide").tag(config=True)

    def job(self, nb, resources, here: bool = True) -> Job:
        """What :func:`.workers.job.grade_job` needs for the submission ``nb``. ``here``: on this machine.

        Raises GradingError.
        """
        if here:
            require_confinement(self.unconfined)
        lesson = resources["nbgrader"]["notebook"]
        test_notebook = find_test_notebook(lesson, self.test_notebooks)
        # This machine gets these settings by variables, another one gets them here.
        return Job(lesson, nbformat.writes(nb).encode(), test_notebook.read_bytes(),
                   self.device or os.environ.get(VARIABLE, ""), self.unconfined or os.environ.get(UNCONFINED) == "1",
                   self.attempts)

    def preprocess(self, nb, resources):
        ours = resources.setdefault("gapless", {})
        outcome = ours.get("outcome") or grade_job(self.job(nb, resources), here=False)
        results, executed, info = outcome.results, nbformat.from_dict(outcome.executed), resources["nbgrader"]
        notes = [*ours.get("notes", []), *results["notes"]]
        for cell in nb.cells:
            known = cell.metadata.get("nbgrader", {})
            if known.get("grade") and str(known.get("grade_id", "")).startswith(CHECK):
                self._fill(cell, known, results, executed, notes)
                notes = ()  # once is enough
        ours.update(results=results, executed=executed)
        self.log.info("%s: %g of %g points; %s", info["student"], results["score"], results["max_score"],
                      results["confinement"])
        return nb, resources

    def _fill(self, cell, known, results, executed, notes):
        exercise = known["grade_id"][len(CHECK):]
        checks = [check for check in results["checks"] if check["exercise"] == exercise]
        earned, possible = points(checks)
        if not checks or abs(possible - known["points"]) > 1e-9:
            raise GradingError(f"{known['grade_id']} has {known['points']:g} points in the gradebook and {possible:g} in "
                               "the lesson: run nbgrader generate_assignment again")
        # repr keeps every digit, so that the points are those of results.json.
        data = {"text/plain": repr(float(earned)), "text/html": as_html(checks, notes)}
        table = nbformat.v4.new_output("execute_result", data, execution_count=None)
        cell.outputs = [table, *_pictures(executed, exercise)]
        if determine_grade(cell, self.log) != (earned, float(known["points"])):
            raise GradingError(f"nbgrader would not read {earned:g} points from {known['grade_id']}")


_PICTURE_WIDTH = 800  # pixels: what a feedback page has room for


def _pictures(executed, exercise: str) -> list:
    """The pictures that the test notebook shows for an exercise (its cell's metadata ``gapless.exercise``)."""
    return [nbformat.v4.new_output("display_data", {kind: output["data"][kind] for kind in ("image/png", "text/plain")},
                                   metadata={"image/png": {**output.get("metadata", {}).get("image/png", {}),
                                                           "width": _PICTURE_WIDTH}})
            for cell in executed["cells"] if cell["metadata"].get("gapless", {}).get("exercise") == exercise
            for output in cell.get("outputs", []) if {"image/png", "text/plain"} <= set(output.get("data", {}))]
