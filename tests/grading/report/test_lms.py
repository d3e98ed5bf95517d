"""The CSV files that Canvas and Moodle import, read back."""

import csv
import io

import pytest

pytest.importorskip("nbgrader")

from gapless.grading.report.facts import ClassFacts, LessonFacts, NoClass, Person, Row
from gapless.grading.report.lms import CANVAS, MOODLE, grades
from gapless.grading.standing import GRADED, MISSING, Standing

PEOPLE = [Person("ann", "Ann Émile", "ann@example.org", "101"), Person("bob", "=Bob", "bob@example.org", "102"),
          Person("cleo", "Cleo", "cleo@example.org"), Person("dan", "Dan, Jr.", "Dan@example.org")]
SCORES = {"02_masked_loss": [6.5, 0.0, None, 1 / 3], "08_memory": [None, 3.0, 2.0, 4.0]}


def row(person, score):
    return Row(person, Standing(person.id, MISSING if score is None else GRADED), raw=score, penalty=0.0)


def facts(lessons=tuple(SCORES), people=PEOPLE):
    return ClassFacts(people, [LessonFacts(name, {"a": 4.0, "b": 2.5}, [row(*each) for each in zip(people, SCORES[name])], [], {},
                                           {}, 0) for name in lessons], [])


def read(found):
    return list(csv.DictReader(io.StringIO(found.content.decode(), newline="")))


ROSTER = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,02_masked_loss (771),Quiz (9),Final Score
    Points Possible,,,,,7,10,(read only)
"Émile, Ann",101,,ann,A,,3,12
Bob,102,9,someone,A,1,4,13
"Jr., Dan",44,,dan@example.org,B,,5,14
"Student, Test",45,,c0ffee,B,1,,
"""


def test_a_canvas_export_keeps_its_lines_and_gets_the_scores():
    found = grades(facts(), CANVAS, ROSTER.encode())
    rows = read(found)
    assert list(rows[0]) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "02_masked_loss (771)", "Quiz (9)",
                             "Final Score", "08_memory"]
    assert [(each["Student"], each["ID"], each["02_masked_loss (771)"], each["08_memory"], each["Quiz (9)"]) for each in rows] == [
        ("    Points Possible", "", "7", "6.5", "10"), ("Émile, Ann", "101", "6.5", "", "3"), ("Bob", "102", "0", "3", "4"),
        ("Jr., Dan", "44", "0.3333", "4", "5"), ("Student, Test", "45", "1", "", "")]
    said = "\n".join(found.remarks)
    assert "02_masked_loss: 7 points there, 6.5 here" in said and "08_memory: Canvas has no such assignment" in said
    assert "Student, Test: on the roster, and not in the gradebook" in said
    assert "cleo: in the gradebook, and not on the roster" in said and "ann:" not in said


def test_canvas_without_an_export():
    found = grades(facts(), CANVAS)
    rows = read(found)
    assert [each["Student"] for each in rows] == ["Points Possible", "Ann Émile", "'=Bob", "Cleo", "Dan, Jr."]
    assert [each["ID"] for each in rows] == ["", "101", "102", "", ""] and rows[0]["08_memory"] == "6.5"
    assert [each["SIS Login ID"] for each in rows[1:]] == ["ann", "bob", "cleo", "dan"]
    assert [each["02_masked_loss"] for each in rows[1:]] == ["6.5", "0", "", "0.3333"] and not found.remarks


def test_moodle_s_grade_import():
    people = [*PEOPLE[:3], Person("=cmd")]
    found = grades(facts(people=people), MOODLE)
    assert read(found) == [
        {"Username": "ann", "Email address": "ann@example.org", "02_masked_loss": "6.5", "08_memory": ""},
        {"Username": "bob", "Email address": "bob@example.org", "02_masked_loss": "0", "08_memory": "3"},
        {"Username": "cleo", "Email address": "cleo@example.org", "02_masked_loss": "", "08_memory": "2"}]
    assert found.remarks == ["=cmd: left out, as an identifier begins like a spreadsheet's formula: enter the scores by hand"]


WORKSHEET = """Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed"
Participant 7,Ann,ANN@example.org,Submitted,,6.50,Yes
Participant 8,Cleo,cleo@example.org,,2.00,6.50,Yes
Participant 9,Zoe,zoe@example.org,,1.00,6.50,Yes
"""


def test_a_moodle_worksheet_is_filled():
    found = grades(facts(["02_masked_loss"]), MOODLE, WORKSHEET.encode())
    rows = read(found)
    assert [(each["Identifier"], each["Status"], each["Grade"], each["Maximum Grade"]) for each in rows] == [
        ("Participant 7", "Submitted", "6.5", "6.50"), ("Participant 8", "", "", "6.50"), ("Participant 9", "", "1.00", "6.50")]
    assert [each.partition(":")[0] for each in found.remarks] == ["zoe@example.org", "bob", "dan"]
    assert "6.5 here" in grades(facts(["02_masked_loss"]), MOODLE, WORKSHEET.replace("6.50", "100,00").encode()).remarks[0]


@pytest.mark.parametrize("form, roster, says", [
    (CANVAS, b"", "empty"), (CANVAS, b"\xff\xfe", "no CSV"), (CANVAS, b"Name,Login\n", "no column Student, ID"),
    (CANVAS, b"Student,ID\nX,999\n", "none of the 1 students"),
    (CANVAS, b"Student,ID,02_masked_loss (1),02_masked_loss (2)\n", "2 columns"),
    (CANVAS, b"Student,ID,SIS Login ID\nX,101,bob\n", "may be several"),
    (CANVAS, b"Student,ID,SIS Login ID\nX,101,\nY,,ann\n", "are one student"), (CANVAS, b"Student,ID,ID\n", "twice"),
    (MOODLE, WORKSHEET.encode(), "of one assignment"), (MOODLE, b"Identifier\n", "no column Grade")])
def test_a_roster_that_cannot_be_used_is_refused(form, roster, says):
    with pytest.raises(NoClass, match=says):
        grades(facts(), form, roster)
    with pytest.raises(NoClass, match="neither"):
        grades(facts(["08_memory"]), MOODLE, b"Identifier,Grade\n")


def test_a_platform_s_number_is_no_login():
    """Somebody's login may be another's number."""
    people = [Person("101", "A"), Person("ann", "B")]
    found = grades(facts(["08_memory"], people), CANVAS, b"Student,ID,SIS Login ID\nB,101,ann\n")
    assert read(found)[0]["08_memory"] == "3"
