"""What may befall a class that is graded. After each: no score is lost, doubled or wrong, the same command again completes,
no process and no folder is left. Real faults, but for two that are raised in the system's place, marked (*).

| the fault | where it is tried |
|---|---|
| 1 the grader killed at each step that changes a file | test_autograde: ended_at_any_step |
| 2 the grader killed between any two statements to PostgreSQL | test_gradebook: killed_between_any_two_statements |
| 3 no room for any one file (*) | test_autograde: ended_at_any_step |
| 4 the grader killed, with its workers, in mid-class | test_autograde: ended_by_a_signal[SIGKILL] |
| 5 SIGTERM | test_autograde: ended_by_a_signal[SIGTERM] |
| 6 Ctrl-C, once and twice | test_autograde: ended_by_a_signal[SIGINT] |
| 7 the grader killed at random moments, both gradebooks | here: killed_at_random |
| 8 one worker killed | test_pool: what_dies_is_graded_again |
| 9 each worker killed over one submission, as where memory is short | test_pool: what_dies_is_graded_again |
| 10 all workers killed at once | here: all_workers_at_once |
| 11 a worker without memory | here: all_workers_at_once |
| 12 the learners' server killed | here: servers_killed |
| 13 the device's server killed | here: servers_killed |
| 14 a full disk: autograded/ and results/ | here: full_disk |
| 15 a full disk: the gradebook | here: full_disk |
| 16 a full disk: temporary files | here: full_disk |
| 17 a limit on files' size | here: largest_file |
| 18 the gradebook locked for long | test_autograde: cannot_be_written |
| 19 the gradebook read-only, SQLite and PostgreSQL | test_autograde: cannot_be_written; test_gradebook: refuses |
| 20 the gradebook gone in mid-class | here: gradebook_is_gone; test_gradebook: gone_in_mid_class |
| 21 PostgreSQL crashed and restarted in mid-class | test_gradebook: restarted_in_mid_class |
| 22 PostgreSQL absent from the start, or with another password | test_gradebook: gone_in_mid_class, refuses |
| 23 PostgreSQL without a free connection | here: too_many_connections |
| 24 two graders in one course | test_autograde: a_second_autograde |
| 25 two graders in two folders, one gradebook | test_gradebook: two_graders |
| 26 a submission changed while it is graded | test_autograde: changes_meanwhile |
| 27 a submission deleted while it is graded | here: deleted_meanwhile |
| 28 a student who is not on the roster | here: roster |
| 29 the clock set back (*) | here: clock |
| 30 results/ unusable | here: results_cannot_be_written |
"""

import contextlib
import os
import random
import threading
import time

import psutil
import pytest

from gapless.grading.grade import grade
from gapless.grading.sandbox import servers
from gapless.grading.sandbox.confine import GradingError
from gapless.grading.workers.pool import LocalWorkers, grade_all

from .sandbox.test_servers import fenced
from .test_gradebook import course as in_postgres  # noqa: F401 - fixtures
from .test_gradebook import url  # noqa: F401
from .toy import GOOD_DOUBLE, GOOD_SQUARE, PACKAGE, SLOW_DOUBLE, SLOW_SQUARE, notebook, write
from .toycourse import Course
from .workers.test_pool import job, unconfined  # noqa: F401

pytest.importorskip("nbgrader")
GOOD = notebook(GOOD_DOUBLE, GOOD_SQUARE)
SLOW = notebook(SLOW_DOUBLE, SLOW_SQUARE)
THREE = ("ann", "bob", "cleo")


@pytest.fixture
def course(tmp_path, released):
    course = Course(tmp_path, quick=True, like=released)
    for student in THREE:
        course.submit(student, GOOD)
    return course


def nothing_is_left(course):
    return not [*course.root.glob("*/*/.*"), *(course.root / "tmp").glob("gapless-*")]


FAULT = """
import shutil

def told():
    return Path("log").read_text()

def completes():
    '''The same command again.'''
    assert autograde(log="again") == 0, Path("again").read_text()
    assert scores() == dict.fromkeys(("ann", "bob", "cleo"), FULL) and graded_alike(), scores()
    assert autograde(log="again") == 0 and Path("again").read_text().count("Skipping existing") == 3
    return True

def never_wrong(**more):
    '''What is stored is whole.'''
    assert all(checks == FULL for checks in scores(**more).values()), scores(**more)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 2])
def test_a_submission_that_is_deleted_meanwhile(course, moment):
    """Before its turn, and at it."""
    program = """
shutil.copytree("submitted", "kept")
gradings = []
during.append(lambda: gradings.append(1) or len(gradings) == int(sys.argv[1]) and shutil.rmtree("submitted/bob"))
assert autograde("--Autograde.workers=1", log="log") == 1
never_wrong()
during.clear()
shutil.copytree("kept", "submitted", dirs_exist_ok=True)
print(json.dumps([told(), completes()]))
"""
    log, _ = course.quickly(FAULT + program, moment)
    assert "for student 'bob'" in log and "Traceback" not in log
    assert nothing_is_left(course)


@pytest.mark.slow
def test_a_gradebook_that_is_gone_in_mid_class(course):
    program = """
