"""``gapless deal``: a learner's copy of the capstone's notebook, with one of its programs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def add_parser(commands) -> None:
    """Add ``deal`` to the command line."""
    parser = commands.add_parser(
        "deal", help="write a learner's copy of the capstone, with a program chosen by the name",
        description="Write a copy of the capstone's notebook for one learner. The program in it is chosen by the learner's "
                    "name, so that neighbours differ, and is the same each time.")
    parser.add_argument("notebook", metavar="NOTEBOOK", help="the notebook as it is handed out (.ipynb)")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--learner", metavar="NAME", help="the learner's name or number")
    chosen.add_argument("--program", metavar="NAME", help="the program itself")
    parser.add_argument("--out", metavar="FILE", required=True, help="the copy; an existing file is not overwritten")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the copy and return the exit status."""
    from ..course.notebooks.submission import SubmissionError
    from ..files import write_bytes
    from ..lessons.capstone.lesson import PROGRAMS, choose
    from .find import find_notebook

    out = Path(arguments.out)
    try:
        path = find_notebook(arguments.notebook)
        if arguments.program is not None and arguments.program not in PROGRAMS:
            raise SubmissionError(f"no program is called {arguments.program!r}; there are {', '.join(PROGRAMS)}")
        program = PROGRAMS[arguments.program] if arguments.program is not None else choose(arguments.learner)
        text = dealt(path, program)
        if out.exists():
            raise SubmissionError(f"{out} already exists: name another file, or remove it")
        write_bytes(out, text.encode())
    except SubmissionError as error:
        print(f"gapless deal: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gapless deal: {out} cannot be written: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"{out}: {program.title}")
    return 0


def dealt(path: Path, program) -> str:
    """The text of the notebook at ``path`` with another program in its cells. Raises SubmissionError where it is not the
    capstone's."""
    from ..course.notebooks.notebook_file import replace_source
    from ..course.notebooks.submission import SubmissionError, cell_source, parse_notebook, read_notebook_bytes
    from ..lessons.capstone.lesson import PROGRAMS
    from ..marker import file_name

    content = read_notebook_bytes(path)
    cells, text = parse_notebook(content, path)["cells"], content.decode("utf-8-sig")
    files = program.released_cells
    passages = [(others, own) for *others, own in zip(*(each.passages for each in PROGRAMS.values()), program.passages)]
    missing = set(files)
    for number, cell in enumerate(cells):
        source = cell_source(cell)
        if cell.get("cell_type") == "code" and (name := file_name(source)) in files:
            text = replace_source(text, number, files[name])
            missing.discard(name)
        changed = source
        for others, own in passages:
            for other in others:
                changed = changed.replace(other, own)
        if changed != source and cell.get("cell_type") == "markdown":
            text = replace_source(text, number, changed)
    if missing:
        raise SubmissionError(f"{path} has no cell for {', '.join(sorted(missing))}: take the capstone's notebook")
    json.loads(text)  # nothing that cannot be read again is written
    return text
