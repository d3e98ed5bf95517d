"""The gradebook in SQLite and in PostgreSQL: the same of both, whatever becomes of the server."""

import csv
import json

import pytest

from gapless.grading import gradebook as gradebook_module
from gapless.grading.gradebook import GradebookLost, address, opened, patiently, shown, writing
from gapless.grading.sandbox.confine import GradingError

from .. import forked
from .toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, notebook
from .toycourse import LESSON, Course

pytest.importorskip("nbgrader")
from sqlalchemy.exc import InternalError, OperationalError

GOOD = notebook(GOOD_DOUBLE, GOOD_SQUARE)
SLOW = notebook(SLOW_DOUBLE, SLOW_SQUARE)
FULL = {"check_double": [3.0], "check_square": [3.0]}
LITTLE = {"check_double": [1.0], "check_square": [1.0]}
COURSE = "gapless"


@pytest.fixture
def url(postgres, request):
    """Of a gradebook in PostgreSQL in which the assignment is generated, and nothing else."""
    name = f"toy_{abs(hash(request.node.name))}"
    yield postgres.copy_of("toy", name)
    if not postgres.runs:
        postgres.start()
    postgres.execute(f"drop database {name} with (force)")


@pytest.fixture
def course(tmp_path, url):
    return Course(tmp_path, quick=True, url=url)


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def any_url(request, tmp_path, released):
    if request.param == "SQLite":
        Course(tmp_path, like=released)
        return f"sqlite:///{tmp_path}/gradebook.db"
    return request.getfixturevalue("url")


# -- one transaction ------------------------------------------------------------------------------

def students(url):
    with opened(url, COURSE) as gradebook:
        return [student.id for student in gradebook.students]


def test_all_is_stored_or_nothing(any_url):
    with writing(any_url, COURSE, 1) as gradebook:
        gradebook.update_or_create_student("ann")
        gradebook.update_or_create_submission(LESSON, "ann")
        assert students(any_url) == []
    assert students(any_url) == ["ann"]
    with pytest.raises(KeyError), writing(any_url, COURSE, 1) as gradebook:
        gradebook.update_or_create_student("bob")
        gradebook.update_or_create_submission(LESSON, "bob")
        raise KeyError
    assert students(any_url) == ["ann"]


def test_one_writes_at_a_time_and_the_other_waits_for_its_time(any_url):
    with writing(any_url, COURSE, 1) as gradebook:
        gradebook.update_or_create_student("ann")
        with pytest.raises(OperationalError, match="lock"), writing(any_url, COURSE, 1):
            pass
    with writing(any_url, COURSE, 1) as gradebook:
        assert gradebook.find_student("ann")


@pytest.mark.slow
def test_a_writer_that_fell_silent_loses_its_turn(url, monkeypatch):
    """Its machine was cut off, or is asleep: what it had not stored is not there, and it is told."""
    monkeypatch.setattr(gradebook_module, "_HELD_SECONDS", 1)
    with pytest.raises(InternalError, match="idle-in-transaction"), writing(url, COURSE, 5) as silent:
        silent.update_or_create_student("ann")
        with writing(url, COURSE, 30) as gradebook:
            gradebook.update_or_create_student("bob")
        silent.update_or_create_submission(LESSON, "ann")
    assert students(url) == ["bob"]


@pytest.mark.slow
def test_what_the_database_refuses_is_told_as_it_is(url):
    """And not as nbgrader's invalid entry, with a traceback."""
    from sqlalchemy.exc import DataError

    with pytest.raises(DataError, match="too long"), writing(url, COURSE, 1) as gradebook:
        gradebook.update_or_create_student("x" * 200)


def test_patience_is_for_servers_that_come_back():
    told, tries = [], []

    def away():
        tries.append(1)
        raise OperationalError("select 1", {}, Exception("the server\n is away"))

    with pytest.raises(GradebookLost, match="the server is away"):
        patiently("postgresql://u:secret@h/n", 1.5, told.append, away)
    assert len(tries) == 2 and len(told) == 1 and "secret" not in told[0]
    with pytest.raises(GradebookLost):
        patiently("sqlite:///x", 60, told.append, away)
    assert len(tries) == 3 and len(told) == 1
    assert patiently("postgresql://h/n", 1, told.append, lambda: 7) == 7


