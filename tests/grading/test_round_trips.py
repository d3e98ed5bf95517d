"""What editors, platforms and tools make of a notebook costs no point: the texts that reach the grader stay the same.

A solved notebook is changed in each known way, put into a student's folder under the name that it would have, and goes the real
way: found in the folder, made plain, given back its cells by RestoreLesson with a real gradebook, and read by the grader. Where
a tool is not here (jupytext, nbstripout), its change is made by hand, as its documentation and its output show it.
"""

import copy
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from gapless.course.notebooks.submission import plain_notebook, read_submission
from gapless.grading.grade import grade
from gapless.grading.submission import find_handed_in
from gapless.lessons import LESSONS
from gapless.marker import exercise_name, file_name

from .. import ROOT, forked

LESSON_IDS = ("02_masked_loss", "10_capstone")  # one cell an exercise; a program of seven files


def solved(lesson):
    return json.loads((ROOT / "solutions" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))


def lines(cell):
    return "".join(cell["source"])


def each_cell(nb, change):
    for number, cell in enumerate(nb["cells"]):
        change(cell, number)
    return nb


def text_cell(source, **more):
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


# -- what changes the notebook ----------------------------------------------------------------------


def colab(nb):
    """As Colab saves it: its own metadata, no ids, the kernel's name alone, outputs with ids, the state of widgets."""
    def change(cell, number):
        cell.pop("id", None)
        cell["metadata"] = {"id": f"a{number:x}Zb"}
        if cell["cell_type"] == "code":
            cell["metadata"] |= {"colab": {"base_uri": "https://localhost:8080/", "height": 35}, "outputId": "0f3a-11",
                                 "executionInfo": {"status": "ok", "timestamp": 1, "user": {"displayName": "Ada"}}}
            cell["execution_count"] = number
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["5 of 5 points\n"]}]

    nb["metadata"] = {"colab": {"provenance": [], "name": "x", "toc_visible": True, "gpuType": "T4"}, "accelerator": "GPU",
                      "kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"},
                      "widgets": {"application/vnd.jupyter.widget-state+json": {"a1": {"model_name": "FloatProgressModel"}}}}
    nb["nbformat_minor"] = 0
    return each_cell(nb, change)


def colab_badge(nb):
    nb["cells"].insert(0, text_cell('<a href="https://colab.research.google.com/github/x"><img alt="Open In Colab"/></a>',
                                    id="view-in-github", metadata={"id": "view-in-github", "colab_type": "text"}))
    nb["cells"].append({"cell_type": "code", "source": [], "metadata": {"id": "empty"}, "execution_count": None, "outputs": []})
    return colab(nb)


def colab_forms(place):
    """A title of a form above or below an exercise's first line, its code hidden."""
    def change(nb):
        for cell in nb["cells"]:
            source = lines(cell)
            if cell["cell_type"] == "code" and (exercise_name(source) or file_name(source)):
                first, _, rest = source.partition("\n")
                title = '# @title Your version { display-mode: "form" }'
                cell["source"] = f"{title}\n{source}" if place == "above" else f"{first}\n{title}\n{rest}"
                cell["metadata"] |= {"cellView": "form"}
        return nb

    return change


def one_text(nb):
    return each_cell(nb, lambda cell, _: cell.update(source=lines(cell)))


def texts_split_and_merged(nb):
    """Each text in two cells, then two of them in one."""
    cells = []
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            cells += [text_cell(part) for part in lines(cell).split("\n\n", 1)]
        else:
            cells.append(cell)
    nb["cells"] = cells
    nb["cells"][0:2] = [text_cell("\n\n".join(lines(cell) for cell in cells[:2]))]
    return nb


def jupyterlab(nb):
    def change(cell, number):
        cell["metadata"] |= {"editable": True, "slideshow": {"slide_type": ""}, "tags": ["mine"], "jupyter": {"source_hidden": True}}
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}]

    nb["metadata"] |= {"kernelspec": {"display_name": "gpu", "language": "python", "name": "conda-env-gpu-py"},
                       "toc-autonumbering": True, "language_info": {"name": "python", "version": "3.13.1", "mimetype": "text/x-python"}}
    return each_cell(nb, change)


