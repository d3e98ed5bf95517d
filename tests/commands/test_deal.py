"""``gapless deal``: a copy of the capstone with another program, chosen by a name."""

import json

import pytest

from gapless.commands.cli import main
from gapless.commands.find import open_lesson
from gapless.course.notebooks.stub import handed_out
from gapless.lessons.capstone.lesson import LESSON, PROGRAMS, choose

from .. import ROOT

NOTEBOOK = ROOT / "notebooks" / LESSON.id / f"{LESSON.id}.ipynb"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_copy_holds_the_program_and_is_found_to_be_its_lessons(tmp_path, capsys, name):
    out = tmp_path / "mine.ipynb"
    assert main(["deal", str(NOTEBOOK), "--program", name, "--out", str(out)]) == 0
    assert PROGRAMS[name].title in capsys.readouterr().out
    lesson, submission = open_lesson(out)
    assert lesson.program == name and lesson.max_points == LESSON.max_points
    assert submission.cells["train"].rstrip() == handed_out(lesson.exercises["train"]).rstrip()
    text = "".join("".join(cell["source"]) for cell in json.loads(out.read_text(encoding="utf-8"))["cells"])
    for number, passage in enumerate(PROGRAMS[name].passages):
        others = {other.passages[number] for other in PROGRAMS.values()} - {passage}
        assert passage in text and not any(other in text for other in others)
    assert main(["deal", str(NOTEBOOK), "--program", name, "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_name_always_gives_the_same_program_and_names_differ():
    chosen = [choose(f"learner {number}").name for number in range(40)]
    assert chosen == [choose(f"learner {number}").name for number in range(40)] and set(chosen) == set(PROGRAMS)


@pytest.mark.parametrize("arguments, says", [
    (["--program", "none"], "no program is called 'none'"), (["--learner", "Ada"], "has no cell for")])
def test_what_cannot_be_dealt_says_why_and_writes_nothing(tmp_path, capsys, arguments, says):
    other = ROOT / "notebooks" / "02_masked_loss" / "02_masked_loss.ipynb"
    out = tmp_path / "mine.ipynb"
    assert main(["deal", str(other), *arguments, "--out", str(out)]) == 2
    assert says in capsys.readouterr().err and not out.exists()
