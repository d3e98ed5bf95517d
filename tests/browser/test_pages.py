"""The pages that gapless writes, at a desk and on a phone, in light and dark: of an audit, of feedback, of a class, of the site."""

import gzip
import json

import pytest

from .. import forked
from ..audit.scripts import WAITING
from ..grading.toycourse import LESSON
from ..test_site import build

pytest.importorskip("axe_playwright_python", reason="needs the extra dev")
from playwright.sync_api import expect

from .reading import DESK, PHONE, barriers, sticking_out

pytestmark = pytest.mark.slow

# A line of code that is one word, and longer than a phone is wide.
SCRIPT = WAITING.replace("if loss.item() > 100", f"if loss.item() > {'largest_loss_' * 6}").replace(
    "\nfor step", f"\n{'largest_loss_' * 6} = 100\nfor step")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """The page of a script that waits, and its trace beside it."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "train.py").write_text(SCRIPT)
    done = forked.run("-m", "gapless.commands.cli", "audit", "--host", "counted", "--watch", "0", "--device", "vgpu:a10g", "train.py",
                      cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "train.audit.html"


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_an_audit(open_page, audit, width, dark):
    page = open_page(audit, width, dark)
    assert not sticking_out(page) and not barriers(page)
    waits = page.get_by_role("heading", name="Waits, by line").locator("xpath=following::table[1]")
    *_, where, advice = waits.locator("tbody tr").first.locator("td").all()
    assert "largest_loss" in where.inner_text() and "every 100 steps" in advice.inner_text()
    where, advice = where.bounding_box(), advice.bounding_box()
    if width == PHONE:
        assert advice["y"] >= where["y"] + where["height"] and advice["width"] > 0.8 * width
    else:
        assert advice["y"] == where["y"] and advice["x"] >= where["x"] + where["width"]
    assert page.get_by_role("img", name="Timeline of 3 steps").is_visible()


# Perfetto's page, as far as the button's protocol goes ("Deep linking to the Perfetto UI" in its documentation).
PERFETTO = """<script>addEventListener("message", event => {
  if (event.data === "PING") event.source.postMessage("PONG", "*");
  else window.opened = event.data.perfetto;
})</script>"""


def test_the_audits_trace_opens_in_perfetto_and_can_be_saved(open_page, audit, tmp_path):
    page = open_page(audit)
    page.context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(content_type="text/html", body=PERFETTO))
    beside = gzip.decompress(audit.with_name("train.audit.trace.json.gz").read_bytes())
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open this trace in Perfetto").press("Enter")
    perfetto = opened.value
    perfetto.wait_for_function("window.opened")
    handed_over = perfetto.evaluate("Array.from(new Uint8Array(window.opened.buffer))")
    assert json.loads(gzip.decompress(bytes(handed_over))) == json.loads(beside)
    assert "simulated NVIDIA A10G" in perfetto.evaluate("window.opened.title")
    with page.expect_download() as saved:
        page.get_by_role("link", name="save it").click()
    saved.value.save_as(tmp_path / "saved.gz")
    assert gzip.decompress((tmp_path / "saved.gz").read_bytes()) == gzip.decompress(bytes(handed_over))


@pytest.mark.parametrize("width", [DESK, PHONE])  # nbgrader's pages are light
def test_feedback(open_page, course, width):
    page = open_page(course.root / "feedback" / "bob" / LESSON / f"{LESSON}.html", width)
    assert not sticking_out(page) and not barriers(page, advice=False)
    page.get_by_role("link", name="square", exact=True).click()
    expect(page.locator(".panel-heading", has_text="Check of square")).to_be_in_viewport()
    assert page.get_by_role("img", name="Timeline of 3 steps").count() == 2


@pytest.fixture(scope="module")
def report(course, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "class.html"
    done = forked.run("-m", "gapless.commands.cli", "class-report", course.root, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("width, dark", [(DESK, False), (PHONE, True)])
def test_a_class(open_page, report, width, dark):
    page = open_page(report, width, dark)
    assert not sticking_out(page) and not barriers(page)
    page.get_by_role("navigation").get_by_role("link", name=LESSON).press("Enter")
    expect(page.get_by_role("heading", name=LESSON)).to_be_in_viewport()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A few of the site's pages, in the form of all: an index, tables, a picture, a lesson."""
    return build(tmp_path_factory.mktemp("site"),
                 "-D", "include_patterns=index.md,docs/audit.md,docs/architecture.md,notebooks/02*/*.ipynb")


@pytest.mark.parametrize("name", ["index", "docs/audit", "docs/architecture", "notebooks/02_masked_loss/02_masked_loss"])
@pytest.mark.parametrize("width, dark", [(DESK, False), (PHONE, True)])
def test_the_site(open_page, site, name, width, dark):
    page = open_page(site / f"{name}.html", width, dark)
    assert not sticking_out(page) and not barriers(page, advice=False)
