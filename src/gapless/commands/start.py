"""``gapless start``: the lessons' notebooks, handed out into a folder of the learner's."""

from __future__ import annotations

import difflib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ..files import write_bytes
from ..installed import NotebooksMissing, linked, notebooks, notebooks_folder, repository

INDEX = "index.ipynb"


class StartError(ValueError):
    """The lessons cannot be handed out; the message says why and what to do."""


@dataclass(frozen=True)
class HandedOut:
    """What was done, each as a path inside the folder: ``new``; ``same``: it was there, as handed out; ``kept``: something
    else was there, and was left as it is."""

    new: list[str]
    same: list[str]
    kept: list[str]


def add_parser(commands) -> None:
    """Add ``start`` to the command line."""
    parser = commands.add_parser(
        "start", help="hand out the lessons' notebooks into a folder of yours",
        description="Write the lessons' notebooks, and an index of them, into a folder. Existing files are never "
                    "overwritten: run it again to add what is missing.")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder, or one of an earlier start")
    parser.add_argument("--lesson", metavar="ID", action="append",
                        help="only this lesson, such as 02_masked_loss or 02; may be given more than once")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Hand out, say what was done, and return the exit status."""
    folder = arguments.folder
    try:
        done = hand_out(folder, arguments.lesson)
    except (StartError, NotebooksMissing) as error:
        print(f"gapless start: {error}", file=sys.stderr)
        return 2
    if done.new:
        print(f"New in {folder}: {_names(done.new)}")
    if done.same:
        print(f"There already, as handed out: {_names(done.same)}")
    if done.kept:
        print(f"Yours, and not changed: {', '.join(done.kept)}. (For a new copy of one, rename yours and run this "
              "again.)")
    print(f"\nNext: gapless lab {folder}    opens the lessons in JupyterLab.\n"
          "Is everything there? gapless doctor    says what is missing, and what installs it.")
    return 0


def _names(paths: list[str]) -> str:
    return ", ".join(Path(path).stem for path in paths)


def hand_out(folder: Path, lessons: list[str] | None = None) -> HandedOut:
    """Write the notebooks of ``lessons`` (their ids or numbers; None: of all) and the index into ``folder``, where they are
    not there yet. Raises StartError, NotebooksMissing."""
    known = notebooks()
    wanted = list(dict.fromkeys(_find(each, known) for each in lessons)) if lessons else list(known)
    sources = {INDEX: notebooks_folder() / INDEX, **{f"{each}/{each}.ipynb": known[each] for each in wanted}}
    address = repository()
    done = HandedOut([], [], [])
    try:
        if os.path.lexists(folder) and not folder.is_dir():
            raise StartError(f"{folder} is not a folder: name another")
        for name, source in sources.items():
            target = folder / name
            content = linked(source.read_text(encoding="utf-8"), name, address).encode()
            if os.path.lexists(target):
                same = target.is_file() and target.read_bytes() == content
                (done.same if same else done.kept).append(name)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(target, content)
            done.new.append(name)
    except OSError as error:
        some = f" {len(done.new)} notebooks were written before; existing files were not changed." if done.new else ""
        raise StartError(f"{error.filename or folder} cannot be written: {error.strerror or error}. Name a folder that you "
                         f"may write to.{some}") from None
    return done


def _find(wanted: str, known: dict[str, Path]) -> str:
    """The id of the lesson that is meant, by its id or its number. Raises StartError."""
    name = wanted.strip().removesuffix(".ipynb")
    by_number = {each.partition("_")[0]: each for each in known}
    if name in known:
        return name
    if name.isdigit() and name.zfill(2) in by_number:
        return by_number[name.zfill(2)]
    close = difflib.get_close_matches(name, known, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise StartError(f"there is no lesson {wanted!r}.{meant} There are {', '.join(known)}")
