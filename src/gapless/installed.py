"""How this course was installed: from a wheel or as a checkout, where its lessons' notebooks lie, where its repository is.

Needs the standard library only, so that lessons are handed out, and the doctor speaks, where PyTorch is broken.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_PACKAGE = Path(__file__).parent
_INDEX = "index.ipynb"
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)/tree/([\w./-]+)")


class NotebooksMissing(RuntimeError):
    """This installation has no lessons' notebooks; the message says what to do."""


@dataclass(frozen=True)
class Repository:
    """Where the course is published: the one setting ``Repository`` of ``[project.urls]`` in pyproject.toml, which is
    ``https://github.com/OWNER/NAME/tree/BRANCH``; a tag does as a branch."""

    owner: str
    name: str
    branch: str

    @classmethod
    def parse(cls, url: str) -> Repository:
        """Raises ValueError where ``url`` is not of that form."""
        found = _ADDRESS.fullmatch(url.rstrip("/"))
        if found is None:
            raise ValueError(f"the repository's address is {url!r}, but it has to be "
                             "https://github.com/OWNER/NAME/tree/BRANCH")
        return cls(*found.groups())

    @classmethod
    def of(cls, root: Path) -> Repository | None:
        """The one that pyproject.toml in the folder ``root`` names; None where it names none. Raises ValueError."""
        urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
        return cls.parse(urls["Repository"]) if "Repository" in urls else None

    @property
    def colab(self) -> str:
        """The address under which Colab opens what is in the folder ``colab/``; ends with a slash."""
        return f"https://colab.research.google.com/github/{self.owner}/{self.name}/blob/{self.branch}/colab/"

    @property
    def blob(self) -> str:
        """The address of the repository's files, to be read; ends with a slash."""
        return f"https://github.com/{self.owner}/{self.name}/blob/{self.branch}/"

    @property
    def site(self) -> str:
        """The address of the course's site on GitHub Pages; ends with a slash."""
        return f"https://{self.owner}.github.io/{self.name}/"

    @property
    def archive(self) -> str:
        """The address of all files in one archive, which pip installs; without the history a clone would bring."""
        return f"https://github.com/{self.owner}/{self.name}/archive/{self.branch}.zip"


def checkout() -> Path | None:
    """The repository's folder on this computer, where the course runs from there; None where it was built into a wheel."""
    root = _PACKAGE.parents[1]
    return root if _PACKAGE.parent.name == "src" and (root / "pyproject.toml").is_file() else None


def repository() -> Repository | None:
    """The repository that the checkout, else the installed package, names; None where there is none. Raises ValueError where
    the address is not of the right form."""
    root = checkout()
    if root is not None:
        return Repository.of(root)
    try:
        found = metadata.metadata("gapless").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        found = []
    urls = dict(re.split(r",\s*", each, maxsplit=1) for each in found)
    return Repository.parse(urls["Repository"]) if "Repository" in urls else None


def notebooks_folder() -> Path:
    """The folder of the notebooks that are handed out. Raises NotebooksMissing."""
    inside = _PACKAGE / "notebooks"
    if (inside / _INDEX).is_file():
        return inside
    root = checkout()
    if root is None or not (root / "notebooks" / _INDEX).is_file():
        raise NotebooksMissing(f"this installation of gapless, in {_PACKAGE}, came without its notebooks: install it again, "
                               "from a wheel or in the repository's folder")
    return root / "notebooks"


def notebooks() -> dict[str, Path]:
    """Lesson id → its notebook as handed out. Raises NotebooksMissing."""
    found = sorted(notebooks_folder().glob("[0-9][0-9]_*/*.ipynb"))
    return {path.stem: path for path in found if path.stem == path.parent.name}


def whence() -> str:
    """From where the course runs, in words, with its notebooks. Raises NotebooksMissing."""
    root = checkout()
    where = f"as a checkout of the repository, {root}" if root else f"from a wheel, in {_PACKAGE}"
    held = f"{len(notebooks())} lessons" + ("" if root else "; gapless start FOLDER hands them out")
    return f"{where}{', on Colab' if on_colab() else ''}, with {held}"


_LINK = re.compile(r"\]\((?!\w+:|#|attachment)([^)#\s\"]+)(#[^)\s\"]*)?\)")


def linked(text: str, place: str, to: Repository | None, *, colab: bool = False) -> str:
    """The text of a notebook that lies at ``place`` in ``notebooks/`` (such as ``02_x/02_x.ipynb``), for where there is no
    repository around it: links to the repository's other files lead to where it is published. ``colab``: links to notebooks
    lead to Colab. The same text where ``to`` is None.
    """
    def moved(link: re.Match) -> str:
        path, part = link[1], link[2] or ""
        goal = posixpath.normpath(posixpath.join("notebooks", posixpath.dirname(place), path))
        if goal.startswith("notebooks/"):
            return f"]({to.colab}{posixpath.basename(goal)}{part})" if colab and goal.endswith(".ipynb") else link[0]
        return f"]({to.blob}{goal}{part})"

    return text if to is None else _LINK.sub(moved, text)


def on_colab() -> bool:
    """Whether this runs on Google Colab."""
    return "COLAB_RELEASE_TAG" in os.environ or _importable("google.colab")


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
