"""What a class may count on, whatever is handed in and whenever grading is ended: a class of twelve and its faults."""

import csv
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from gapless.files import locked
from gapless.grading.grade import grade
from gapless.grading.spreadsheet import harmless

from .toy import GOOD_DOUBLE, GOOD_SQUARE, PACKAGE, SLOW_DOUBLE, SLOW_SQUARE, code, notebook, write
from .toycourse import LESSON, Course, quick_test_notebook

pytest.importorskip("nbgrader")

GOOD = notebook(GOOD_DOUBLE, GOOD_SQUARE)
SLOW = notebook(SLOW_DOUBLE, SLOW_SQUARE)
FULL = {"check_double": (3, False), "check_square": (3, False)}
LITTLE = {"check_double": (1, False), "check_square": (1, False)}


@pytest.fixture
def course(tmp_path, released):
    return Course(tmp_path, quick=True, like=released)


# -- what is handed in ----------------------------------------------------------------------------

def _odd_text():
    """Things that a notebook of good will may hold, and that stop one tool or another."""
    odd = notebook(GOOD_DOUBLE, "nul = '\x00'", code("print()"), GOOD_SQUARE, "'\ud83d'")
    odd["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 5_000_000}]
    odd["cells"][2]["metadata"] = "none"
    odd["metadata"] = {"kernelspec": {"name": "kernel-of-the-future", "display_name": "?", "language": "?"}}
    return odd


HANDED_IN = {  # student → the state, and words of the reason
    "ann": ("graded", ""), "bob": ("graded", ""), "-mo é": ("graded", ""), "kim": ("graded", ""), "ned": ("graded", ""),
    "ada, lady": ("graded", ""),
    "cleo": ("failed", "not a regular file"), "dan": ("failed", "is not JSON"), "eve": ("failed", "folder"),
    "fay": ("failed", "it is a link"), "gus": ("failed", "hand in 77_toy.ipynb"), "hal": ("failed", "it is a link"),
    "ida": ("failed", "none of the exercises"), "jo": ("failed", "2 notebooks"), "oz": ("failed", "format 3"),
    "quin": ("failed", "not JSON"), "rob": ("failed", "cannot be read"), "sue": ("failed", "no time"),
    "tom": ("failed", "not a readable folder"), "uma": ("failed", "none of the exercises"),
    "pia": ("missing", ""),
}


@pytest.fixture(scope="module")
def odd_class(tmp_path_factory, released):
    """(the course, what the first autograde said, feedback's exit status)."""
    course = Course(tmp_path_factory.mktemp("class"), quick=True, like=released)
    course.nbgrader("db", "student", "add", "pia")

    def folder(student):
        path = course.root / "submitted" / student / LESSON
        path.mkdir(parents=True)
        return path

    for student in ("ann", "-mo é", "ada, lady"):
        course.submit(student, GOOD)
    course.submit("bob", GOOD, f"Copy of {LESSON}.ipynb")
    course.submit("bob", notebook("# exercise: cube\n", gapless={"lesson": "78_other"}), "other.ipynb")
    (folder("kim") / f"{LESSON}.ipynb").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(GOOD).replace("\\n", "\\r\\n").replace(", ", ",\r\n").encode())
    course.submit("ned", _odd_text())
    os.mkfifo(folder("cleo") / f"{LESSON}.ipynb")
    course.submit("dan", "this is <b>no</b> notebook")
    (folder("eve") / f"{LESSON}.ipynb").mkdir()
    (folder("fay") / f"{LESSON}.ipynb").symlink_to(f"{LESSON}.ipynb")
    folder("gus")
    (folder("hal") / f"{LESSON}.ipynb").symlink_to(course.root / "submitted" / "ann" / LESSON / f"{LESSON}.ipynb")
    course.submit("ida", notebook("# exercise: cube\n"))
    course.submit("jo", GOOD, "a.ipynb")
    course.submit("jo", SLOW, "b.ipynb")
    course.submit("oz", {"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}})
    course.submit("quin", "[" * 100_000)
    here = os.getcwd()
    os.chdir(folder("rob"))  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{LESSON}.ipynb")
    os.chdir(here)
    course.submit("sue", GOOD)
    course.submit("sue", "yesterday", "timestamp.txt")
    write("a file", course.root / "submitted" / "tom" / LESSON)
    course.submit("uma", notebook())
    done = course.nbgrader("autograde", LESSON, check=False)
    return course, done, course.nbgrader("generate_feedback", LESSON).returncode


@pytest.mark.slow
def test_each_gets_what_is_due_and_nothing_stops_the_class(odd_class):
    course, done, _ = odd_class
    found = course.summary()
    assert {student: row["state"] for student, row in found.items()} == {
        harmless(name): state for name, (state, _) in HANDED_IN.items()}
    for student, (_, words) in HANDED_IN.items():
        reason = found[harmless(student)]["reason"]
        assert words in reason and reason in done.stderr, student
    assert done.returncode == 1 and "6 graded, 14 failed, 1 missing" in done.stderr
    assert course.scores() == {student: FULL for student, (state, _) in HANDED_IN.items() if state == "graded"}


@pytest.mark.slow
def test_a_second_run_grades_nobody_again_and_says_who_has_no_score(odd_class):
    course, *_ = odd_class
    before = {path: path.stat().st_mtime_ns for path in course.root.glob(f"autograded/*/*/{LESSON}.ipynb")}
    done = course.nbgrader("autograde", LESSON, check=False)
    assert done.returncode == 1 and done.stderr.count("Skipping existing") == len(before) == 6
    assert {path: path.stat().st_mtime_ns for path in course.root.glob(f"autograded/*/*/{LESSON}.ipynb")} == before


@pytest.mark.slow
def test_every_page_is_true(odd_class):
    course, _, status = odd_class
    assert status == 0
    for student, (state, words) in HANDED_IN.items():
        if state == "graded":
            assert "3 of 3 points" in course.page(student)
        elif state == "failed":
            assert "could not be graded" in course.page(student) and f"hand it in again as {LESSON}.ipynb" in course.page(student)
            assert words in course.page(student)
    assert "<b>no" not in course.page("dan")
    # A learner fetches a page by the name of the file that was handed in.
    assert course.page("bob", f"Copy of {LESSON}") == course.page("bob")
    assert f"not {LESSON}.ipynb" in course.page("bob")
    assert not (course.root / "feedback" / "pia").exists()


@pytest.mark.slow
def test_the_export_tells_missing_from_zero(odd_class):
    course, *_ = odd_class
    course.nbgrader("export", "--to", "grades.csv")
    with open(course.root / "grades.csv", encoding="utf-8") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert {student: row["score"] for student, row in rows.items()} == {
        **{harmless(name): "6.0" for name, (state, _) in HANDED_IN.items() if state == "graded"}, "pia": ""}
    assert rows["pia"]["state"] == "missing" and rows["ada, lady"]["state"] == "graded"


@pytest.mark.slow
def test_the_learner_s_file_keeps_its_name(odd_class):
    course, *_ = odd_class
    assert sorted(path.name for path in (course.root / "submitted" / "bob" / LESSON).iterdir()) == [
        f"Copy of {LESSON}.ipynb", "other.ipynb"]
    assert course.autograded("bob").is_file()


# -- again, later, changed ------------------------------------------------------------------------

@pytest.mark.slow
def test_what_is_handed_in_anew_is_graded_anew(course):
    """With no time at all beside it, and with a clock that was set back."""
    course.submit("ann", SLOW)
    course.submit("ann", "2027-01-31 12:00:00 UTC", "timestamp.txt")
    course.nbgrader("autograde", LESSON)
    assert course.scores()["ann"] == LITTLE
    course.submit("ann", GOOD)
    course.submit("ann", "2026-01-31 12:00:00 UTC", "timestamp.txt")
    course.nbgrader("autograde", LESSON)
    assert course.scores()["ann"] == FULL
    course.nbgrader("generate_feedback", LESSON)
    (course.root / "submitted" / "ann" / LESSON / "timestamp.txt").unlink()
    course.submit("ann", "no notebook")
    done = course.nbgrader("autograde", LESSON, check=False)
    assert done.returncode == 1 and "the earlier score stays: 6" in done.stderr
    assert course.scores()["ann"] == FULL and course.summary()["ann"]["state"] == "failed"
    course.nbgrader("generate_feedback", LESSON)
    assert "its 6 points stay" in course.page("ann")


@pytest.mark.slow
def test_a_submission_that_changes_meanwhile_is_not_taken_for_graded(course):
    path = course.submit("ann", SLOW)
    course.grade_by(quick_test_notebook(f"open({str(path)!r}, 'a').write(' ')\n"))
    done = course.nbgrader("autograde", LESSON, check=False)
    assert done.returncode == 1 and course.summary()["ann"]["state"] == "not graded yet"
    course.grade_by(quick_test_notebook())
    course.nbgrader("autograde", LESSON)
    assert course.summary()["ann"]["state"] == "graded"


@pytest.mark.slow
def test_late_penalties_are_stored_with_the_score(course):
    with open(course.root / "nbgrader_config.py", "a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    course.nbgrader("db", "assignment", "add", LESSON, "--duedate=2027-01-01 12:00 UTC")
    for student, day in (("ann", "2026-12-31"), ("bob", "2027-01-02")):
        course.submit(student, GOOD)
        course.submit(student, f"{day} 12:00:00 UTC", "timestamp.txt")
    course.nbgrader("autograde", LESSON)
    course.nbgrader("export", "--to", "grades.csv")
    with open(course.root / "grades.csv", encoding="utf-8") as file:
        found = {row["student_id"]: (row["raw_score"], row["late_submission_penalty"], row["score"]) for row in csv.DictReader(file)}
    assert found == {"ann": ("6.0", "0.0", "6.0"), "bob": ("6.0", "6.0", "0.0")}


@pytest.mark.slow
def test_a_gradebook_from_before_the_grading_is_noticed(course):
    """A backup put back: there is a graded notebook, and no score."""
    course.submit("ann", GOOD)
    before = (course.root / "gradebook.db").read_bytes()
    course.nbgrader("autograde", LESSON)
    (course.root / "gradebook.db").write_bytes(before)
    done = course.nbgrader("generate_feedback", LESSON)
    assert "not graded yet" in done.stderr and not (course.root / "feedback").exists()
    course.nbgrader("autograde", LESSON)
    assert course.scores()["ann"] == FULL


# -- ended in between -----------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("number, times", [(signal.SIGTERM, 1), (signal.SIGKILL, 1), (signal.SIGINT, 1), (signal.SIGINT, 2)])
def test_ended_by_a_signal_it_goes_on_where_it_was(course, number, times):
    for student in ("ann", "bob", "cleo"):
        course.submit(student, GOOD)
    flag = course.root / "second"
    wait = f"import os, time\nwhile os.path.exists({str(flag)!r}): time.sleep(0.1)\n"
    course.nbgrader("autograde", LESSON, "--student", "ann")
    flag.touch()
    course.grade_by(quick_test_notebook(wait))
    process = subprocess.Popen(**course.command("autograde", LESSON), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for line in process.stderr:
        if "Executing notebook with kernel" in line or "Grading 77_toy.ipynb of bob" in line:
            break
    time.sleep(1)
    process.send_signal(number)
    for _ in range(times - 1):
        time.sleep(0.2)
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert course.scores() == {"ann": FULL}
    flag.unlink()
    done = course.nbgrader("autograde", LESSON, "--Autograde.workers=1")
    assert done.stderr.count("Skipping existing") == 1
    assert course.scores() == dict.fromkeys(("ann", "bob", "cleo"), FULL)
    assert not list(course.root.glob("*/*/.*")) and not list((course.root / "tmp").glob("gapless-*"))


ENDINGS = """
import shutil, sqlite3

root = Path.cwd()
submitted = root / "submitted" / "ann" / LESSON / f"{LESSON}.ipynb"
slow, good = ((root / f"{name}.json").read_text() for name in ("slow", "good"))

# How it is before: graded once, an earlier submission.
submitted.write_text(slow)
assert autograde() == 0 and scores() == {"ann": LITTLE}
kept = root / "tmp" / "kept"
for name in ("autograded", "results"):
    shutil.copytree(root / name, kept / name)
shutil.copy("gradebook.db", kept)

def try_step(step, how):
    '''Whether the run came to its end.'''
    for name in ("autograded", "results"):
        shutil.rmtree(root / name)
        shutil.copytree(kept / name, root / name)
    shutil.copy(kept / "gradebook.db", root)
    submitted.write_text(good)
    status = autograde(before=trapped(step, how))
    found = scores()
    assert found in ({"ann": LITTLE}, {"ann": FULL}), (how, step, found)
    if status == 0:
        assert found == {"ann": FULL}, (how, step)
    elif how == "full":
        assert len([*root.glob(f"autograded/ann/*/{LESSON}.ipynb"), *root.glob(f"results/ann/*/{LESSON}.json")]) == 2, (how, step)
    assert autograde() == 0, (how, step)
    assert scores() == {"ann": FULL} and graded_alike(), (how, step)
    return status == 0

every = int(sys.argv[1])
last = next(step for step in range(1, 1000, every) if try_step(step, "kill"))
unfinished = sum(not try_step(step, "full") for step in range(2, last, every))
print(json.dumps([last, unfinished]))
"""


@pytest.mark.slow
def test_ended_at_any_step_nothing_is_lost_and_the_next_run_mends_it(course):
    write(SLOW, course.root / "slow.json")
    write(GOOD, course.root / "good.json")
    (course.root / "submitted" / "ann" / LESSON).mkdir(parents=True)
    steps, unfinished = course.quickly(ENDINGS, "6")  # every sixth step
    assert steps > 20 and unfinished > 3


# -- two at once, a gradebook that cannot be written ----------------------------------------------

@pytest.mark.slow
def test_a_second_autograde_is_refused_and_told_who_is_at_it(course):
    course.submit("ann", GOOD)
    with locked(course.root / ".autograde.lock"):
        done = course.nbgrader("autograde", LESSON, check=False)
    assert done.returncode == 1 and f"another autograde runs in this course (process {os.getpid()} on " in done.stderr
    assert course.scores() == {}
    course.nbgrader("autograde", LESSON)
    assert course.scores() == {"ann": FULL}


def test_a_gradebook_that_cannot_be_written_is_found_out_before_grading(course):
    course.submit("ann", GOOD)
    url = f"sqlite:///file:{course.root}/gradebook.db?mode=ro&uri=true"
    done = course.nbgrader("autograde", LESSON, "--db", url, check=False)
    assert done.returncode == 1 and "readonly database" in done.stderr and "nothing was graded" in done.stderr
    import sqlite3
    with sqlite3.connect(course.root / "gradebook.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        done = course.nbgrader("autograde", LESSON, "--Autograde.gradebook_seconds=1", check=False)
        other.execute("ROLLBACK")
    assert done.returncode == 1 and "database is locked" in done.stderr and "nothing was graded" in done.stderr
    assert not (course.root / "autograded").exists()


# -- the seed -------------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_score_is_repeated_from_the_seed_in_the_results(tmp_path, released):
    """The cell tells its inputs: the same seed gives the same, another one others."""
    course = Course(tmp_path, like=released)
    cell = "# exercise: double\ndef double(x):\n    raise ValueError(str(x.tolist()))\n"
    path = course.submit("ann", notebook(cell, GOOD_SQUARE))
    course.nbgrader("autograde", LESSON)
    folder = tmp_path / "results" / "ann" / LESSON
    stored = json.loads((folder / f"{LESSON}.json").read_text())

    def messages(checks):
        return [check["message"] for check in checks if check["exercise"] == "double"]

    assert "ValueError: [" in messages(stored["checks"])[0]
    again = grade(path, stored["device"], stored["seed"], lessons=PACKAGE).to_json()
    assert messages(again["checks"]) == messages(stored["checks"])
    other = grade(path, stored["device"], stored["seed"] + 1, lessons=PACKAGE).to_json()
    assert messages(other["checks"]) != messages(stored["checks"])
    # It lies where learners do not come.
    course.nbgrader("generate_feedback", LESSON)
    holding = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")
               if path.is_file() and str(stored["seed"]).encode() in path.read_bytes()}
    assert holding == {"results"}
