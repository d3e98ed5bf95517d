"""The front door: README.md's length, and the site as ``make site`` builds it, but for the outputs of demonstrations."""

import importlib
import os
import posixpath
import re
import runpy
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from gapless.commands.cli import COMMANDS
from gapless.lessons import LESSONS

from . import ROOT

PUBLIC = ("gapless", "gapless.vgpu", "gapless.profiler", "gapless.views")
DEMONSTRATIONS = runpy.run_path(str(ROOT / "docs" / "demonstrations.py"))


def test_the_readme_is_one_page():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_the_site_runs_what_needs_no_exercise(lesson_id):
    text = (ROOT / "notebooks" / lesson_id / f"{lesson_id}.ipynb").read_text(encoding="utf-8")
    skipped = {cell.id for cell in DEMONSTRATIONS["handed_out"](text).cells if "skip-execution" in cell.metadata.get("tags", ())}
    assert skipped >= {"score", "submit", *LESSONS[lesson_id].exercises} and "setup" not in skipped


class Page(HTMLParser):
    """What a page links to, its anchors, and its text."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.anchors, self.words = [], {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in {("a", "href"), ("link", "href"), ("img", "src"), ("script", "src")} and value:
                self.links.append(value)

    def handle_data(self, data):
        self.words.append(data)


def broken_links(site: Path) -> list[str]:
    """``page: link`` of each link within the folder ``site`` that leads to no file, or to no anchor of a page."""
    pages = {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html")}
    found = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            leads = unquote(parts.fragment) in pages[goal].anchors if goal in pages else (site / goal).is_file()
            if not leads:
                found.append(f"{name}: {link}")
    return found


def test_broken_links_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.html").write_text('<h1 id="here"></h1><a href="#here"></a><a href="#gone"></a><a href="b/c.html#x"></a><img src="no.png">')
    (tmp_path / "b" / "c.html").write_text('<p id="y"></p><a href="../a.html#here"></a><a href="https://example.org/x"></a><a href="a.html"></a>')
    assert sorted(broken_links(tmp_path)) == ["a.html: #gone", "a.html: b/c.html#x", "a.html: no.png", "b/c.html: a.html"]


def build(folder: Path, *options: str) -> Path:
    """The site in ``folder``, without running the demonstrations."""
    pytest.importorskip("sphinx", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-D", "nb_execution_mode=off", "-c", "docs", *options, "-d", str(folder / "doctrees"), ".",
         str(folder / "html")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-5000:]
    return folder / "html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("site"), "-W", "--keep-going")


@pytest.mark.slow
def test_all_links_within_the_site_are_good(site):
    assert broken_links(site) == []


@pytest.mark.slow
def test_every_public_name_and_command_is_in_the_reference(site):
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    entries = re.findall(r"^(.+?) (\w+:\w+) ", zlib.decompress(packed).decode(), re.M)
    named = {name for name, kind in entries if kind.startswith("py:")}
    public = {f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__}
    assert len(public) > 80 and public | {"gapless.pytest_plugin.vgpu"} <= named
    assert {f"gapless {name}" for name in COMMANDS} <= {name for name, kind in entries if kind == "commands:command"}


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id", LESSONS)
def test_no_page_of_a_lesson_shows_a_solution(site, lesson_id):
    solved, given = (nbformat.read(ROOT / folder / lesson_id / f"{lesson_id}.ipynb", as_version=4).cells for folder in ("solutions", "notebooks"))
    handed_out = "\n".join(cell.source for cell in given)
    secret = {line.strip() for cell in solved if cell.cell_type == "code" for line in cell.source.splitlines()
              if len(line.strip()) > 20 and line.strip() not in handed_out}
    shown = "".join(Page(site / "notebooks" / lesson_id / f"{lesson_id}.html").words)
    assert "# exercise: " in shown and secret
    assert not {line for line in secret if line in shown}
