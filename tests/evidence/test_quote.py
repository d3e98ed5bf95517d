"""The text of a line that a report names."""

import pytest

from gapless.evidence.quote import line_at, quoted
from gapless.lessons.masked_loss.ignore_background import slow

CELLS = {"train": "# exercise: train\ndef train():\n    x = `odd`\n    return   loss.item()\n"}


def line_of(text):
    return 1 + next(i for i, line in enumerate(open(slow.__file__, encoding="utf-8")) if text in line)


@pytest.mark.parametrize("location, text", [
    ('cell "train", line 4', "return   loss.item()"), ('cell "train", line 4 (in its backward pass)', "return   loss.item()"),
    ('cell "train", line 99', None), ('cell "other", line 1', None), ("notebook cell, line 3", None), (None, None),
    ("masked_loss/no_such.py:3", None), ("masked_loss/ignore_background/slow.py:0", None), ("etc/passwd:1", None), ("../etc/x.py:1", None),
])
def test_lines_of_cells_and_of_nothing(location, text):
    assert line_at(location, CELLS) == text


def test_a_line_of_an_imported_module():
    number = line_of("torch.nonzero(")
    assert line_at(f"masked_loss/ignore_background/slow.py:{number}") == "background = torch.nonzero(target == BACKGROUND, as_tuple=True)"


def test_a_file_that_is_not_imported_is_not_read(tmp_path):
    (tmp_path / "secret.py").write_text("password = 1\n")
    assert line_at(f"{tmp_path.name}/secret.py:1") is None


def test_quoted_stands_behind_a_location():
    assert quoted('cell "train", line 4', CELLS) == ": `return   loss.item()`"
    assert quoted('cell "train", line 3', CELLS) == quoted(None) == ""  # a backquote would end the quote


def test_long_lines_are_cut():
    assert len(line_at('cell "long", line 1', {"long": "x" * 500})) == 120
