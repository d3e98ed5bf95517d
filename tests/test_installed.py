"""Where the course finds its notebooks and its address. tests/test_wheel.py tries the same from a wheel."""

import pytest

from gapless import installed
from gapless.installed import NotebooksMissing, Repository
from gapless.lessons import LESSONS

from . import ROOT

HERE = Repository("ada", "course.x", "v1.0")


def test_a_checkout_knows_its_notebooks_and_its_address():
    assert installed.checkout() == ROOT and installed.notebooks_folder() == ROOT / "notebooks"
    assert list(installed.notebooks()) == list(LESSONS)
    assert installed.repository().colab.startswith("https://colab.research.google.com/github/")


def test_a_package_without_notebooks_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "_PACKAGE", tmp_path / "site" / "gapless")
    assert installed.checkout() is None
    with pytest.raises(NotebooksMissing, match="install it again"):
        installed.notebooks()


def test_what_an_installed_package_says_of_its_address(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "_PACKAGE", tmp_path / "site" / "gapless")
    info = tmp_path / "gapless-0.1.0.dist-info"
    info.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    lines = "Metadata-Version: 2.1\nName: gapless\nVersion: 0.1.0\n"
    (info / "METADATA").write_text(lines)
    assert installed.repository() is None
    (info / "METADATA").write_text(f"{lines}Project-URL: Docs, https://a.b\nProject-URL: Repository, https://github.com/ada/x/tree/a/b\n")
    assert installed.repository() == Repository("ada", "x", "a/b")


def test_addresses():
    assert Repository.parse("https://github.com/ada/course.x/tree/v1.0/") == HERE
    assert HERE.colab == "https://colab.research.google.com/github/ada/course.x/blob/v1.0/colab/"
    assert HERE.site == "https://ada.github.io/course.x/"
    assert HERE.archive == "https://github.com/ada/course.x/archive/v1.0.zip"


@pytest.mark.parametrize("url", ["https://github.com/ada/course", "https://example.org/ada/course/tree/main", ""])
def test_another_address_is_refused(url):
    with pytest.raises(ValueError, match="has to be https://github.com/OWNER/NAME/tree/BRANCH"):
        Repository.parse(url)


@pytest.mark.parametrize("link, moved, on_colab", [
    ("](../../docs/a.md#b)", f"]({HERE.blob}docs/a.md#b)", None),
    ("](../index.ipynb)", "](../index.ipynb)", f"]({HERE.colab}index.ipynb)"),
    ("](../00_a/00_a.ipynb#x)", "](../00_a/00_a.ipynb#x)", f"]({HERE.colab}00_a.ipynb#x)"),
    ("](https://a.b/../c)", "](https://a.b/../c)", None),
    ("](#here)", "](#here)", None),
    ("](attachment:a.png)", "](attachment:a.png)", None),
    ("table[name](value)", "table[name](value)", None),
])
def test_links_out_of_the_folder_lead_to_where_the_course_is_published(link, moved, on_colab):
    assert installed.linked(f"a {link} b", "02_x/02_x.ipynb", HERE) == f"a {moved} b"
    assert installed.linked(f"a {link} b", "02_x/02_x.ipynb", HERE, colab=True) == f"a {on_colab or moved} b"
    assert installed.linked(link, "02_x/02_x.ipynb", None) == link


def test_colab_is_known_by_its_environment(monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    assert not installed.on_colab()
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab_20261101")
    assert installed.on_colab()
