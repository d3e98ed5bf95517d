"""How long a lesson takes: what its notebook, the README and the index state agrees with one rule."""

import importlib.util
import re

import nbformat
import pytest

from gapless.lessons import LESSONS

from . import ROOT

_SPEC = importlib.util.spec_from_file_location("lesson_times", ROOT / "docs" / "lesson_times.py")
lesson_times = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lesson_times)

A_QUARTER = 0.25
TWO_HOURS = 120


def notebook(lesson_id):
    return ROOT / "notebooks" / lesson_id / f"{lesson_id}.ipynb"


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_stated_times_are_within_a_quarter_of_the_estimated(lesson_id):
    estimated = lesson_times.estimated_times(notebook(lesson_id))
    stated = lesson_times.stated_times(notebook(lesson_id))
    listed = {"README.md": (ROOT / "README.md").read_text(encoding="utf-8"),
              "index.ipynb": nbformat.read(ROOT / "notebooks" / "index.ipynb", as_version=4).cells[0].source}
    times = {"the notebook": stated}
    for name, text in listed.items():
        row, = re.findall(rf"^\|[^|]*{lesson_id}\.ipynb\)[^|]*\|[^|]*\|([^|]*)\|", text, re.M)
        times[name] = lesson_times.times(row)
    for said, rule in zip(stated, estimated):
        assert abs(said - rule) <= A_QUARTER * rule, f"stated are {said:g} min, estimated {rule:.0f}"
    assert set(times.values()) == {stated}, times


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_a_core_fits_into_two_hours(lesson_id):
    core = lesson_times.estimated_times(notebook(lesson_id)).core
    assert core <= TWO_HOURS, f"{core:.0f} min: move an exercise below the heading Going further (docs/authors.md)"


@pytest.mark.parametrize("text, minutes", [
    ("45 min", 45), ("about 45 minutes", 45), ("an hour and a half", 90), ("about an hour", 60), ("1 h 30", 90), ("2 h", 120),
    ("about two hours", 120), ("two and a half hours", 150), ("1 h 15 min", 75), ("1.5 hours", 90),
    ("two hours and 20 minutes", 140), ("two hours and three quarters", 165),
])
def test_times_in_words(text, minutes):
    assert lesson_times.minutes(text) == minutes


def test_the_whole_lessons_time_is_in_brackets():
    assert lesson_times.times("about two hours") == (120, 120)
    assert lesson_times.times("1 h 40 (3 h 10 with *Going further*)") == (100, 190)


def test_what_is_no_time_is_refused():
    with pytest.raises(ValueError, match="is no time"):
        lesson_times.minutes("a while")


def test_words_are_those_a_reader_reads():
    text = "![A picture](attachment:a.png) See [the page](https://example.org/a-b) <details><summary>Answer</summary>\n\n| a | `b` |\n|---|---|"
    assert lesson_times.prose(text).split() == ["See", "[the", "page]", "Answer", "a", "b"]


def test_the_estimate_counts_words_cells_and_points(tmp_path):
    v4 = nbformat.v4
    graded = v4.new_code_cell("1", metadata={"nbgrader": {"points": 4}})
    path = tmp_path / "one.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell("word " * 260), v4.new_code_cell("1"), graded]), path)
    minutes = 2 + 2 * 0.5 + 4 * 3.5
    assert lesson_times.estimated_times(path) == (minutes, minutes)
    with pytest.raises(ValueError, match="no row"):
        lesson_times.stated_times(path)


def test_going_further_counts_to_the_whole_lesson_only(tmp_path):
    v4 = nbformat.v4
    texts = ["# Lesson\n" + "word " * 129, "## 7. Going further\n" + "word " * 127, "### Exercise 3\n" + "word " * 128, "## 8. Recap\n" + "word " * 128]
    path = tmp_path / "one.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell(text) for text in texts]), path)
    assert lesson_times.estimated_times(path) == (2, 4)


SYLLABI = (ROOT / "docs" / "syllabi.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^#+ (.*)\n(?:\n|[^|#\n].*\n)*((?:\|.*\n)+)", SYLLABI, re.M)


def sections(lesson_id):
    """Minutes by the section's number, and of what is above the first as "start"."""
    found = {}
    for heading, estimated in lesson_times.section_minutes(notebook(lesson_id)):
        number = re.match(r"(\d+)\. ", heading)
        found[int(number[1]) if number else "start" if heading.startswith("Lesson") else heading] = estimated
    return found


@pytest.mark.parametrize("title, table", TABLES, ids=[title for title, _ in TABLES])
def test_syllabi_add_up_and_are_as_estimated(title, table):
    rows = re.findall(r"^\| (\d+):(\d\d) \| (\d+) \| (.*) \|$", table, re.M)
    assert len(rows) == len(table.splitlines()) - 2
    begins = [60 * int(hour) + int(minute) for hour, minute, *_ in rows]
    for (*_, stated, what), begin, ends in zip(rows, begins, [*begins[1:], None]):
        assert ends in (None, begin + int(stated)), what
        lesson = re.match(r"(\d\d): (start)?((?:(?:, )?\d+(?:–\d+)?)*)", what)
        if lesson:
            minutes = sections(next(each for each in LESSONS if each.startswith(lesson[1])))
            chosen = ["start"] if lesson[2] else []
            for first, last in re.findall(r"(\d+)(?:–(\d+))?", lesson[3]):
                chosen += range(int(first), int(last or first) + 1)
            assert chosen and abs(sum(minutes[each] for each in chosen) - int(stated)) <= 3, (what, stated)
    length = {"Two": 120, "Half": 240}.get(title.split()[0])
    assert length in (None, begins[-1] + int(rows[-1][2]))


def test_there_are_syllabi():
    assert [title.partition(":")[0] for title, _ in TABLES] == ["Two hours", "Half a day", "Day one", "Day two"]