# -- addresses, drivers ---------------------------------------------------------------------------

def test_an_address_has_limits_and_its_password_is_not_shown():
    given = "postgresql+psycopg://ann:se%40cret@db.example.org/class?connect_timeout=3"
    found = address(given)
    assert found.startswith("postgresql+psycopg://ann:se%40cret@db.example.org/class?") and "tcp_user_timeout=60000" in found
    assert "connect_timeout=3" in found and "connect_timeout=10" not in found
    assert "cret" not in shown(given) and "db.example.org" in shown(given)
    assert address("sqlite:////class/gradebook.db") == "sqlite:////class/gradebook.db"


@pytest.mark.parametrize("wrong", ["nonsense", "postgres://ann@h/class"])
def test_what_is_no_address_says_how_to_write_one(wrong):
    with pytest.raises(GradingError, match=r"postgresql\+psycopg://USER@HOST/NAME"), opened(wrong, COURSE):
        pass


def test_without_the_driver_it_says_what_to_install(tmp_path):
    program = ("import sys; sys.modules['psycopg'] = None\nfrom gapless.grading.gradebook import opened\n"
               "with opened('postgresql+psycopg://ann:secret@h/class', 'gapless'): pass")
    done = forked.run("-c", program, imports=forked.NBGRADER, cwd=tmp_path)
    assert "pip install 'gapless[postgres]'" in done.stderr.splitlines()[-1] and "secret" not in done.stderr


# -- a class --------------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_class_from_the_roster_to_the_table(course, url):
    (course.root / "roster.csv").write_text("id,first_name,last_name,email\nann,Ann,Ö,\nAnn,Other,A,\npia,Pia,P,p@example.org\n")
    course.nbgrader("db", "student", "import", "roster.csv")
    course.nbgrader("db", "assignment", "add", LESSON, "--duedate=2027-01-31 12:00 UTC")
    for student, content in (("ann", GOOD), ("Ann", SLOW), ("bob", "no notebook"), ("zoë x", GOOD), ("x" * 200, GOOD)):
        course.submit(student, content)
    course.submit("ann", "2027-01-31 11:00:00 UTC", "timestamp.txt")
    program = "statuses = [autograde(log='log') for _ in range(2)]\nprint(json.dumps([statuses, scores(sys.argv[1])]))"
    statuses, scores = course.quickly(program, url)
    assert statuses == [1, 1]
    assert dict(scores) == {"ann": FULL, "Ann": LITTLE, "zoë x": FULL}
    log = (course.root / "log").read_text()
    assert "value too long" in log and "Traceback" not in log and "geheim" not in log and log.count("Skipping existing") == 3
    assert {student: row["state"] for student, row in course.summary().items()} == {
        "ann": "graded", "Ann": "graded", "zoë x": "graded", "bob": "failed", "pia": "missing", "x" * 200: "failed"}
    course.nbgrader("generate_feedback", LESSON)
    assert "3 of 3" in course.page("ann") and "could not be graded" in course.page("bob")
    course.nbgrader("export", "--to", "grades.csv")
    with open(course.root / "grades.csv", encoding="utf-8") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert {student: (row["score"], row["state"]) for student, row in rows.items()} == {
        "ann": ("6.0", "graded"), "Ann": ("2.0", "graded"), "zoë x": ("6.0", "graded"), "pia": ("", "missing")}
    assert (rows["ann"]["timestamp"], rows["ann"]["late_submission_penalty"]) == ("2027-01-31 11:00:00", "0.0")


TWO_GRADERS = """
import shutil, random
here, url, rounds = Path.cwd(), sys.argv[1], int(sys.argv[2])
good, slow = ((here / f"{name}.json").read_text() for name in ("good", "slow"))
folders = [here / name for name in ("first", "second")]
students = [f"s{number}" for number in range(6)]
for number in range(rounds):
    for folder in folders:
        for student in students:  # each folder's own, and some of both: there the folders disagree
            if (student in students[:4] if folder is folders[0] else student in students[2:]):
                path = folder / "submitted" / student / LESSON / f"{LESSON}.ipynb"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text((good if folder is folders[0] else slow).replace('"nbformat_minor"', " " * number + '"nbformat_minor"'))
    graders = [start(root=folder, log=str(here / f"{folder.name}.log")) for folder in folders]
    statuses = [finish(each) for each in graders]
    found = scores(url)
    assert set(found) == set(students), found
    for student in students:
        assert found[student] in [{"check_double": [points] * 1, "check_square": [points]} for points in (1.0, 3.0)], found
    assert all(found[student]["check_double"] == [3.0] for student in students[:2]), found
    assert all(found[student]["check_double"] == [1.0] for student in students[4:]), found
    assert all(graded_alike(folder) for folder in folders)
print(json.dumps([statuses, found]))
"""


