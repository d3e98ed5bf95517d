"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_json(path: str | os.PathLike, value) -> None:
    """Write ``value`` as indented JSON, making the folders on the way. Raises OSError where that cannot be done."""
    out = Path(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
