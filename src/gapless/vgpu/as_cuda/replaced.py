"""Attributes of PyTorch that are replaced for a while."""

from __future__ import annotations

_NONE = object()


class Replaced:
    """What was replaced, and how to undo it in the opposite order."""

    def __init__(self):
        self._before: list[tuple[object, str, object]] = []

    def put(self, owner, name: str, value) -> None:
        """``owner.name = value``; ``owner`` is a module or a class."""
        # Its own entry: what a class inherits is not put back as its own, and a staticmethod stays one.
        self._before.append((owner, name, vars(owner).get(name, _NONE)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """As it was before."""
        while self._before:
            owner, name, value = self._before.pop()
            if value is _NONE:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
