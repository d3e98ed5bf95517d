"""Lesson 04: what is said of a wait in several exercises."""

from __future__ import annotations

COPY = ("a copy waits for all earlier work and for itself, unless you say `non_blocking=True` *and* the host's memory "
         "is pinned: from pageable memory the driver has to take the bytes while the host waits")