def classic(nb):
    def change(cell, number):
        cell.pop("id", None)
        cell["metadata"] |= {"collapsed": True, "scrolled": False, "ExecuteTime": {"end_time": "2026-11-22"}}

    nb["nbformat_minor"] = 4
    nb["metadata"] |= {"varInspector": {"cols": {}}, "toc": {"base_numbering": 1}}
    return each_cell(nb, change)


def vs_code(nb):
    def change(cell, number):
        cell.pop("id", None)
        cell["metadata"] = {"vscode": {"languageId": "python"}} if cell["cell_type"] == "code" else {}

    nb["metadata"] = {"kernelspec": {"display_name": ".venv", "language": "python", "name": "python3"}, "orig_nbformat": 4,
                      "language_info": {"name": "python", "version": "3.12.1"}}
    nb["nbformat_minor"] = 2
    return each_cell(nb, change)


def kaggle(nb):
    def change(cell, number):
        cell.pop("id", None)
        cell["source"] = lines(cell)
        cell["metadata"] = {"_uuid": "8f2839f2", "_cell_guid": "b1076dfc", "trusted": True, "execution": {"iopub.status.busy": "2026"}}

    nb["metadata"] = {"kernelspec": {"language": "python", "display_name": "Python 3", "name": "python3"},
                      "kaggle": {"accelerator": "nvidiaTeslaT4", "dataSources": [], "isInternetEnabled": True}}
    nb["nbformat_minor"] = 4
    each_cell(nb, change)
    nb["cells"].insert(0, {"cell_type": "code", "source": "# This Python 3 environment comes with many libraries\nimport os",
                           "metadata": {}, "outputs": [], "execution_count": None})
    return nb


def deepnote(nb):
    def change(cell, number):
        cell["metadata"] = {"cell_id": f"00{number}", "deepnote_cell_type": cell["cell_type"], "source_hash": "1", "deepnote_to_be_reexecuted": False}
        cell.pop("id", None)

    nb["metadata"] = {"deepnote": {}, "deepnote_notebook_id": "x", "deepnote_execution_queue": []}
    nb["nbformat_minor"] = 0
    each_cell(nb, change)
    nb["cells"].append(text_cell("<a href='https://deepnote.com'>Created in deepnote.com</a>", metadata={"created_in_deepnote_cell": True}))
    return nb


def databricks(nb):
    def change(cell, number):
        cell.pop("id", None)
        cell["metadata"] = {"application/vnd.databricks.v1+cell": {"cellMetadata": {"byteLimit": 1}, "nuid": f"n{number}", "title": ""}}

    nb["metadata"] = {"application/vnd.databricks.v1+notebook": {"language": "python", "notebookName": "x", "widgets": {}}}
    nb["nbformat_minor"] = 0
    return each_cell(nb, change)


def no_metadata(nb):
    nb.pop("metadata")

    def change(cell, number):
        for key in ("metadata", "id", "outputs", "execution_count"):
            cell.pop(key, None)

    return each_cell(nb, change)


def stripped(nb):
    """nbstripout: outputs, counts and most metadata gone, ids counted from 0."""
    def change(cell, number):
        cell |= {"id": str(number), "metadata": {}}
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)

    nb["metadata"].pop("gapless")
    return each_cell(nb, change)