shutil.copy("gradebook.db", "backup.db")
during.append(lambda: os.path.exists("gradebook.db") and os.remove("gradebook.db"))
assert autograde("--Autograde.workers=1", log="log") == 1
during.clear()
again = autograde(log="again")  # nbgrader has made an empty one
shutil.copy("backup.db", "gradebook.db")
print(json.dumps([told(), again, Path("again").read_text(), completes()]))
"""
    log, again, said, _ = course.quickly(FAULT + program)
    assert "No such assignment" in log and "Traceback" not in log
    assert again == 1 and "generate_assignment" in said
    assert nothing_is_left(course)


@pytest.mark.slow
def test_a_student_who_is_not_on_the_roster(course):
    program = """
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db", "gapless") as gradebook:
    gradebook.add_student("ann"); gradebook.add_student("cleo")
assert autograde("--Autograde.create_student=False", log="log") == 1
first = sorted(scores())
with Gradebook("sqlite:///gradebook.db", "gapless") as gradebook:
    gradebook.add_student("bob")
assert autograde("--Autograde.create_student=False", log="again") == 0
print(json.dumps([first, told(), completes()]))
"""
    first, log, _ = course.quickly(FAULT + program)
    assert first == ["ann", "cleo"] and "No such student: bob" in log and "Traceback" not in log


@pytest.mark.slow
def test_a_clock_that_is_set_back(course):
    """Each look at it shows ten minutes earlier."""
    program = """
def back():
    real, looks = time.time, [0]
    def earlier():
        looks[0] += 1
        return real() - 600 * looks[0]
    time.time = earlier
assert autograde("--Autograde.workers=1", before=back, log="log") == 0, told()
Path("submitted/bob/77_toy/77_toy.ipynb").write_text(Path("submitted/bob/77_toy/77_toy.ipynb").read_text() + " ")
os.utime("submitted/bob/77_toy/77_toy.ipynb", (0, 0))
assert autograde(before=back, log="log") == 0 and told().count("Skipping existing") == 2
print(json.dumps(completes()))
"""
    assert course.quickly(FAULT + program) is True


@pytest.mark.slow
def test_results_cannot_be_written(course):
    program = """
Path("results").write_text("a file")
assert autograde(log="log") == 1
assert scores() == {}
os.remove("results")
print(json.dumps([told(), completes()]))
"""
    log, _ = course.quickly(FAULT + program)
    assert log.count("There was an error processing") == 3 and "results" in log and "Traceback" not in log


FULL_DISK = FAULT + """
where, size = sys.argv[1:]
folder = {"gradebook": "small", "temporary": "tmp"}.get(where, "autograded")
kept = Path(folder).absolute()
if not small(kept, size):
    print(json.dumps(None))
    sys.exit()
options, more = [], {}
if where == "gradebook":
    shutil.copy("gradebook.db", kept)
    url = f"sqlite:///{kept}/gradebook.db"
    options, more = [f"--CourseDirectory.db_url={url}"], {"url": url}
    (kept / "ballast").write_bytes(bytes(4096))
    while True:  # until not one page is free
        try:
            with open(kept / "ballast", "ab") as ballast:
                ballast.write(bytes(4096))
        except OSError:
            break
