"""Archives of learning platforms, collected by nbgrader's own zip_collect: whose file it is, and which one counts."""

import json
import unicodedata
import zipfile
from pathlib import PurePosixPath

import pytest

from .toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, notebook
from .toycourse import LESSON, Course

pytest.importorskip("nbgrader")
from nbgrader.api import Gradebook

from gapless.grading.collect import Collected, Roster, Sent, assign, read_place

EXERCISES = ["double", "square"]
ROSTER = [("ada", "Ada", "Lovelace", "ada@example.org", "12345"), ("bob", "Bob", "Smith", None, None),
          ("jg7", "Jürgen", "Groß", None, None), ("am", "Anne-Marie", "O'Neil", None, None),
          ("k1", "Kim", "Lee", None, None), ("k2", "Kim", "Lee", None, "777")]


@pytest.mark.parametrize("place, expected", [
    ("lovelaceada_12345_67890_02_masked_loss.ipynb", Sent("02_masked_loss.ipynb", "lovelaceada", "12345", 67890, False, "Canvas")),
    ("hw/großjürgen_LATE_5_6_x-1.ipynb", Sent("x-1.ipynb", "großjürgen", "5", 6, True, "Canvas")),
    ("de_la_cruzana_5_6_x.ipynb", Sent("x.ipynb", "de_la_cruzana", "5", 6, False, "Canvas")),
    ("anon_Ab1cD_67890_x.ipynb", Sent("x.ipynb", "anon", "Ab1cD", 67890, False, "Canvas")),
    ("lovelaceada_12345_67890_homework/in/x.ipynb", Sent("x.ipynb", "lovelaceada", "12345", 67890, False, "Canvas")),
    ("Ada Lovelace_54321_assignsubmission_file_x.ipynb", Sent("x.ipynb", "Ada Lovelace", "54321", platform="Moodle")),
    ("Ada Lovelace_54321_assignsubmission_file_/x.ipynb", Sent("x.ipynb", "Ada Lovelace", "54321", platform="Moodle")),
    ("all/Ada Lovelace_54321_assignsubmission_file/in/x.ipynb", Sent("x.ipynb", "Ada Lovelace", "54321", platform="Moodle")),
    ("ada--02_masked_loss.ipynb", Sent("ada--02_masked_loss.ipynb", "ada")),
    ("Copy of ada--02_masked_loss (1).ipynb", Sent("Copy of ada--02_masked_loss (1).ipynb", "ada")),
    ("02_masked_loss.ipynb", Sent("02_masked_loss.ipynb")),
])
def test_a_path_tells_who_and_what(place, expected):
    assert read_place(PurePosixPath(place)) == expected


@pytest.mark.parametrize("sent, student", [
    (Sent("", "somebody", "12345", platform="Canvas"), "ada"), (Sent("", "lovelaceada", "9", platform="Canvas"), "ada"),
    (Sent("", "somebody", "12345", platform="Moodle"), None), (Sent("", "Bob Smith", "1", platform="Moodle"), "bob"),
    (Sent("", "Smith, Bob", "1", platform="Moodle"), "bob"), (Sent("", "Group 3-Bob Smith", "1", platform="Moodle"), "bob"),
    (Sent("", "Anne-Marie O'Neil", "1", platform="Moodle"), "am"), (Sent("", "oneilannemarie", "1", platform="Canvas"), "am"),
    (Sent("", unicodedata.normalize("NFD", "JÜRGEN GROSS"), "1", platform="Moodle"), "jg7"),
    (Sent("", "Kim Lee", "1", platform="Moodle"), None), (Sent("", "leekim", "777", platform="Canvas"), "k2"),
    (Sent("", "ada"), "ada"), (Sent("", "Ada Lovelace"), "ada"), (Sent("", "ada@example.org"), "ada"), (Sent("", ""), None),
])
def test_a_platform_s_names_are_found_on_the_roster(sent, student):
    assert Roster(ROSTER).find(sent) == student