@pytest.mark.slow
def test_two_graders_in_two_folders_never_mix_or_double_a_score(tmp_path, url):
    """Also where both have a submission of the same student: the last one stored counts, whole."""
    for name in ("first", "second"):
        Course(tmp_path / name, quick=True, url=url)
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    (tmp_path / "slow.json").write_text(json.dumps(SLOW))
    Course(tmp_path, quick=True, url=url).quickly(TWO_GRADERS, url, "2")


# -- a server that is not as it should be ---------------------------------------------------------

@pytest.fixture
def three(course):
    for student in ("ann", "bob", "cleo"):
        course.submit(student, GOOD)
    return course


@pytest.mark.slow
def test_restarted_in_mid_class_it_is_waited_for(three, postgres, url):
    program = """
for number in (60, 150):  # statements
    url, restart = sys.argv[1:]
    assert autograde("--Autograde.workers=1", "--Autograde.force=True", before=at_statement(number, lambda: os.system(restart)), log="log") == 0, Path("log").read_text()
    assert scores(url) == dict.fromkeys(("ann", "bob", "cleo"), FULL)
    assert "cannot be used now" in Path("log").read_text(), number
print(json.dumps(graded_alike()))
"""
    assert three.quickly(program, url, postgres.shell("restart")) is True


@pytest.mark.slow
def test_gone_in_mid_class_the_same_command_goes_on(three, postgres, url):
    program = """
url, stop = sys.argv[1:]
status = autograde("--Autograde.workers=1", "--Autograde.gradebook_seconds=1", before=at_statement(130, lambda: os.system(stop)), log="log")
print(json.dumps([status, Path("log").read_text()]))
"""
    status, log = three.quickly(program, url, postgres.shell("stop"))
    assert status == 1 and "are graded; the same command grades the others" in log and "Traceback" not in log and "geheim" not in log
    status, log = three.quickly(program, url, "true")
    assert status == 1 and "cannot be used: " in log and "No such file or directory" in log and "Traceback" not in log  # absent from the start
    postgres.start()
    assert three.quickly(program, url, "true")[0] == 0
    assert three.quickly("print(json.dumps([scores(sys.argv[1]), graded_alike()]))", url) == [
        dict.fromkeys(("ann", "bob", "cleo"), FULL), True]


@pytest.mark.slow
def test_what_the_server_refuses_is_found_out_before_grading(three, postgres, url, tmp_path):
    program = """
logs = []
for options in (["--CourseDirectory.db_url=" + sys.argv[2]], ["--CourseDirectory.db_url=" + sys.argv[1] + "&options=-cdefault_transaction_read_only=on"]):
    assert autograde(*options, log="log") == 1
    logs.append(Path("log").read_text())
print(json.dumps(logs))
"""
    password, readonly = three.quickly(program, url, url.replace("geheim", "wrong1"))
    assert "password authentication failed" in password and "read-only transaction" in readonly and "nothing was graded" in readonly
    assert "geheim" not in password + readonly and "wrong1" not in password and "Traceback" not in password + readonly
    assert not (tmp_path / "autograded").exists()


@pytest.mark.slow
def test_killed_between_any_two_statements_no_score_is_mixed(three, postgres, url):
    """The server lets go of what a killed grader held."""
    program = """
import signal
url, first, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ended = 0
for number in range(first, 2000, every):
    status = autograde("--Autograde.workers=1", "--Autograde.force=True", before=at_statement(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert all(checks == FULL for checks in scores(url).values()), number
    if status == 0:
        break
    assert status == -9, status
    ended += 1
assert autograde() == 0 and scores(url) == dict.fromkeys(("ann", "bob", "cleo"), FULL) and graded_alike()
print(json.dumps(ended))
"""
    assert three.quickly(program, url, "7", "47") > 3