status = autograde("--Autograde.workers=1", *options, log="log")
assert status == 1, (status, told())
never_wrong(**more)
first = len(scores(**more))
enlarge(kept, "100m")
assert autograde(*options, log="again") == 0, Path("again").read_text()
assert scores(**more) == dict.fromkeys(("ann", "bob", "cleo"), FULL) and graded_alike()
print(json.dumps([first, told(), [path.name for path in Path("tmp").glob("gapless-*")]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("where, size", [("autograded", "8k"), ("gradebook", "400k"), ("temporary", "8k")])
def test_a_full_disk(course, where, size):
    found = course.quickly(FULL_DISK, where, size)
    if found is None:
        pytest.skip("this system lets nobody mount a file system")
    _, log, left = found
    assert ("full" if where == "gradebook" else "No space left") in log and "Traceback" not in log, log
    assert left == [] and nothing_is_left(course)


@pytest.mark.slow
def test_a_limit_on_the_largest_file(course):
    program = """
import resource
for limit in (500, 3000, 20_000):
    for name in ("autograded", "results"):
        shutil.rmtree(name, ignore_errors=True)
    assert autograde("--Autograde.force=True", log="log", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) == 1, limit
    never_wrong()
print(json.dumps(completes()))
"""
    assert course.quickly(FAULT + program) is True
    assert nothing_is_left(course)


@pytest.mark.slow
def test_too_many_connections(in_postgres, postgres, url):  # noqa: F811
    program = """
import psycopg
from sqlalchemy import make_url
url = sys.argv[1]
held = []

def hold():
    try:
        while not held or len(held) < 200:
            held.append(psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)))
    except psycopg.OperationalError:
        pass

during.append(hold)
status = autograde("--Autograde.workers=1", "--Autograde.gradebook_seconds=2", log="log")
during.clear()
log = Path("log").read_text()
again = autograde(log="log")  # what held the connections has ended
print(json.dumps([status, log, again, scores(url)]))
"""
    for student in THREE:
        in_postgres.submit(student, GOOD)
    postgres.execute("alter role gapless superuser")
    status, log, again, scores = in_postgres.quickly(program, url)
    assert status == 1 and "too many clients" in log and "the same command grades the others" in log and "Traceback" not in log
    assert again == 0 and scores == {student: {"check_double": [3.0], "check_square": [3.0]} for student in THREE}


# -- processes ------------------------------------------------------------------------------------

@pytest.mark.slow
def test_all_workers_killed_at_once_and_one_without_memory(tmp_path):
    flag = tmp_path / "begun"
    waits = f"import os, time\nif not os.path.exists({str(flag)!r}):\n    open({str(flag)!r}, 'w'); time.sleep(100)\n"
    jobs = {"ann": job(waits), "bob": job(), "greedy": job("bytearray(2**62)\n"), "dora": job()}
    killed = []

    def kill(executor):
        while not flag.exists():
            time.sleep(0.05)
        for process in psutil.Process().children(recursive=True):
            if process.pid in executor._processes:
                killed.append(process.pid)
                process.kill()

    with LocalWorkers(2) as workers:
        killer = threading.Thread(target=kill, args=(workers.executor,))
        killer.start()
        found = dict(grade_all(jobs.items(), workers))
        killer.join()
    assert len(killed) >= 1 and set(found) == set(jobs)
    assert isinstance(found["greedy"], GradingError) and "MemoryError" in str(found["greedy"])
    for key in ("ann", "bob", "dora"):
        assert sum(check["earned"] for check in found[key].results["checks"]) == 6, (key, found[key])


def of_a_server(module):
    """The process in whose end a server ends, with its sandbox around it."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if f'"module": "{module}"' in " ".join(process.cmdline()):
                found.append((len(process.parents()), process))
    return min(found, key=lambda each: each[0])[1]


@pytest.mark.slow
@fenced
def test_servers_killed_while_they_grade(tmp_path):
    """Right points, or none and a reason; the next submission has its own."""
    good = write(GOOD, tmp_path / "good" / "77_toy.ipynb")
    waits = write(notebook("# exercise: double\nimport time; time.sleep(3)\ndef double(x):\n    return 2 * x\n", GOOD_SQUARE), tmp_path / "77_toy.ipynb")
    with servers.keep_servers():
        assert grade(good, "vgpu", 1, lessons=PACKAGE).score == 6
        for module in ("gapless.grading.sandbox.worker", "gapless.grading.sandbox.device_process"):
            victim = of_a_server(module)
            killer = threading.Timer(1.0, victim.kill)
            killer.start()
            try:
                assert grade(waits, "vgpu", 1, lessons=PACKAGE).score == 6
            except GradingError as error:
                assert "Grade again" in str(error)
            killer.join()
            assert not victim.is_running() or victim.status() == "zombie"
            assert grade(good, "vgpu", 1, lessons=PACKAGE).score == 6
    assert not [each for each in psutil.Process().children(recursive=True) if "bwrap" in each.name()]


# -- at random ------------------------------------------------------------------------------------

AT_RANDOM = """
import random, signal
url, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
quicken(slowly=0.03)
good, slow = (Path(f"{name}.json").read_text() for name in ("good", "slow"))
students = [f"s{number}" for number in range(5)]
due = {}
killed = 0
for number in range(rounds):
    for student in students if number == 0 else draw.sample(students, 2):  # handed in anew
        due[student] = draw.choice(["good", "slow"])
        path = Path("submitted", student, LESSON, f"{LESSON}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((good if due[student] == "good" else slow) + " " * number)
    child = start("--Autograde.workers=2", "--log-level=ERROR", log="log")
    time.sleep(draw.uniform(0, 2.0))
    os.kill(child, signal.SIGKILL)
    killed += finish(child) == -9
    for checks in scores(url).values():
        assert checks in (FULL, LITTLE), (number, checks)
assert autograde(log="log") == 0, Path("log").read_text()
assert scores(url) == {student: FULL if due[student] == "good" else LITTLE for student in students}
assert graded_alike()
import csv
rows = {row["student"]: row for row in csv.DictReader(open(f"results/{LESSON}.csv"))}
assert all(row["state"] == "graded" for row in rows.values()) and set(rows) == set(students), rows
print(json.dumps(killed))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"])
def test_killed_at_random_moments_it_ends_as_one_that_was_not_disturbed(tmp_path, released, kind, request):
    rounds, seed = int(os.environ.get("GAPLESS_TEST_ROUNDS", 3)), random.randrange(10**6)
    if kind == "SQLite":
        course, gradebook = Course(tmp_path, quick=True, like=released), "sqlite:///gradebook.db"
    else:
        course, gradebook = request.getfixturevalue("in_postgres"), request.getfixturevalue("url")
    write(GOOD, tmp_path / "good.json")
    write(SLOW, tmp_path / "slow.json")
    print("seed", seed)
    assert course.quickly(AT_RANDOM, gradebook, seed, rounds) <= rounds
