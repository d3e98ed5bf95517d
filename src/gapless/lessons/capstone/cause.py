"""Lesson 10: what a cause of waiting is, and a program without some of its causes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

# What a line may be accused of, as learners name it.
WAIT = "wait"  # the host waits for the device
BUS = "bus"  # more crosses the bus than has to
KERNELS = "kernels"  # many kernels where few would do
WORK = "work"  # the device computes what nobody needs
INPUT = "input"  # the device is without a batch, for what is done there on the host
MEMORY = "memory"  # it keeps, or takes, memory that nobody needs
KINDS = {
    WAIT: "the host waits for the device there",
    BUS: "more bytes cross the bus there than necessary",
    KERNELS: "it launches many kernels where few would do",
    WORK: "it computes something that nobody needs",
    INPUT: "the host's work there leaves the device without a batch",
    MEMORY: "it keeps something that nobody needs again",
}


@dataclass(frozen=True)
class Change:
    """``before`` stands once in the slow program's ``file``; ``after`` stands there once the cause is gone."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Cause:
    """One cause of a slow program. ``kinds``: what its lines may be accused of; ``lesson``: the one that explains it;
    ``changes``: what removes it, after the causes before it in the table are removed; ``lines``: the slow program's lines
    (file, what is in the line once in that file) that show it, by which a finding is known. ``waits_in_backward``: it makes
    other lines wait, in their backward pass. ``seen_at``: the lines at which a trace shows its kernels, where others order
    them."""

    name: str
    kinds: tuple[str, ...]
    lesson: str
    why: str
    lines: tuple[tuple[str, str], ...]
    changes: tuple[Change, ...] = field(repr=False)
    waits_in_backward: bool = False
    seen_at: tuple[tuple[str, str], ...] = ()


class WrongTable(ValueError):
    """A table of causes does not fit its program."""


def without(files: dict[str, str], causes: Iterable[Cause]) -> dict[str, str]:
    """The program ``files`` (name → text) without ``causes``. Raises WrongTable where the text to change does not occur
    in its file exactly once."""
    changed = dict(files)
    for cause in causes:
        for change in cause.changes:
            count = changed[change.file].count(change.before)
            if count != 1:
                raise WrongTable(f"{cause.name}: the text to change in {change.file} occurs {count} times, not once")
            changed[change.file] = changed[change.file].replace(change.before, change.after)
    return changed
