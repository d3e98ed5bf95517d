"""The site, by Sphinx: ``make site``. Its source folder is the repository, so that a link leads to the same file here, on
GitHub and there."""

from __future__ import annotations

import os
import posixpath
import re
import sys
import tempfile
from pathlib import Path

from sphinx.util import logging

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS)]  # demonstrations

import nbformat  # noqa: E402
from demonstrations import handed_out  # noqa: E402

import gapless  # noqa: E402
from gapless.installed import Repository  # noqa: E402

REPOSITORY = Repository.of(ROOT)

project, release, version = "gapless", gapless.__version__, gapless.__version__
html_baseurl = REPOSITORY.site
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinxarg.ext"]
root_doc = "index"
smartquotes = False  # they make one dash of the two before an option
include_patterns = ["index.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "autograde/README.md",
                    "records/measured/README.md", "notebooks/*/*.ipynb"]
exclude_patterns = [".*", "build", "src", "tests", "solutions", "colab"]

html_theme = "furo"
html_title = "gapless"
pygments_dark_style = "github-dark"
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_theme_options = {"source_repository": f"https://github.com/{REPOSITORY.owner}/{REPOSITORY.name}/",
                      "source_branch": REPOSITORY.branch, "source_directory": "",
                      "top_of_page_buttons": ["view"]}  # lessons and tables are generated: not to be edited there

myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

# The demonstrations are run when the site is built, on the virtual GPU everywhere, and leave nothing in anybody's home.
nb_execution_mode = "force"
nb_execution_in_temp = nb_execution_raise_on_error = nb_merge_streams = True
nb_execution_timeout = 300
_HOME = tempfile.TemporaryDirectory()
os.environ |= {"CUDA_VISIBLE_DEVICES": "", "GAPLESS_HOME": _HOME.name}

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s\"]+)(#[^)\s\"]*)?\)")


def lead_out(folder: str, text: str, pages: set[str]) -> str:
    """``text`` of a page in ``folder``, whose links to files that are no pages lead to the repository on GitHub."""
    def moved(link: re.Match) -> str:
        goal = posixpath.normpath(posixpath.join(folder, link[1]))
        if not (ROOT / goal).exists():
            logging.getLogger(__name__).warning("%s is linked in %s/ and is not there", goal, folder or ".")
        if goal == "README.md":
            return f"]({posixpath.relpath('index.md', folder or '.')}{link[2] or ''})"
        known = posixpath.splitext(goal)[0] in pages or goal.endswith(".png")
        return link[0] if known else f"]({REPOSITORY.blob}{goal}{link[2] or ''})"

    return _LINK.sub(moved, text)


def with_pictures(text: str) -> str:
    """``text`` of a notebook's cell, with the files of which its attachments are copies (docs/screenshots/embed.py)."""
    def file(name: re.Match) -> str:
        found = list(DOCS.glob(f"*/{name[1]}"))
        if not found:
            raise FileNotFoundError(f"a cell shows {name[0]}, and no folder of docs/ has this file: put it there")
        return "/" + found[0].relative_to(ROOT).as_posix()

    return re.sub(r"attachment:([\w.]+)", file, text)


def prepare(app, docname: str, source: list[str]) -> None:
    """Change ``source[0]``, the text of a page, before it is parsed."""
    folder, pages = posixpath.dirname(docname), app.env.found_docs
    if app.env.doc2path(docname).suffix != ".ipynb":
        source[0] = lead_out(folder, source[0], pages)
        return
    notebook = handed_out(source[0])
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_pictures(lead_out(folder, cell.source, pages))
            cell.pop("attachments", None)
    source[0] = nbformat.writes(notebook)


def accessible(app, name, template, context, doctree) -> None:
    """Code that is scrolled sideways can be reached by keys, and the captions of the contents say what headings they are."""
    for part, (old, new) in {"body": ("<pre>", '<pre tabindex="0">'),
                             "furo_navigation_tree": ('role="heading"', 'role="heading" aria-level="2"')}.items():
        context[part] = context.get(part, "").replace(old, new)


def setup(app):
    app.connect("html-page-context", accessible, priority=900)  # after the theme, which makes the contents
    app.connect("source-read", prepare)
    app.connect("include-read", lambda app, path, docname, source: prepare(app, path.with_suffix("").as_posix(), source))
