"""``gapless reset``: the cell comes back, the rest stays, and what was there is kept."""

import json
import os

import pytest

from gapless.commands import reset as module
from gapless.course.notebooks.stub import handed_out
from gapless.lessons import find_lesson

from .. import ROOT
from .learner import LESSON, SOLVED

RELEASED = (ROOT / "notebooks" / LESSON / f"{LESSON}.ipynb").read_bytes()
STUB = handed_out(find_lesson(LESSON).exercises["ignore_background"])


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def backups(path):
    return sorted(path.parent.glob(f"{path.name}.bak-*"))


def test_one_cell_comes_back_and_the_old_notebook_is_kept(notebook, put, gapless):
    put(notebook, "ignore_background", SOLVED)
    put(notebook, "zero_if_uniform", "# exercise: zero_if_uniform\nmine\n")
    before = notebook.read_bytes()
    status, out, _ = gapless("reset", notebook, "ignore_background")
    backup, = backups(notebook)
    assert status == 0 and "as handed out again" in out and str(backup) in out and backup.read_bytes() == before
    put(notebook, "zero_if_uniform", handed_out(find_lesson(LESSON).exercises["zero_if_uniform"]))
    assert notebook.read_bytes() == RELEASED


def test_all_exercises_come_back_and_everything_else_is_as_it_was(notebook, put, gapless):
    for name in find_lesson(LESSON).exercises:
        put(notebook, name, f"# exercise: {name}\nbroken(\n")
    assert gapless("reset", notebook, "--all")[0] == 0
    assert notebook.read_bytes() == RELEASED


def test_outputs_stay(notebook, gapless):
    content = json.loads(notebook.read_text())
    cell = next(each for each in content["cells"] if each["id"] == "ignore_background")
    cell |= {"source": ["# exercise: ignore_background\n", "print(1)"], "execution_count": 3,
             "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}]}
    notebook.write_text(json.dumps(content))
    gapless("reset", notebook, "ignore_background")
    assert cells(notebook)[content["cells"].index(cell)] == cell | {"source": STUB.splitlines(keepends=True)}


def test_nothing_to_do_writes_nothing(notebook, gapless):
    status, out, _ = gapless("reset", notebook, "--all")
    assert status == 0 and out.count("as handed out already") == 4 and backups(notebook) == []


def test_a_cell_that_is_gone_is_put_before_its_check(notebook, put, gapless):
    put(notebook, "ignore_background", None)
    assert "before its check" in gapless("reset", notebook, "ignore_background")[1]
    names = [cell["id"] for cell in cells(notebook)]
    assert names == [cell["id"] for cell in json.loads(RELEASED)["cells"]]
    assert "".join(cells(notebook)[names.index("ignore_background")]["source"]) == STUB


def test_without_its_check_it_is_put_at_the_end(notebook, gapless):
    content = json.loads(notebook.read_text())
    content["cells"] = [cell for cell in content["cells"] if "ignore_background" not in cell["id"]]
    content["cells"].append({"cell_type": "markdown", "id": "ignore_background", "metadata": {}, "source": "not code"})
    notebook.write_text(json.dumps(content))
    assert "at the end" in gapless("reset", notebook, "ignore_background")[1]
    last = cells(notebook)[-1]
    assert "".join(last["source"]) == STUB and last["id"] == "ignore_background-0"


def test_a_cell_that_lost_its_first_line_is_known_by_its_id(notebook, put, gapless):
    put(notebook, "ignore_background", "def ignore_background(target): pass\n")
    gapless("reset", notebook, "ignore_background")
    assert notebook.read_bytes() == RELEASED


def test_of_two_the_one_that_counts_is_reset(notebook, put, gapless):
    content = json.loads(notebook.read_text())
    mine = {"cell_type": "code", "execution_count": None, "id": "mine", "metadata": {}, "outputs": [], "source": SOLVED}
    content["cells"].append(mine)
    notebook.write_text(json.dumps(content))
    assert "2 times" in gapless("reset", notebook, "ignore_background")[1]
    assert cells(notebook)[-1]["source"] == STUB


def test_what_a_link_leads_to_is_changed(notebook, put, gapless, tmp_path):
    put(notebook, "ignore_background", SOLVED)
    link = tmp_path / "link.ipynb"
    link.symlink_to(notebook)
    assert gapless("reset", link, "ignore_background")[0] == 0
    assert link.is_symlink() and notebook.read_bytes() == RELEASED and backups(notebook)


def test_permissions_and_a_byte_order_mark_stay(notebook, put, gapless):
    put(notebook, "ignore_background", SOLVED)
    notebook.write_bytes(b"\xef\xbb\xbf" + notebook.read_bytes())
    notebook.chmod(0o640)
    gapless("reset", notebook, "ignore_background")
    assert notebook.read_bytes() == b"\xef\xbb\xbf" + RELEASED and notebook.stat().st_mode & 0o777 == 0o640


def test_two_resets_in_one_second_keep_both(notebook, put, gapless):
    for _ in range(2):
        put(notebook, "ignore_background", SOLVED)
        gapless("reset", notebook, "ignore_background")
    assert len(backups(notebook)) == 2


@pytest.mark.parametrize("arguments, says", [
    ((), "name the exercises, or give --all"),
    (("ignore_background", "--all"), "name the exercises, or give --all"),
    (("nothing",), "no exercise 'nothing'"),
])
def test_bad_arguments_are_exit_2(notebook, gapless, arguments, says):
    status, _, err = gapless("reset", notebook, *arguments)
    assert status == 2 and says in err and notebook.read_bytes() == RELEASED and backups(notebook) == []


def test_a_notebook_without_cells_is_exit_2(notebook, gapless):
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    status, _, err = gapless("reset", notebook, "--all")
    assert status == 2 and "no cells at all" in err


def test_where_it_cannot_be_written_the_notebook_is_as_it_was(notebook, put, gapless, monkeypatch):
    put(notebook, "ignore_background", SOLVED)
    before = notebook.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device", str(notebook))

    monkeypatch.setattr(os, "replace", full)
    status, _, err = gapless("reset", notebook, "ignore_background")
    assert status == 2 and "No space left" in err and "as it was" in err and notebook.read_bytes() == before


def test_a_save_in_the_same_moment_wins(notebook, put, gapless, monkeypatch):
    put(notebook, "ignore_background", SOLVED)
    keep = module._keep

    def saved_meanwhile(path):
        backup = keep(path)
        put(path, "ignore_background", SOLVED + "# more\n")
        return backup

    monkeypatch.setattr(module, "_keep", saved_meanwhile)
    status, _, err = gapless("reset", notebook, "ignore_background")
    assert status == 2 and "changed by another program" in err and backups(notebook) == []
    assert b"# more" in notebook.read_bytes()
