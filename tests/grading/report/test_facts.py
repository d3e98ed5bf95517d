"""What the page and the CSV files of ``gapless class-report`` say of a class, on a real course of nbgrader's."""

import csv
import html
import json
import re
import shutil
import stat
from html.parser import HTMLParser

import pytest

pytest.importorskip("nbgrader")

from nbgrader.api import Gradebook

from gapless.commands.cli import main
from gapless.files import write_private
from gapless.grading.report.facts import Person, Row, causes
from gapless.grading.standing import Standing
from gapless.lessons import LESSONS

from ..toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, notebook
from ..toycourse import LESSON, Course

SCRIPT, FORMULA = "<script>alert(1)<", "=cmd|' C'!A0"  # a folder's name holds no stroke
OWN = """# exercise: double
def double(x):
    found = torch.zeros(len(x), device=x.device)  # {}
    for place, value in enumerate(x.unbind()):
        found[place] = value.mul(4).div(2) + 0 * found.sum()
    weight = found.clone().softmax(0).cumsum(0)
    return torch.where(weight.isnan(), weight, found.reshape(len(x), 1).flatten())
"""
DISGUISED = OWN.format("</pre>").replace("found", "result").replace("weight", "w")


@pytest.fixture(scope="module")
def course(tmp_path_factory, released):
    """A class of nine, two of them with odd names, one changed by hand, one late, one who never handed in."""
    course = Course(tmp_path_factory.mktemp("class"), quick=True, like=released)
    with Gradebook(f"sqlite:///{course.root}/gradebook.db", "gapless") as gradebook:
        gradebook.add_student("ann", first_name="Ann", last_name="<b>Émile</b>", email="ann@example.org")
        gradebook.add_student("pia", first_name="Pia", last_name=" +1+1")
        gradebook.update_or_create_assignment(LESSON, duedate="2026-01-01 12:00:00 UTC")
    for student in ("ann", SCRIPT, FORMULA):
        course.submit(student, notebook(GOOD_DOUBLE, GOOD_SQUARE))
    for student in ("bob", "lea"):
        course.submit(student, notebook(SLOW_DOUBLE, SLOW_SQUARE))
    course.submit("lea", "2026-01-03 18:00:00 UTC", "timestamp.txt")
    course.submit("mia", notebook(OWN.format("<i>mine</i>"), GOOD_SQUARE))
    course.submit("ned", notebook(DISGUISED, SLOW_SQUARE))
    course.submit("cleo", "this is <b>no</b> notebook")
    assert course.nbgrader("autograde", LESSON, check=False).returncode == 1
    with Gradebook(f"sqlite:///{course.root}/gradebook.db", "gapless") as gradebook:
        grade = gradebook.find_grade("check_square", LESSON, LESSON, "bob")
        grade.manual_score = 2.5
        gradebook.find_submission_notebook(LESSON, LESSON, "lea").late_submission_penalty = 0.5
        gradebook.db.commit()
    return course


@pytest.fixture(scope="module")
def report(course, tmp_path_factory):
    """(the page, name → the rows of a CSV)."""
    out = tmp_path_factory.mktemp("out") / "class.html"
    assert main(["class-report", str(course.root), "--out", str(out)]) == 0
    found = {}
    for path in out.parent.glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            found[path.stem.removeprefix("class-")] = list(csv.DictReader(file))
    assert {path.name for path in out.parent.iterdir()} == {"class.html", *(f"class-{name}.csv" for name in found)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.parent.iterdir()} == {0o600}
    return out.read_text(encoding="utf-8"), found