def collected(files, roster=ROSTER):
    found = assign({PurePosixPath(name): content for name, content in files.items()}, LESSON, EXERCISES, Roster(roster))
    return {str(path): (each.student, each.file) if isinstance(each, Collected) else each for path, each in found.items()}


def of(*cells, **metadata):
    return json.dumps(notebook(*cells, gapless=metadata) if metadata else notebook(*cells)).encode()


GOOD, SLOW = of(GOOD_DOUBLE, GOOD_SQUARE), of(SLOW_DOUBLE, GOOD_SQUARE)


def test_of_canvas_uploads_the_last_counts_and_the_others_are_kept():
    assert collected({"lovelaceada_12345_100_77_toy.ipynb": SLOW, "lovelaceada_12345_99_77_toy-1.ipynb": SLOW,
                      "lovelaceada_LATE_12345_101_77_toy-2.ipynb": GOOD, "lovelaceada_12345_98_notes.ipynb": of("x")}) == {
        "lovelaceada_12345_100_77_toy.ipynb": ("ada", "77_toy (100).ipynb"), "lovelaceada_12345_99_77_toy-1.ipynb": ("ada", "77_toy-1.ipynb"),
        "lovelaceada_LATE_12345_101_77_toy-2.ipynb": ("ada", "77_toy.ipynb"), "lovelaceada_12345_98_notes.ipynb": ("ada", "notes.ipynb")}


def test_two_that_differ_and_have_no_order_are_both_kept_for_autograde_to_ask():
    one, other = (f"Bob Smith_{n}_assignsubmission_file_/77_toy.ipynb" for n in (1, 2))
    names = {file for _, file in collected({one: GOOD, other: SLOW}).values()}
    assert len(names) == 2 and f"{LESSON}.ipynb" not in names
    assert collected({one: GOOD, other: of(GOOD_DOUBLE, "x = 1", GOOD_SQUARE)})[one] == ("bob", "77_toy.ipynb")  # alike in all that is graded


def test_the_platform_says_who_it_is_not_the_learner():
    """A file that claims to be another's."""
    claims = of(GOOD_DOUBLE, lesson=LESSON, handed_in_by="ada")
    assert collected({"Bob Smith_1_assignsubmission_file_ada--77_toy.ipynb": claims}) == {
        "Bob Smith_1_assignsubmission_file_ada--77_toy.ipynb": ("bob", "77_toy.ipynb")}
    both = collected({"a/bob--77_toy.ipynb": claims, "b/ada--77_toy.ipynb": SLOW})  # where there is no platform both are kept
    assert {student for student, _ in both.values()} == {"ada"} and not {file for _, file in both.values()} & {"77_toy.ipynb"}


def test_plain_files_are_known_by_the_name_inside_the_name_outside_or_the_folder():
    assert collected({"renamed (3).ipynb": of(GOOD_DOUBLE, lesson=LESSON, handed_in_by="Jürgen Groß"), "ada--77_toy (1).ipynb": GOOD,
                      "class/Bob Smith/77_toy.ipynb": GOOD, "77_toy.ipynb": GOOD, "zoe--77_toy.ipynb": GOOD, "broken--77_toy.ipynb": b"{"}) == {
        "renamed (3).ipynb": ("jg7", "77_toy.ipynb"), "ada--77_toy (1).ipynb": ("ada", "77_toy.ipynb"),
        "class/Bob Smith/77_toy.ipynb": ("bob", "77_toy.ipynb"), "zoe--77_toy.ipynb": ("zoe", "77_toy.ipynb"),
        "broken--77_toy.ipynb": ("broken", "broken--77_toy.ipynb"),
        "77_toy.ipynb": "it is not clear whose it is: put it into a folder called like the student, or have it handed in again with lesson.submit(name=…)"}


