"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path


def write_json(path: str | os.PathLike, value) -> None:
    """Write ``value`` as indented JSON, making the folders on the way. Raises OSError where that cannot be done."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write ``content``; a file that was there keeps its permissions. Raises OSError where that cannot be done."""
    out = Path(path)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        if out.exists():
            with contextlib.suppress(OSError):  # a file of somebody else's, in a folder of ours
                shutil.copymode(out, temporary)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
