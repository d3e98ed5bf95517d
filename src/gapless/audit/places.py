"""The program's lines as the page shows them: where they are, what stands there, and who calls a library's."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable

from ..evidence.traces.waits import source_line
from ..vgpu.process.location import CALLED_AT

_FRAME = re.compile(r"(.+)\((\d+)\): (.*)")


class Places:
    """``frames``: lines as :func:`gapless.vgpu.process.location.location` gives them. A location is one of
    :func:`gapless.evidence.traces.waits.source_line`."""

    def __init__(self, frames: Iterable[str]):
        self._paths: dict[str, str] = {}
        self._callers: dict[str, str] = {}
        for frame in frames:
            location, match = source_line(frame), _FRAME.match(frame)
            if location is not None and match is not None:
                self._paths[location] = match[1]
                _, called, caller = match[3].partition(CALLED_AT)
                if called:
                    self._callers.setdefault(location, caller)

    def path(self, location: str | None) -> str | None:
        """The file."""
        return self._paths.get(location or "")

    def called_at(self, location: str | None) -> str | None:
        """The program's line that calls it, of one in a library."""
        return self._callers.get(location or "")

    def caller(self, location: str | None) -> str | None:
        """The location of :meth:`called_at`."""
        path, _, number = (self.called_at(location) or "").rpartition(":")
        if not path:
            return None
        found = source_line(f"{path}({number}): line")
        if found is not None:
            self._paths[found] = path
        return found

    def text(self, location: str | None) -> str | None:
        """What stands there."""
        path, number = self.path(location), re.search(r":(\d+)", location or "")
        # Of a path that is none linecache looks for a file of that name on sys.path.
        if path is None or number is None or not os.path.isfile(path):
            return None
        return linecache.getline(path, int(number[1])).strip() or None
