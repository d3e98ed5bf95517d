"""The notebook that this program runs in, as its editor or its file has it.

A kernel is not told which notebook it works for. Colab's front end can be asked for its content. JupyterLab and Notebook 7
put the file's path into ``JPY_SESSION_NAME`` (jupyter_server 2), VS Code into the variable ``__vsc_ipynb_file__``. Others
(classic Notebook, Kaggle) say nothing: there the learner names the file.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ..course.notebooks.submission import SubmissionError, parse_notebook, read_notebook, stated_lesson
from .marked_cell import ipython_shell

_ANSWER_SECONDS = 20.0  # for Colab's front end: a notebook with many pictures takes a while


@dataclass(frozen=True)
class OwnNotebook:
    """A notebook as JSON (``content``); ``path``: its file, or None where it is the editor's content, which no file need
    hold; ``named``: whether the learner has named it."""

    content: dict
    path: Path | None
    named: bool = False

    @classmethod
    def at(cls, path: str | os.PathLike) -> OwnNotebook:
        """The one that the learner names. Raises SubmissionError, and NotFound where there is no such file."""
        path = Path(path)
        if not path.exists():
            yours = "" if path.suffix else f". Or is that your name? lesson.submit(name=\"{path}\")"
            raise NotFound(f"there is no {path} in {Path.cwd()}: name the saved notebook (.ipynb){yours}")
        return cls(read_notebook(path), path.resolve(), named=True)

    @property
    def shown(self) -> str:
        """What to call it in messages."""
        return "this notebook" if self.path is None else self.path.name


class NotFound(Exception):
    """Nobody says which file this notebook is; the message says what to do."""


def in_colab() -> bool:
    """Whether this process is a kernel of Colab's."""
    return "google.colab" in sys.modules


def find_own_notebook(lesson_id: str) -> OwnNotebook:
    """The notebook that this code runs in. Raises NotFound, and SubmissionError where what is found is no notebook.

    ``lesson_id``: of which it should be, for the message.
    """
    if in_colab() and (content := _ask_colab()) is not None:
        return OwnNotebook(content, None)
    gone = ""
    for path in _stated_paths():
        if path.is_file():
            return OwnNotebook(read_notebook(path), path.resolve())
        gone = f" ({path.name}, under which it was opened, is not here: was it renamed, or is it on another computer?)"
    raise NotFound(f"Which file is this notebook? Your editor does not say{gone}. Save it and name it: "
                   f"lesson.submit(\"{_candidate(lesson_id)}\"). Or hand in the notebook file itself: that counts as well")


def _ask_colab() -> dict | None:
    """What Colab's front end has; None where it gives no answer, as when VS Code is the front end."""
    try:
        from google.colab import _message

        answer = _message.blocking_request("get_ipynb", request="", timeout_sec=_ANSWER_SECONDS)
        content = json.dumps(answer["ipynb"]).encode()
    except Exception:  # it is nobody's published interface: whatever it does, there are other ways
        return None
    try:
        return parse_notebook(content, "what Colab gives")
    except SubmissionError:
        return None


def _stated_paths() -> list[Path]:
    """Where editors say that the notebook is."""
    shell = ipython_shell()
    if shell is None:
        return []
    stated = [shell.user_ns.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME")]
    # The second is from the server's folder in some versions; a kernel starts in the notebook's.
    return [path for each in stated if isinstance(each, str) and each.endswith(".ipynb")
            for path in dict.fromkeys((Path(each), Path(Path(each).name)))]


def _candidate(lesson_id: str) -> str:
    """The file in this folder that is likely meant: the only one of the lesson, else the lesson's name."""
    found = []
    for path in sorted(Path().glob("*.ipynb"))[:50]:
        try:
            if stated_lesson(read_notebook(path)) == lesson_id:
                found.append(path.name)
        except SubmissionError:
            continue
    return found[0] if len(found) == 1 else f"{lesson_id}.ipynb"
