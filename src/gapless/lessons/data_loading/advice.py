"""Lesson 04: what is said of a wait in several exercises."""

from __future__ import annotations

COPY = ("a copy waits for all that was queued before it, and for itself, unless it is told not to (`non_blocking=True`) "
         "*and* the host's memory is pinned: from pageable memory the driver has to take the bytes while the host stands by")
