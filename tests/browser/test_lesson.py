"""A learner's way through lesson 02, from the index to the file that is handed in, in JupyterLab as ``make lab`` opens it."""

import re
import shutil

import nbformat
import pytest

from .. import ROOT

pytest.importorskip("playwright", reason="needs the extra dev")
pytest.importorskip("jupyterlab", reason="needs the extra lab")
from playwright.sync_api import expect

from .lab import Notebook, choose
from .server import GAPLESS_LAB, served

pytestmark = pytest.mark.slow
LESSON = "02_masked_loss"
HALF_RIGHT = """\
# exercise: ignore_background
def ignore_background(target):
    background = torch.nonzero(target == BACKGROUND, as_tuple=True)
    return target.index_put(background, target.new_full((), IGNORE))"""


def solutions():
    """Exercise → what the instructor's notebook has between the marks of its solution."""
    cells = nbformat.read(ROOT / "solutions" / LESSON / f"{LESSON}.ipynb", as_version=4).cells
    return {cell.id: re.search("### BEGIN SOLUTION\n+(.*)\n### END SOLUTION", cell.source, re.DOTALL)[1]
            for cell in cells if "### BEGIN SOLUTION" in cell.source}


@pytest.fixture
def lab(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    with served(*GAPLESS_LAB, cwd=tmp_path, home=tmp_path, GAPLESS_DEVICE="vgpu:a10g", GAPLESS_HOME=str(tmp_path / "progress")) as address:
        yield address


def test_a_lesson_from_the_index_to_the_file_to_hand_in(lab, open_page, tmp_path):
    page = open_page(lab)
    index = Notebook(page, "gapless: why is my GPU waiting?")
    index.panel.get_by_role("link", name="02 The masked loss").click()
    lesson = Notebook(page, "Lesson 02: the masked loss")

    handed_in = lesson.runs(lesson.cell("lesson.submit()"), lambda: choose(page, "Run", "Run All Cells"))
    expect(handed_in).to_contain_text("there is nothing to hand in yet")
    picture = lesson.cell("slow_report.show()")
    picture.scroll_into_view_if_needed()
    expect(picture.get_by_role("img", name="Timeline of 3 steps on simulated NVIDIA A10G")).to_be_visible()
    expect(picture.get_by_role("button", name="Open this trace in Perfetto")).to_be_visible()

    expect(lesson.run("lesson.check(ignore_background)")).to_contain_text("0 of 5 points")
    lesson.write("# exercise: ignore_background", HALF_RIGHT)
    lesson.run("# exercise: ignore_background")
    said = lesson.run("lesson.check(ignore_background)")
    expect(said).to_contain_text("2 of 5 points")
    expect(said).to_contain_text('nonzero at cell "ignore_background", line 3')
    lesson.uncomment('lesson.hint("ignore_background")')
    expect(lesson.run('lesson.hint("ignore_background")')).to_contain_text("Hint 1 of 3")

    for name, solution in solutions().items():
        lesson.write(f"# exercise: {name}", f"# exercise: {name}\n{solution}")
        lesson.run(f"# exercise: {name}")
        expect(lesson.run(f"lesson.check({name})")).to_contain_text(re.compile(r"\b(\d+) of \1 points"))
    expect(lesson.run("print(lesson.score())")).to_contain_text(re.compile("in all +21 of 21"))
    lesson.save()
    handed_in = lesson.run("lesson.submit()")
    expect(handed_in).to_contain_text(f"To hand in: hand_in/{LESSON}.ipynb")
    expect(handed_in).to_contain_text(re.compile("(.*all [56] points at its check){4}"))
    assert (tmp_path / "notebooks" / LESSON / "hand_in" / f"{LESSON}.ipynb").is_file()
