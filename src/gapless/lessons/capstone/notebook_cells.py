"""Lesson 10: the program's cells, and the findings', in the notebook with the solutions:
``python -m gapless.lessons.capstone.notebook_cells`` writes them there, from the program's files and its table of causes."""

from __future__ import annotations

import inspect
import json
import sys
from itertools import dropwhile
from pathlib import Path

from ...course.notebooks.notebook_file import replace_source
from ...files import write_bytes
from ...marker import exercise_name, file_name
from .findings.judged import findings_source
from .findings.slow import findings as no_findings
from .lesson import LESSON, SHOWN
from .program import ENTRY, Program

_NOTEBOOK = Path("solutions", LESSON.id, f"{LESSON.id}.ipynb")


def solved_cells(program: Program) -> dict[str, str]:
    """File name → the text of its cell: as handed out, and the model solution of a file that differs from it. And
    ``findings`` → that exercise's."""
    files = {name: _headed(name, text) + _solution(text, program.solved_files[name])
             for name, text in program.slow_files.items()}
    stub = f"# exercise: findings\n{inspect.getsource(no_findings).rstrip()}"
    return {**files, "findings": stub + _solution(stub, findings_source(program))}


def _headed(name: str, text: str) -> str:
    return (f"# exercise: {ENTRY}\n" if name == f"{ENTRY}.py" else "") + text.rstrip()


def _solution(slow: str, solved: str) -> str:
    if slow == solved:
        return ""
    lines = dropwhile(lambda line: line.startswith("#"), solved.splitlines())  # the file's and the program's names
    text = "\n".join(lines).strip()
    return f"\n### BEGIN SOLUTION\n\n\n{text}\n### END SOLUTION"


def write(notebook: Path = _NOTEBOOK) -> None:
    """Write the cells into the notebook, which has a cell for each file already. Raises OSError."""
    text, cells = notebook.read_text(encoding="utf-8"), solved_cells(SHOWN)
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and (name := file_name(source) or exercise_name(source)):
            text = replace_source(text, number, cells[name])
    write_bytes(notebook, text.encode())


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{_NOTEBOOK}\n")
