"""``gapless new-lesson``: everything or nothing, and clear words for what cannot be. That the lesson works: test_authors."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.commands import new_lesson as module
from gapless.commands.new_lesson import find_repository
from gapless.course.notebooks.submission import cell_source
from gapless.marker import exercise_name

from .. import ROOT

LISTED = "src/gapless/lessons/__init__.py"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The folders that a lesson goes into, with the list of the lessons."""
    root = tmp_path / "repository"
    for folder in ("solutions/02_masked_loss", "tests/lessons/answers", "src/gapless/lessons/masked_loss"):
        (root / folder).mkdir(parents=True)
    shutil.copy(ROOT / LISTED, root / LISTED)
    monkeypatch.chdir(root)
    return root


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else b"" for path in root.rglob("*")}


def test_makes_all_parts_and_says_what_is_next(repository, gapless):
    status, out, _ = gapless("new-lesson", "20_my_lesson", "My lesson")
    assert status == 0 and "make notebooks" in out and "docs/authors.md" in out
    listed = (repository / LISTED).read_text(encoding="utf-8")
    assert listed.count("\nfrom .my_lesson.lesson import LESSON as _MY_LESSON\n") == listed.count("\n    _MY_LESSON,\n") == 1
    written = files(repository)
    for path in (line.strip() for line in out.splitlines() if line.startswith("  ") and line.endswith((".py", ".ipynb"))):
        assert written[path]
    notebook = json.loads(written["solutions/20_my_lesson/20_my_lesson.ipynb"])
    assert [name for cell in notebook["cells"] if (name := exercise_name(cell_source(cell)))] == ["scale_down"]
    code = [path for path in written if path.endswith(".py") and "masked_loss" not in path]
    for path in code:
        ast.parse(written[path])
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), *code], cwd=repository,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_works_in_a_folder_of_the_repository_too(repository, gapless, monkeypatch):
    monkeypatch.chdir(repository / "solutions")
    assert gapless("new-lesson", "11_last", "The last")[0] == 0
    assert (repository / "src/gapless/lessons/last/lesson.py").is_file()


@pytest.mark.parametrize("lesson_id, title, says", [
    ("my_lesson", "My lesson", "is not a lesson's id"),
    ("6_my_lesson", "My lesson", "is not a lesson's id"),
    ("04_Data", "My lesson", "is not a lesson's id"),
    ("04_../x", "My lesson", "is not a lesson's id"),
    ("04_import", "My lesson", "is not a lesson's id"),
    ("20_my_lesson", "", "is not a title"),
    ("20_my_lesson", "two\nlines", "is not a title"),
    ("20_my_lesson", 'a "quote"', "is not a title"),
    ("02_other", "Other", "a lesson with the number 02 already, 02_masked_loss"),
    ("04_masked_loss", "Again", "src/gapless/lessons/masked_loss is there already"),
])
def test_refuses_and_writes_nothing(repository, gapless, lesson_id, title, says):
    before = files(repository)
    status, _, complaint = gapless("new-lesson", lesson_id, title)
    assert status == 2 and says in complaint and files(repository) == before


def test_refuses_what_is_there_of_an_earlier_try(repository, gapless):
    (repository / "tests/lessons/answers/my_lesson.py").touch()
    before = files(repository)
    status, _, complaint = gapless("new-lesson", "20_my_lesson", "My lesson")
    assert status == 2 and "tests/lessons/answers/my_lesson.py is there already" in complaint and files(repository) == before


def test_refuses_a_list_that_it_cannot_read(repository, gapless):
    (repository / LISTED).write_text("LESSONS = {}\n")
    before = files(repository)
    status, _, complaint = gapless("new-lesson", "20_my_lesson", "My lesson")
    assert status == 2 and "fix it first" in complaint and files(repository) == before


@pytest.mark.parametrize("written", [0, 4, 9])
def test_an_error_on_the_way_leaves_everything_as_it_was(repository, gapless, monkeypatch, written):
    before, count, write = files(repository), 0, module.write_bytes

    def full_disk(path, content):
        nonlocal count
        if count == written:
            raise OSError(28, "No space left on device", str(path))
        count += 1
        write(path, content)

    monkeypatch.setattr(module, "write_bytes", full_disk)
    status, _, complaint = gapless("new-lesson", "20_my_lesson", "My lesson")
    assert status == 2 and "No space left" in complaint and files(repository) == before


def test_refuses_outside_the_repository(tmp_path, gapless, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, complaint = gapless("new-lesson", "20_my_lesson", "My lesson")
    assert status == 2 and "is not in the course's repository" in complaint and not list(tmp_path.iterdir())
    assert find_repository(ROOT / "docs") == ROOT
