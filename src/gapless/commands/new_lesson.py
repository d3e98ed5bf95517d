"""``gapless new-lesson``: the skeleton of a lesson, in the repository's folders."""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path

from ..files import write_bytes
from .skeleton import COLAB, EXERCISE, skeleton

_ID = re.compile(r"\d\d_[a-z][a-z0-9_]{0,39}")
_REGISTRY = Path("src/gapless/lessons/__init__.py")
_IMPORT = "from .{package}.lesson import LESSON as _{name}"


class NewLessonError(ValueError):
    """The lesson cannot be made; the message says why. Nothing was written."""


def add_parser(commands) -> None:
    """Add ``new-lesson`` to the command line."""
    parser = commands.add_parser(
        "new-lesson", help="make the skeleton of a lesson (for authors)",
        description="Make a lesson with one small exercise that works: its package, its source notebook, its tests. Run it "
                    "in the repository. All files are written, or none. docs/authors.md leads on from there.")
    parser.add_argument("id", metavar="ID", help="two digits and a name, such as 04_data_loading")
    parser.add_argument("title", metavar="TITLE", help='such as "Data loading"')
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make it, say what to do next, and return the exit status."""
    lesson_id, title = arguments.id, arguments.title
    try:
        written = new_lesson(find_repository(Path.cwd()), lesson_id, title)
    except (NewLessonError, OSError) as error:
        print(f"gapless new-lesson: {error}", file=sys.stderr)
        return 2
    notebook = f"{lesson_id}/{lesson_id}.ipynb"
    listed = "\n".join(f"  {path}" for path in written)
    print(f"""Lesson {lesson_id} is made, with one small exercise that works, {EXERCISE}:

{listed}
  {_REGISTRY} (a line more in two places)

Next, at the top of the repository:

  make notebooks
  gapless grade solutions/{notebook} --device vgpu:a10g
  pytest tests/lessons -k {lesson_id[3:]}

Then write the lesson: docs/authors.md says how. It is listed in two tables, in README.md and in notebooks/index.ipynb:

| [{lesson_id[:2]} {title}]({notebook}) | what you learn | 30 min | lesson 00 | [open]({COLAB}{lesson_id}.ipynb) |""")
    return 0


def find_repository(start: Path) -> Path:
    """The folder that holds the course, ``start`` or above it. Raises NewLessonError."""
    for folder in (start, *start.parents):
        if (folder / _REGISTRY).is_file() and (folder / "solutions").is_dir():
            return folder
    raise NewLessonError(f"{start} is not in the course's repository, where lessons are made: go there "
                         f"(it has {_REGISTRY} and solutions/)")


def new_lesson(root: Path, lesson_id: str, title: str) -> list[Path]:
    """Write the lesson's files into the repository ``root``, and its lines into the list of lessons: the new files' paths in
    ``root``. Raises NewLessonError, or OSError; then everything is as it was."""
    package = _check(lesson_id, title)
    same = sorted(path.name for path in (root / "solutions").glob(f"{lesson_id[:2]}_*"))
    if same:
        raise NewLessonError(f"there is a lesson with the number {lesson_id[:2]} already, {same[0]}: take another")
    files = {Path(path): text for path, text in skeleton(lesson_id, title).items()}
    there = [path for path in (Path("src/gapless/lessons", package), *files) if (root / path).exists()]
    if there:
        raise NewLessonError(f"{there[0]} is there already: take another name")
    registry = root / _REGISTRY
    registered = _register(registry.read_text(encoding="utf-8"), package)
    made: list[Path] = []
    try:
        for path, text in files.items():
            for folder in reversed([each for each in (root / path).parents if not each.exists()]):
                folder.mkdir()
                made.append(folder)
            made.append(root / path)
            write_bytes(root / path, text.encode("utf-8"))
        write_bytes(registry, registered.encode("utf-8"))
    except BaseException:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        raise
    return list(files)


def _check(lesson_id: str, title: str) -> str:
    """The name of the lesson's package. Raises NewLessonError."""
    package = lesson_id[3:]
    if not _ID.fullmatch(lesson_id) or keyword.iskeyword(package):
        raise NewLessonError(f"{lesson_id!r} is not a lesson's id: give two "
                             "digits, an underscore, and a name that Python can import, in small letters, such as "
                             "04_data_loading")
    if not 0 < len(title.strip()) == len(title) <= 60 or not title.isprintable() or set(title) & set('"\\|'):
        raise NewLessonError(f"{title!r} is not a title: give up to 60 "
                             "characters on one line, without double quotes, \\ and |, "
                             'such as "Data loading"')
    return package


def _register(text: str, package: str) -> str:
    """``text`` of the list of lessons with one more, in alphabetical order. Raises NewLessonError."""
    lines, name = text.splitlines(), package.upper()
    for pattern, new in ((r"from \.\w+\.lesson import LESSON as _\w+", _IMPORT.format(package=package, name=name)),
                         (r"    _[A-Z][A-Z0-9_]*,", f"    _{name},")):
        places = [place for place, line in enumerate(lines) if re.fullmatch(pattern, line)]
        if not places:
            raise NewLessonError(f"{_REGISTRY} has no lines of the form {new.strip()!r} any more: fix it first")
        lines.insert(next((place for place in places if lines[place] > new), places[-1] + 1), new)
    return "\n".join(lines) + "\n"
