"""Which idioms make the host wait, predicted from PyTorch's sources and found on a device.

The same snippets run on ``cuda`` and on ``vgpu``. On ``cuda`` the waits are those in a profiler's trace, read by
:class:`gapless.StepReport`; on ``vgpu`` they are those of the virtual timeline. Where the table and CUDA differ, the table
is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from .. import vgpu
from ..evidence.report import StepReport
from ..measure.device import device_name
from ..measure.profile import profile
from .idioms import IDIOMS, Bag, Idiom


@dataclass(frozen=True)
class Finding:
    """One idiom on one device. ``found``: how often it waited, None if it raised ``error``."""

    idiom: Idiom
    found: int | None
    error: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether the device did what the table says."""
        return self.found is not None and self.idiom.agrees(self.found)

    def to_json(self) -> dict:
        """The finding in plain JSON types."""
        idiom = self.idiom
        return {"group": idiom.group, "name": idiom.name, "predicted": idiom.waits, "at_least": idiom.at_least,
                "found": self.found, "agrees": self.agrees, "error": self.error, "reason": idiom.reason,
                "source": idiom.source}


def count(device: torch.device, idioms: Iterable[Idiom] = IDIOMS.values()) -> Iterator[Finding]:
    """Run each idiom on ``device`` and count its waits. On ``cuda`` all are run before the first is given back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some idioms are what PyTorch warns of
        yield from (_on_timeline(device, idioms) if device.type == "vgpu" else in_trace(device, idioms))


def _on_timeline(device: torch.device, idioms: Iterable[Idiom]) -> Iterator[Finding]:
    hooks = vgpu.timeline().wait_hooks
    for idiom in idioms:
        bag, found, error = Bag(device), [], None
        hooks.append(found.append)
        try:
            idiom.use(bag)
        except Exception as raised:
            error = _in_words(raised)
        finally:
            hooks.remove(found.append)
        yield Finding(idiom, len(found) if error is None else None, error)


def in_trace(device: torch.device, idioms: Iterable[Idiom]) -> Iterator[Finding]:
    """The waits in one profile, an idiom a step. Each has run once before: the first time loads kernels and allocates."""
    idioms = list(idioms)
    errors: dict[str, str] = {}

    def use(idiom: Idiom, bag: Bag) -> None:
        try:
            idiom.use(bag)
        except Exception as raised:
            errors[idiom.name] = _in_words(raised)

    for idiom in idioms:
        use(idiom, Bag(device))
    ready = iter([(idiom, Bag(device)) for idiom in idioms])
    report = StepReport.from_trace(profile(lambda: use(*next(ready)), steps=len(idioms), warmup=0, device=device))
    counts = [0] * len(idioms)
    for sync in report.syncs_in_steps:
        counts[sync.step] += 1
    for idiom, found in zip(idioms, counts):
        error = errors.get(idiom.name)
        yield Finding(idiom, found if error is None else None, error)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def table(findings: list[Finding], device: torch.device) -> str:
    """All findings as text, those that disagree marked and explained."""
    simulated = " (simulated)" if device.type == "vgpu" else ""
    width = max(len(finding.idiom.name) for finding in findings)
    lines = [f"{'idiom':{width}}  predicted  found  reason"]
    before = None
    for finding in findings:
        idiom = finding.idiom
        if idiom.group != before:
            lines += ["", f"{idiom.group}:"]
            before = idiom.group
        predicted = f"{'≥ ' if idiom.at_least else ''}{idiom.waits}"
        found = "error" if finding.found is None else str(finding.found)
        mark = "" if finding.agrees else f"  ← differs; {finding.error or idiom.source}"
        lines.append(f"{idiom.name:{width}}  {predicted:>9}  {found:>5}  {idiom.reason}{mark}")
    wrong = sum(not finding.agrees for finding in findings)
    lines += ["", f"{len(findings)} idioms on {device_name(device)}{simulated}: {len(findings) - wrong} as predicted, "
              f"{wrong} not"]
    return "\n".join(lines)
