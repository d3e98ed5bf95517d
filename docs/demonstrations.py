"""The cells of a lesson that show something without an exercise: those that the site runs."""

from __future__ import annotations

import symtable

import nbformat

from gapless.lessons import LESSONS
from gapless.marker import file_name

_ABOUT = "*On this page the cells that need an exercise have not been run. To work on the lesson, open its notebook.*"
# A page has no kernel that a slider could ask: it shows a picture for the first values, and says so.
_NO_SLIDERS = "import gapless, sys\nsys.modules['gapless.learner.explore']._in_jupyter = lambda: False"


def handed_out(text: str) -> nbformat.NotebookNode:
    """The notebook ``text`` of a lesson, with a tag on the cells that depend on an exercise: myst-nb does not run them."""
    notebook = nbformat.reads(text, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    skipped = dependents(cells, LESSONS[notebook.metadata["gapless"]["lesson"]].exercises)
    for cell in cells:
        if cell.id in skipped | {"submit"}:
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "skip-execution"]
    notebook.cells[1:1] = [nbformat.v4.new_markdown_cell(_ABOUT),
                           nbformat.v4.new_code_cell(_NO_SLIDERS, metadata={"tags": ["remove-cell"]})]
    return notebook


def dependents(cells, exercises) -> set[str]:
    """The ids of the cells that make an exercise's function, use one, or use what such a cell has made; and the score."""
    touched, found = set(exercises), {"score"}
    while True:
        before = len(found)
        for cell in cells:
            used, made = names_in(cell.source)
            if file_name(cell.source):  # a part of an exercise's program
                found.add(cell.id)
            if cell.id != "setup" and (made & set(exercises) or (used - made) & touched):
                found.add(cell.id)
                touched |= made
        if len(found) == before:
            return found


def names_in(source: str) -> tuple[set[str], set[str]]:
    """The notebook's names that a cell reads, its functions included, and those that it makes."""
    top = symtable.symtable(source, "a cell", "exec")
    tables, used = [top], set()
    for table in tables:
        tables += table.get_children()
        used |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
    return used, {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
