"""The formgrader's buttons in JupyterLab: a submission is graded, and the feedback made and read."""

import pytest

from ..grading.toy import GOOD_DOUBLE, GOOD_SQUARE, notebook
from ..grading.toycourse import LESSON, Course

pytest.importorskip("playwright", reason="needs the extra dev")
pytest.importorskip("jupyterlab", reason="needs the extra lab")
from playwright.sync_api import expect

from .lab import choose
from .server import served

pytestmark = pytest.mark.slow


@pytest.fixture
def group(course, tmp_path):
    """Another course like it, in which ann has handed in too."""
    like = Course(tmp_path / "class", like=course.root)
    like.submit("ann", notebook(GOOD_DOUBLE, GOOD_SQUARE))
    return like


@pytest.fixture
def lab(group, tmp_path):
    with served("lab", cwd=group.root, home=tmp_path, GAPLESS_DEVICE="vgpu") as address:
        yield address


def press(form, row, button):
    """Press it in the student's row; what the formgrader says of it, once it is done."""
    row.locator(f".{button} a").click()
    said = form.get_by_role("dialog")
    words = said.inner_text()
    said.get_by_role("button", name="OK").click()
    expect(said).to_have_count(0)
    return words


def test_a_submission_is_graded_and_has_feedback(group, lab, open_page):
    page = open_page(lab)
    choose(page, "Nbgrader", "Formgrader")
    form = page.frame_locator("iframe[src*='formgrader']")
    form.get_by_role("row", name=LESSON).get_by_role("link", name="2", exact=True).click()
    row = form.get_by_role("row", name="ann")
    expect(row).to_contain_text("needs autograding")
    assert "Successfully autograded" in press(form, row, "autograde")
    expect(row).to_contain_text("6 / 6")
    assert "Successfully generated feedback" in press(form, row, "generate-feedback")
    feedback = open_page(group.root / "feedback" / "ann" / LESSON / f"{LESSON}.html")
    assert feedback.get_by_role("heading", name=f"{LESSON} (Score: 6.0 / 6.0)").is_visible()
