"""Pages in the system's Chromium. What each showed in the end lies in the test's folder."""

import contextlib
import runpy
from pathlib import Path

import pytest

from .. import ROOT
from ..grading.toy import GOOD_DOUBLE, SLOW_SQUARE, notebook
from ..grading.toycourse import LESSON, Course

PATIENCE_MS = 300_000  # with other tests on the machine


# Before all else here, which is for nothing where there is no browser. Not for the whole run: while playwright is there, nothing else
# in this process can run an event loop.
@pytest.fixture(scope="package", autouse=True)
def browser():
    chromium = runpy.run_path(str(ROOT / "docs" / "screenshots" / "browser.py"))["chromium"]
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(chromium())
        except LookupError as missing:
            pytest.skip(str(missing))
        from playwright.sync_api import expect

        expect.set_options(timeout=PATIENCE_MS)
        yield found


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a page at an address or file: ``open_page(address, width=1280, dark=False)``."""
    pages = []
    print(f"What the pages showed in the end: {tmp_path}/page_*.png")

    def opened(address, width=1280, dark=False):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        context.set_default_timeout(PATIENCE_MS)
        pages.append(context.new_page())
        pages[-1].goto(address.as_uri() if isinstance(address, Path) else address)
        return pages[-1]

    yield opened
    for number, page in enumerate(pages):
        page.screenshot(path=tmp_path / f"page_{number}.png", full_page=True)
        page.context.close()


@pytest.fixture(scope="package")
def course(tmp_path_factory):
    """The toy course, in which bob has one of two exercises right, is graded and has feedback."""
    pytest.importorskip("nbgrader")
    course = Course(tmp_path_factory.mktemp("course"))
    course.nbgrader("generate_assignment", LESSON)
    course.submit("bob", notebook(GOOD_DOUBLE, SLOW_SQUARE))
    course.nbgrader("autograde", LESSON)
    course.nbgrader("generate_feedback", LESSON)
    return course
