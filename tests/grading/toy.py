"""Notebooks for the toy lesson in ``toylessons``."""

import json
import sys
import zlib
from pathlib import Path

PACKAGE = "toylessons"
sys.path.insert(0, str(Path(__file__).parent))  # where it is: the grader imports it by that name

GOOD_DOUBLE = "# exercise: double\ndef double(x):\n    return 2 * x\n"
GOOD_SQUARE = "# exercise: square\ndef square(x):\n    return x * x\n"
SLOW_DOUBLE = "# exercise: double\ndef double(x):\n    return torch.stack([2 * x[i] for i in range(len(x))])\n"
SLOW_SQUARE = "# exercise: square\ndef square(x):\n    return torch.stack([x[i] * x[i] for i in range(len(x))])\n"


def _number(source) -> int:
    """The same in every process: a test is named by what it is given."""
    return zlib.crc32(str(source).encode(errors="surrogatepass"))


def code(source, **metadata):
    return {"cell_type": "code", "id": f"c{_number(source)}", "metadata": metadata, "source": source, "outputs": [],
            "execution_count": None}


def markdown(source):
    return {"cell_type": "markdown", "id": f"m{_number(source)}", "metadata": {}, "source": source}


def notebook(*cells, **metadata):
    cells = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    for i, cell in enumerate(cells):
        cell["id"] = f"{cell['id']}-{i}"
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def write(content, path) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path
