"""Exercise cells of the lessons, by exercise name: as handed out, and solved."""

import json

from gapless.marker import exercise_name, file_name, joined

from .. import ROOT


def cells(folder, lesson_id):
    """Exercise name → source of its cell in the notebook of ``folder`` (notebooks or solutions)."""
    notebook = json.loads((ROOT / folder / lesson_id / f"{lesson_id}.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    files = {file_name(source): source for source in sources if file_name(source) and not exercise_name(source)}
    return {exercise_name(source): joined(source, files) for source in sources if exercise_name(source)}
