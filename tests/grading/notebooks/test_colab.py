"""The notebooks for Colab: in step with the others, graded like them, and every address made from the one setting."""

import json
import re
import shutil
import tomllib

import pytest

from gapless.course.notebooks.submission import read_submission
from gapless.grading.grade import grade, known_exercises
from gapless.grading.notebooks.colab import CELL, FOLDER, generate_for_colab, install_cell, write_addresses
from gapless.installed import Repository, linked
from gapless.lessons import LESSONS

from ... import ROOT
from ..lessoncells import cells as exercise_cells

COLAB = ROOT / FOLDER
HERE = Repository.of(ROOT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLACES = {"index": "index.ipynb", **{lesson: f"{lesson}/{lesson}.ipynb" for lesson in LESSONS}}
LESSON = "02_masked_loss"


def read(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def test_they_are_those_that_notebooks_generates(tmp_path):
    paths = generate_for_colab(ROOT, tmp_path)
    assert {path.stem for path in paths} == set(PLACES)
    for path in paths:
        assert (COLAB / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), \
            f"colab/{path.name} is not what notebooks/ generates: run make notebooks"
    assert {path.name for path in COLAB.iterdir()} == {path.name for path in paths}


@pytest.mark.parametrize("name", PLACES)
def test_they_differ_by_one_cell_and_by_links(name):
    ours, theirs = read(COLAB / f"{name}.ipynb"), read(ROOT / "notebooks" / PLACES[name])
    first, *rest = ours["cells"]
    assert first["id"] == CELL and first["cell_type"] == "code" and "nbgrader" not in first["metadata"]
    assert ours["metadata"] == theirs["metadata"]
    for cell, other in zip(rest, theirs["cells"], strict=True):
        moved = linked(other["source"], PLACES[name], HERE, colab=True) if other["cell_type"] == "markdown" else other["source"]
        assert cell == other | {"source": moved}
    compile(first["source"], name, "exec")
    assert not re.search(r"\]\(\.\.?/|\]\(\d\d_", "".join(cell["source"] for cell in ours["cells"]))


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_the_grader_finds_the_same_cells(lesson_id):
    ours, theirs = (read_submission(path, known_exercises()) for path in (COLAB / f"{lesson_id}.ipynb", ROOT / "notebooks" / PLACES[lesson_id]))
    assert ours == theirs and set(ours.cells) == set(LESSONS[lesson_id].exercises)


@pytest.mark.slow
def test_a_notebook_from_colab_is_graded_like_any_other(tmp_path):
    notebook, solved = read(COLAB / f"{LESSON}.ipynb"), exercise_cells("solutions", LESSON)
    for cell in notebook["cells"]:
        cell["source"] = solved.get(cell["id"], cell["source"])
    path = tmp_path / f"Copy of {LESSON}.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert grade(path, "vgpu:a10g", 7).score == LESSONS[LESSON].max_points


def test_only_what_a_lesson_needs_is_installed_and_by_name_once_it_is_released():
    metrics = LESSONS["03_metric_collection"].packages
    assert '{"matplotlib": "matplotlib>=3.8", "torchmetrics": "torchmetrics>=1.9,<2"}' in install_cell(PROJECT, HERE, metrics)
    assert f'"gapless @ {HERE.archive}", {{"matplotlib": "matplotlib>=3.8"}}, tried=">=2.11,<2.16"' in install_cell(PROJECT, HERE, ())
    released = {**PROJECT, "tool": {"gapless": {"released": True}}}
    assert f'"gapless=={PROJECT["project"]["version"]}"' in install_cell(released, HERE, ())


# -- addresses ------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """What people edit and addresses stand in, in a folder elsewhere."""
    for name in ("README.md", "pyproject.toml", "docs", "solutions", "notebooks"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=lambda folder, names: [
                each for each in names if "." in each and not each.endswith((".md", ".ipynb"))])
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def test_every_address_agrees_with_the_setting_and_leads_to_a_file(copy):
    assert write_addresses(copy) == [], "run make notebooks"
    for folder in (copy, COLAB):
        for path in [*folder.rglob("*.md"), *folder.rglob("*.ipynb")]:
            for address in re.findall(r"https://colab\.research\.google\.com/github/[^\s)\"\\]+", path.read_text(encoding="utf-8")):
                assert address.startswith(HERE.colab) and (COLAB / address.removeprefix(HERE.colab)).is_file(), (path, address)


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_each_lesson_is_opened_on_colab_from_three_places(lesson_id):
    address = f"]({HERE.colab}{lesson_id}.ipynb)"
    row, = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if f"/{lesson_id}.ipynb)" in line and line.startswith("| [")]
    assert row.endswith(f"[open{address} |")
    assert f"[open{address} |" in read(ROOT / "notebooks" / "index.ipynb")["cells"][0]["source"]
    head = read(ROOT / "notebooks" / PLACES[lesson_id])["cells"][0]
    assert head["cell_type"] == "markdown" and f"[Open in Colab{address}" in head["source"]


def test_another_setting_reaches_every_address(copy):
    project = copy / "pyproject.toml"
    old = f"{HERE.owner}/{HERE.name}/"
    project.write_text(project.read_text().replace(f"{HERE.owner}/{HERE.name}/tree/{HERE.branch}", "ada/course.x/tree/v1.0"))
    changed = {path.relative_to(copy).as_posix() for path in write_addresses(copy)}
    assert changed >= {"README.md", "notebooks/index.ipynb", *(f"solutions/{PLACES[lesson]}" for lesson in LESSONS)}
    assert not [path for path in changed if old in (copy / path).read_text(encoding="utf-8")]
    readme = (copy / "README.md").read_text(encoding="utf-8")
    assert "/github/ada/course.x/blob/v1.0/colab/02_masked_loss.ipynb)" in readme and "(https://ada.github.io/course.x/)" in readme
    assert write_addresses(copy) == []