def percent_and_back(nb):
    """jupytext --to py:percent, and back."""
    parts = []
    for cell in nb["cells"]:
        source = lines(cell)
        if cell["cell_type"] == "markdown":
            parts.append("# %% [markdown]\n" + "\n".join(f"# {line}".rstrip() for line in source.splitlines()))
        else:
            parts.append("# %% " + json.dumps(cell["metadata"]) + "\n" + source)
    cells = []
    for part in re.split(r"^# %%", "\n\n".join(parts), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        kind = "markdown" if "[markdown]" in head else "code"
        body = "\n".join(line[2:] for line in body.splitlines()) if kind == "markdown" else body
        cells.append({"cell_type": kind, "metadata": {}, "source": body.strip("\n").splitlines(keepends=True)}
                     | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    return {"cells": cells, "metadata": {"jupytext": {"formats": "ipynb,py:percent"}}, "nbformat": 4, "nbformat_minor": 5}


def merged_by_git(nb):
    """Two versions of each exercise's cell, the older above the newer, as nbdime leaves a conflict that is settled by keeping both."""
    cells = []
    for cell in nb["cells"]:
        if cell["cell_type"] == "code" and exercise_name(lines(cell)):
            older = copy.deepcopy(cell)
            older["source"] = lines(cell) + "\nraise NotImplementedError\n"
            older["id"] = f"{cell['id']}-1"
            cells += [text_cell("`<<<<<<< local`"), older, text_cell("`=======`")]
        cells.append(cell)
    nb["cells"] = cells
    return nb


def windows_lines(nb):
    return each_cell(nb, lambda cell, _: cell.update(source=[line.replace("\n", "\r\n") for line in cell["source"]]))


def old_mac_lines(nb):
    return each_cell(nb, lambda cell, _: cell.update(source=lines(cell).replace("\n", "\r")))


def blanks(nb):
    """Blank lines around a cell's text, blanks at the ends of its lines."""
    return each_cell(nb, lambda cell, _: cell.update(source="\n\n" + lines(cell).replace("\n", "  \n") + "\n\n"))


def attachments_and_outputs_gone_wrong(nb):
    return each_cell(nb, lambda cell, _: cell.update(outputs="none", attachments=3, execution_count="x", metadata=[]))


NOTEBOOKS = {each.__name__: each for each in (
    colab, colab_badge, one_text, texts_split_and_merged, jupyterlab, classic, vs_code, kaggle, deepnote, databricks, no_metadata, stripped,
    percent_and_back, merged_by_git, windows_lines, old_mac_lines, blanks, attachments_and_outputs_gone_wrong)}
NOTEBOOKS |= {f"colab_form_{place}": colab_forms(place) for place in ("above", "below")}


# -- what changes the file --------------------------------------------------------------------------


def text(nb, **options):
    return json.dumps(nb, **{"indent": 1, "ensure_ascii": False, **options})


FILES = {
    "byte order mark": lambda nb: b"\xef\xbb\xbf" + text(nb).encode(),
    "utf-16": lambda nb: text(nb).encode("utf-16"),
    "windows line ends": lambda nb: text(nb).replace("\n", "\r\n").encode(),
    "one line": lambda nb: text(nb, indent=None, separators=(",", ":")).encode(),
    "tabs": lambda nb: text(nb, indent="\t").encode(),
    "ascii": lambda nb: text(nb, ensure_ascii=True).encode(),
    "sorted keys": lambda nb: text(nb, sort_keys=True, indent=4).encode(),
    "blank lines around": lambda nb: b"\n\n " + text(nb).encode() + b"\n\n\n",
    "not a number in outputs": lambda nb: text(nb | {"metadata": {"value": float("nan")}}).encode(),
}
NAMES = ("Copy of {}.ipynb", "Kopie von {}.ipynb", "{} (1).ipynb", "{}-Copy1.ipynb", "{}_1.ipynb", "{}.ipynb.txt", "{}.ipynb.json", "{}.json",
         "{}.IPYNB", "{}", "ada--{}.ipynb", "Untitled12.ipynb", "Übung (2) – ada.ipynb", "mine.ipynb.ipynb")


# -- the way to the grader --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    """The gradebook of a class with both lessons, made by nbgrader."""
    pytest.importorskip("nbgrader")
    course = tmp_path_factory.mktemp("class")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    for lesson in LESSON_IDS:
        shutil.copytree(ROOT / "solutions" / lesson, course / "solutions" / lesson)
        done = forked.run("-m", "nbgrader", "generate_assignment", lesson, imports=forked.NBGRADER, cwd=course)
        assert done.returncode == 0, done.stderr
    return f"sqlite:///{course}/gradebook.db"


@pytest.fixture
def arrived(tmp_path, gradebook):
    """What the grader reads of a file that a student handed in: exercise → text; and the check cells, in order."""
    from gapless.grading.preprocessors import RestoreLesson

    def way(lesson, content, name=None):
        folder = tmp_path / "ada" / lesson
        folder.mkdir(parents=True)
        (folder / (name or f"{lesson}.ipynb")).write_bytes(content)
        (folder / "timestamp.txt").write_text("2026-11-22 12:00:00 UTC")
        names = list(LESSONS[lesson].exercises)
        found = find_handed_in(folder, lesson, names)
        plain = nbformat.from_dict(plain_notebook(found.notebook))
        restored, _ = RestoreLesson().preprocess(plain, {"nbgrader": {"notebook": lesson, "assignment": lesson, "db_url": gradebook}})
        out = tmp_path / "restored.ipynb"
        nbformat.write(restored, out)
        graded = [cell.metadata.nbgrader.grade_id for cell in restored.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        return read_submission(out, {lesson: names}, lesson).cells, graded

    return way


def without_what_editors_change(cells):
    """Blanks at the ends of lines, and Colab's titles, which are comments."""
    return {name: [line.rstrip() for line in source.strip().splitlines() if line.strip() and not re.match(r"\s*# ?@title", line)]
            for name, source in cells.items()}


def check(lesson, arrived):
    wanted = read_submission(ROOT / "solutions" / lesson / f"{lesson}.ipynb", {lesson: list(LESSONS[lesson].exercises)}).cells
    cells, graded = arrived
    assert list(cells) == list(wanted) and without_what_editors_change(cells) == without_what_editors_change(wanted)
    assert graded == [cell["id"] for cell in solved(lesson)["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSON_IDS)
@pytest.mark.parametrize("change", NOTEBOOKS)
def test_a_changed_notebook_has_the_same_exercises(lesson, change, arrived):
    check(lesson, arrived(lesson, text(NOTEBOOKS[change](solved(lesson))).encode()))


@pytest.mark.parametrize("change", FILES)
def test_a_file_written_otherwise_has_the_same_exercises(change, arrived):
    check(LESSON_IDS[0], arrived(LESSON_IDS[0], FILES[change](solved(LESSON_IDS[0]))))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [colab, no_metadata])
def test_a_file_with_another_name_is_found(name, change, arrived):
    """With and without the metadata that name the lesson."""
    check(LESSON_IDS[0], arrived(LESSON_IDS[0], text(change(solved(LESSON_IDS[0]))).encode(), name.format(LESSON_IDS[0])))


@pytest.mark.parametrize("lesson", LESSON_IDS)
def test_jupytext_and_nbstripout_themselves(lesson, arrived, tmp_path):
    pytest.importorskip("jupytext")
    path = tmp_path / f"{lesson}.ipynb"
    path.write_text(text(solved(lesson)), encoding="utf-8")
    for arguments in (["jupytext", "--to", "py:percent", path], ["jupytext", "--to", "ipynb", path.with_suffix(".py")]):
        subprocess.run([sys.executable, "-m", *arguments], check=True, capture_output=True)
    if shutil.which("nbstripout"):
        subprocess.run(["nbstripout", path], check=True)
    check(lesson, arrived(lesson, path.read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("change", [colab_forms("above"), percent_and_back])
def test_a_real_grading_gives_the_same_points(change, tmp_path):
    lesson = LESSON_IDS[0]
    keep = set(list(LESSONS[lesson].exercises)[:2])
    nb = change(solved(lesson))
    nb["cells"] = [cell for cell in nb["cells"] if exercise_name(lines(cell)) in keep]  # two exercises take less time than four
    (tmp_path / f"Copy of {lesson}.ipynb").write_text(text(nb), encoding="utf-8")
    result = grade(tmp_path / f"Copy of {lesson}.ipynb", "vgpu:a10g", 7, lesson=lesson)
    assert result.score == sum(LESSONS[lesson].exercises[name].max_points for name in keep)
