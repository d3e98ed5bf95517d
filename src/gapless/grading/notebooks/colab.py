"""The lessons' notebooks for Colab: those of ``notebooks/`` with one cell more at the top, which installs what is missing,
and links that lead to Colab. Grading knows cells by their marker lines, so that the cell costs nobody a point.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import nbformat

from ...files import write_bytes
from ...installed import Repository, linked
from ...lessons import LESSONS
from .install_cell import install_course

FOLDER = "colab"
CELL = "install"
_INDEX = "index.ipynb"

_TITLE = '# @title Run this first: it installs the course, or finds that all is there {{ display-mode: "form" }}\n{}\n\n{}'


def install_cell(project: dict, repository: Repository, packages: tuple[str, ...]) -> str:
    """The text of the cell for a lesson that needs the modules ``packages``. ``project``: pyproject.toml."""
    about = project["project"]
    extras = about["optional-dependencies"]
    known = {re.match(r"[\w-]+", each)[0]: each for extra in ("plots", "lab") for each in extras[extra]}
    torch = next(each for each in about["dependencies"] if each.startswith("torch"))
    released = project["tool"]["gapless"]["released"]
    python = tuple(int(each) for each in about["requires-python"].removeprefix(">=").split("."))
    # torchvision has to be the one that is built for the PyTorch there, which nobody but Colab knows.
    needed = {name: known[name] for name in ("matplotlib", *packages) if name in known and name != "torchvision"}
    course = f"gapless=={about['version']}" if released else f"gapless @ {repository.archive}"
    tried = torch.removeprefix("torch")
    call = f"install_course({course!r}, {needed!r}, tried={tried!r}, python={python})".replace("'", '"')
    return _TITLE.format(inspect.getsource(install_course), call)


def for_colab(text: str, place: str, project: dict, repository: Repository) -> str:
    """The notebook ``text``, which lies at ``place`` in ``notebooks/``, for Colab."""
    lesson = LESSONS.get(Path(place).stem)
    notebook = nbformat.reads(linked(text, place, repository, colab=True), as_version=4)
    source = install_cell(project, repository, lesson.packages if lesson else ())
    notebook.cells.insert(0, nbformat.v4.new_code_cell(source, id=CELL, metadata={"cellView": "form"}))
    return nbformat.writes(notebook) + "\n"


def generate_for_colab(root: Path, into: Path) -> list[Path]:
    """Write the notebooks of ``root/notebooks``, as they are for Colab, into the folder ``into``; their paths."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    repository = Repository.of(root)
    source = root / "notebooks"
    into.mkdir(exist_ok=True)
    written = []
    lessons = (path for path in source.glob("*/*.ipynb") if path.stem == path.parent.name)
    for path in sorted([*source.glob(_INDEX), *lessons]):
        text = for_colab(path.read_text(encoding="utf-8"), path.relative_to(source).as_posix(), project, repository)
        write_bytes(into / path.name, text.encode("utf-8"))
        written.append(into / path.name)
    return written


# -- addresses ------------------------------------------------------------------------------------

_OPEN = re.compile(r"https://colab\.research\.google\.com/github/[^/\s)]+/[^/\s)]+/blob/[^\s)\"]*?colab/(?=\w+\.ipynb)")
_ARCHIVE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/archive/[\w./-]+?\.zip")
_SITE = re.compile(r"(?<=\[The site\]\()[^)]+")


def write_addresses(root: Path) -> list[Path]:
    """Put the address that ``root/pyproject.toml`` states into every page and notebook that people edit; those changed."""
    repository = Repository.of(root)
    changed = []
    for pattern in ("README.md", "docs/*.md", "notebooks/index.ipynb", "solutions/*/*.ipynb"):
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            new = text
            for address, goal in ((_OPEN, repository.colab), (_ARCHIVE, repository.archive), (_SITE, repository.site)):
                new = address.sub(goal, new)
            if new != text:
                write_bytes(path, new.encode("utf-8"))
                changed.append(path)
    return changed
