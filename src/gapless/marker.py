"""How an exercise's cell is known: by its first line, ``# exercise: NAME``. Colab may strip metadata; the text survives."""

from __future__ import annotations

import re

_MARKER = re.compile(r"^\s*#\s*exercise:\s*([A-Za-z_]\w*)\s*$")


def exercise_name(source: str) -> str | None:
    """The NAME of the first line ``# exercise: NAME``, else None.

    Blank lines may stand before it. So may Jupyter's commands (``%%time``, ``!pip …``): the cell is the exercise's all the
    same, and whoever loads it says that they must go.
    """
    for line in source.splitlines():
        if line.strip() and not line.lstrip().startswith(("%", "!")):
            found = _MARKER.match(line)
            return found.group(1) if found else None
    return None