def test_who_is_on_no_roster_is_somebody_all_the_same_and_namesakes_stay_apart():
    files = {"Kim Lee_1_assignsubmission_file_x.ipynb": GOOD, "Kim Lee_2_assignsubmission_file_x.ipynb": SLOW,
             "Zoë Ünal_3_assignsubmission_file_x.ipynb": GOOD, "zed_4_5_x.ipynb": GOOD, "anon_Q7_9_x.ipynb": GOOD}
    for roster in (ROSTER, []):
        assert [student for student, _ in collected(files, roster).values()] == ["Kim-Lee-1", "Kim-Lee-2", "Zoë-Ünal", "zed-4", "anon-Q7"]


@pytest.fixture
def course(tmp_path, released):
    course = Course(tmp_path, quick=True, like=released)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as gradebook:
        for student, first, last, email, number in ROSTER:
            gradebook.add_student(student, first_name=first, last_name=last, email=email, lms_user_id=number)
    return course


def archive(course, name, files):
    path = course.root / "downloaded" / LESSON / "archive" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for each, content in files.items():
            packed.writestr(each, content)


@pytest.mark.slow
def test_nbgrader_collects_and_grades_the_archives_of_canvas_and_moodle(course):
    archive(course, "submissions.zip", {
        "lovelaceada_LATE_12345_100_ada--77_toy-1.ipynb": GOOD, "lovelaceada_12345_90_77_toy.ipynb": SLOW,
        "großjürgen_8_91_Copy of 77_toy.ipynb": SLOW, "leekim_777_92_77_toy.ipynb.txt": GOOD})
    archive(course, "moodle-77.zip", {
        "Bob Smith_11_assignsubmission_file_/77_toy.ipynb": GOOD, "Bob Smith_11_assignsubmission_file_/notes.txt": b"hello",
        "Group 1-Anne-Marie O'Neil_12_assignsubmission_file_77_toy (2).ipynb": b"{", "Zoë Ünal_13_assignsubmission_file_a.ipynb": GOOD,
        "Zoë Ünal_13_assignsubmission_file_b.ipynb": SLOW, "Kim Lee_14_assignsubmission_file_77_toy.ipynb": SLOW})
    (course.root / "downloaded" / LESSON / "archive" / "77_toy.ipynb").write_bytes(GOOD)
    said = course.nbgrader("zip_collect", LESSON).stderr
    assert "nobody on the roster is 'Zoë Ünal'" in said and "late, says Canvas" in said and "it is not clear whose it is" in said
    there = {str(path.relative_to(course.root / "submitted")) for path in (course.root / "submitted").rglob("*") if path.is_file()}
    assert there == {f"{student}/{LESSON}/{name}" for student, name in [
        ("ada", "77_toy.ipynb"), ("ada", "77_toy (90).ipynb"), ("jg7", "77_toy.ipynb"), ("k2", "77_toy.ipynb.txt"), ("bob", "77_toy.ipynb"),
        ("am", "77_toy (2).ipynb"), ("Zoë-Ünal", "a.ipynb"), ("Zoë-Ünal", "b.ipynb"), ("Kim-Lee", "77_toy.ipynb")]}
    course.nbgrader("autograde", LESSON, check=False)
    rows = course.summary()
    scores = {student: row["score"] for student, row in rows.items() if row["state"] == "graded"}
    assert scores == {"ada": "6", "jg7": "4", "k2": "6", "bob": "6", "Kim-Lee": "4"}
    assert "not JSON" in rows["am"]["reason"] and "2 notebooks" in rows["Zoë-Ünal"]["reason"] and rows["k1"]["state"] == "missing"
    assert "Also handed in, and not graded: 77_toy (90).ipynb" in course.autograded("ada").read_text()


def test_a_second_archive_replaces_with_force(course):
    archive(course, "one.zip", {"lovelaceada_12345_1_77_toy.ipynb": SLOW})
    course.nbgrader("zip_collect", LESSON)
    archive(course, "two.zip", {"lovelaceada_12345_2_77_toy-1.ipynb": GOOD})
    refused = course.nbgrader("zip_collect", LESSON, check=False)
    assert refused.returncode and "--force" in refused.stderr
    course.nbgrader("zip_collect", LESSON, "--force")
    assert (course.root / "submitted" / "ada" / LESSON / f"{LESSON}.ipynb").read_bytes() == GOOD
