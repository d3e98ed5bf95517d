"""One cell is changed in a notebook's text, and nothing else."""

import difflib
import json

import nbformat
import pytest

from gapless.course.notebooks.notebook_file import insert_cell, replace_source

from ... import ROOT

RELEASED = (ROOT / "notebooks/02_masked_loss/02_masked_loss.ipynb").read_bytes().decode()
PARSED = json.loads(RELEASED)
NEW = "# exercise: é\nx = \"\\n\"\n"

LAYOUTS = {
    "as nbformat writes": RELEASED,
    "two blanks": json.dumps(PARSED, indent=2, ensure_ascii=False) + "\n",
    "tabs": json.dumps(PARSED, indent="\t", ensure_ascii=False),
    "one line": json.dumps(PARSED, ensure_ascii=False),
    "no blanks": json.dumps(PARSED, separators=(",", ":"), ensure_ascii=False),
    "ASCII": json.dumps(PARSED, indent=1),
    "Windows lines": RELEASED.replace("\n", "\r\n"),
    "unsorted": json.dumps(dict(reversed(PARSED.items())), indent=1, ensure_ascii=False),
}


@pytest.fixture(params=LAYOUTS)
def text(request):
    return LAYOUTS[request.param]


@pytest.mark.parametrize("index", [0, 12, len(PARSED["cells"]) - 1])
def test_only_the_source_changes(text, index):
    changed = replace_source(text, index, NEW)
    expected = json.loads(text)
    expected["cells"][index]["source"] = NEW.splitlines(keepends=True)
    assert json.loads(changed) == expected
    assert replace_source(changed, index, "".join(json.loads(text)["cells"][index]["source"])) == text


def test_a_new_source_is_laid_out_as_nbformat_does(tmp_path):
    notebook = nbformat.reads(RELEASED, 4)
    notebook.cells[12].source = NEW
    assert replace_source(RELEASED, 12, NEW) == nbformat.writes(notebook) + "\n"


def test_a_source_that_is_one_text_stays_one():
    text = json.dumps({"cells": [{"cell_type": "code", "source": "a\nb"}], "nbformat": 4}, indent=1)
    assert replace_source(text, 0, "c\nd") == text.replace(r"a\nb", r"c\nd")


def test_an_ascii_file_stays_one():
    assert replace_source(LAYOUTS["ASCII"], 12, NEW).isascii() and not replace_source(RELEASED, 12, NEW).isascii()


@pytest.mark.parametrize("index", [0, 13, len(PARSED["cells"])])
def test_a_cell_is_put_in(text, index):
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["a\n", "b"]}
    changed = insert_cell(text, index, cell)
    expected = json.loads(text)
    expected["cells"].insert(index, cell)
    assert json.loads(changed) == expected
    lines = [line for line in difflib.ndiff(text.splitlines(), changed.splitlines()) if line[0] in "+-" and len(text.splitlines()) > 1]
    assert len(lines) <= 12, lines  # the cell's ten lines, and a comma behind the one before


def test_of_a_key_that_is_there_twice_the_last_counts():
    text = '{"cells": [], "cells": [{"source": "a", "source": "b"}]}'
    assert replace_source(text, 0, "c") == '{"cells": [], "cells": [{"source": "a", "source": "c"}]}'


@pytest.mark.parametrize("text", ["[]", "{}", '{"cells": {}}', '{"cells": []}'])
def test_raises_when_there_are_no_cells(text):
    with pytest.raises(ValueError, match="cells|no object"):
        insert_cell(text, 0, {})