@pytest.mark.slow
def test_points_are_the_gradebooks(report):
    _, tables = report
    assert {row["student"]: (row["state"], row["raw_score"], row["late_penalty"], row["score"]) for row in tables["submissions"]} == {
        "ann": ("graded", "6.0", "0.0", "6.0"), SCRIPT: ("graded", "6.0", "0.0", "6.0"),
        "'" + FORMULA: ("graded", "6.0", "0.0", "6.0"), "bob": ("graded", "3.5", "0.0", "3.5"),
        "lea": ("graded", "2.0", "0.5", "1.5"), "mia": ("graded", "4.0", "0.0", "4.0"), "ned": ("graded", "2.0", "0.0", "2.0"),
        "cleo": ("failed", "", "", ""), "pia": ("missing", "", "", "")}
    changed, = (row for row in tables["points"] if row["by_hand"] == "1")
    assert [changed[name] for name in ("student", "exercise", "points", "auto_points")] == ["bob", "square", "2.5", "1.0"]
    assert next(row for row in tables["submissions"] if row["student"] == "lea")["late_s"] == str((2 * 24 + 6) * 3600.0)


class Page(HTMLParser):
    """The page's tags, and its tables' rows as text by caption."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self.text, self._row, self._caption, self._open = [], {}, [], None, "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "caption":
            self._caption = ""
        if tag == "tr":
            self._row = []
            self.tables.setdefault(self._caption, []).append(self._row)
        if tag in ("td", "th"):
            self._row.append("")
        self._open = tag if tag in ("caption", "td", "th", "small") else self._open

    def handle_endtag(self, tag):
        if tag in ("caption", "td", "th"):
            self._open = None

    def handle_data(self, data):
        self.text.append(data)
        if self._open == "caption":
            self._caption += data
        elif self._open:
            self._row[-1] += (" " if self._open == "small" else "") + data

    def table(self, begins):
        found, = (rows for caption, rows in self.tables.items() if caption.startswith(begins))
        return {row[0]: row[1:] for row in found}


def test_the_page_says_who_has_how_much_and_who_nothing(report):
    page = Page(report[0])
    points = page.table("By student and exercise")
    assert points["student"] == ["doubleof 3", "squareof 3", "sumof 6", "late by", "penalty", "score"]
    assert points["bob"] == ["1", "2.5 by hand, was 1", "3.5", "", "", "3.5"]
    assert points["lea"] == ["1", "1", "2", "2.2 days", "0.5", "1.5"]
    assert points["ann Ann <b>Émile</b>"][-1] == "6"
    assert points["median"] == ["1", "3", "4", "", "", "4"]
    assert points["mean"][-1] == f"{(3 * 6 + 3.5 + 1.5 + 4 + 2) / 7:.2f}"
    whole = page.table("Points by student and lesson")
    assert whole["cleo"] == [" failed", "–"] and whole["pia Pia  +1+1"] == [" missing", "–"] and whole["bob"] == ["3.5", "3.5"]
    assert "is not JSON" in page.table("Score: the one of an earlier")["cleo"][1]
    said = " ".join(page.text)
    assert "7 graded, 1 failed, 1 missing, 1 late" in said and "For the instructor only" in said
    assert re.search(r"In submitted/, and not in the gradebook:\s+cleo", said)


def test_nothing_that_a_learner_wrote_becomes_markup(report):
    text, _ = report
    page = Page(text)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "b", "i", "img", "a:href", "iframe", "object"})
    assert html.escape(SCRIPT) in text and "# &lt;/pre&gt;" in text and "# &lt;i&gt;mine" in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert all(attributes["href"].startswith("#") for tag, attributes in page.tags if tag == "a")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes[name] for _, attributes in page.tags for name in attributes if name == "aria-labelledby"} <= set(ids)


def test_what_most_stumbled_over(report):
    text, tables = report
    assert [(row["exercise"], row["students"], row["message"], row["who"]) for row in tables["causes"]] == [
        ("double", "4", "looked at", "bob; lea; mia; ned"), ("square", "3", "looked at", "bob; lea; ned")]
    alt, = (attributes["aria-label"] for tag, attributes in Page(text).tags if tag == "svg")
    assert "double: 4 of 7; square: 3 of 7" in alt


def test_a_disguised_copy_stands_beside_its_model(report):
    text, tables = report
    pair, = tables["alike"]
    assert (pair["exercise"], pair["who"], pair["least_share"]) == ("double", "mia; ned", "1.0")
    assert text.count("<pre") == 2 and "not a verdict" in text


def test_gradings_without_a_sandbox_or_on_different_devices_are_warned_of(course, tmp_path):
    copy = tmp_path / "course"
    shutil.copytree(course.root, copy, symlinks=True)
    for student, device in (("ann", "vgpu:a10g"), ("bob", "cuda")):
        path = copy / "results" / student / LESSON / f"{LESSON}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "device": device, "confinement": "bubblewrap: no network",
                                    "versions": {"gapless": "1", "torch": "2"}}))
    out = tmp_path / "class.html"
    assert main(["class-report", str(copy), "--lesson", LESSON, "--out", str(out)]) == 0
    text = out.read_text()
    assert "not all were graded with the same device (none: 5; vgpu:a10g: 1; cuda: 1)" in text.lower()
    without = re.search("Graded without a sandbox.*?</p>", text)[0]
    assert "mia" in without and "ann" not in without


@pytest.mark.slow
def test_a_course_that_grades_for_real_says_its_versions(tmp_path, grade_cells):
    result = grade_cells(GOOD_DOUBLE, GOOD_SQUARE).to_json()
    assert set(result["versions"]) == {"gapless", "torch"} and all(result["versions"].values())


def test_the_scores_are_written_for_canvas_and_moodle(course, tmp_path, capsys):
    out, roster = tmp_path / "canvas.csv", tmp_path / "roster.csv"
    roster.write_text(f"Student,ID,SIS Login ID,{LESSON} (7)\nPoints Possible,,,6\nLea,1,lea,\nAnn,2,ann@example.org,\nPia,3,pia,\nX,4,x,\n")
    assert main(["grades", str(course.root), "--for", "canvas", "--roster", str(roster), "--out", str(out)]) == 0
    assert out.read_text().splitlines()[2:5] == ["Lea,1,lea,1.5", "Ann,2,ann@example.org,6", "Pia,3,pia,"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    said = capsys.readouterr().err
    assert "X: on the roster" in said and "bob: in the gradebook" in said and "ann" not in said
    assert main(["grades", str(course.root), "--for", "moodle", "--out", str(out)]) == 0
    assert f"{FORMULA}: left out" in capsys.readouterr().err and "lea,,1.5" in out.read_text()
    assert main(["grades", str(course.root), "--for", "canvas", "--roster", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert "cannot be read" in capsys.readouterr().err and "lea,,1.5" in out.read_text()


def test_messages_about_the_same_mistake_are_one_cause():
    lesson = LESSONS["02_masked_loss"]
    name, exercise = next((name, each) for name, each in lesson.exercises.items() if each.teaching.mistakes)
    why = exercise.teaching.mistakes[0].why

    def row(student, *messages):
        checks = [{"exercise": name, "outcome": "fail", "message": message} for message in messages]
        checks.append({"exercise": name, "outcome": "pass", "message": "Waits 3 times."})
        return Row(Person(student), Standing(student, "graded"), grading={"checks": checks})

    found = causes(lesson.id, [row("ann", "Waits 3 times, at `x.item()`."), row("bob", f"It is 0.25. {why}", "Waits 12 times, at `y`."),
                               row("cleo", f"Of another kind: {why}", "Waits 1 times, at `z`.", "Waits 1 times, at `z`.")])
    apart = causes(lesson.id, [row("dan", "The batches' means, and the classes' sums."), row("eve", "The batches' sums, and the classes' sums.")])
    assert len(apart) == 2
    assert [(each.who, each.example) for each in found] == [
        (("ann", "bob", "cleo"), "Waits 1 times, at `z`."), (("bob", "cleo"), f"It is 0.25. {why}")]


def test_a_name_is_no_formula_in_the_tables_of_grading_either(course):
    course.nbgrader("export", "--to", "grades.csv")
    for name in ("grades.csv", f"results/{LESSON}.csv"):
        with open(course.root / name, encoding="utf-8", newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert "'" + FORMULA in cells and FORMULA not in cells


def test_a_private_file_is_private_whatever_was_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o600 and len(list(tmp_path.iterdir())) == 1
