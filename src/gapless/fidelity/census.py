"""``gapless census``: which idioms make the host wait, predicted from PyTorch's sources and found on a device.

The same snippets run on ``cuda`` and on ``vgpu``. On ``cuda`` the waits are those in a profiler's trace, read by
:class:`gapless.StepReport`; on ``vgpu`` they are those of the virtual timeline. Where the table and CUDA differ, the table
is wrong.
"""

from __future__ import annotations

import datetime
import json
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from .. import vgpu
from ..measure.device import device as choose_device
from ..measure.device import device_name
from ..files import write_json
from .idioms import IDIOMS, Bag, Idiom
from ..measure.profile import profile
from ..commands.record import versions
from ..evidence.report import StepReport


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


def add_parser(commands) -> None:
    """Add ``census`` to the command line."""
    parser = commands.add_parser("census", help="count the waits of idioms, predicted and found",
                                 description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", help="cuda, vgpu, vgpu:a10g, …; by default the best there is")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", help="also write a record (.json)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Count, print, write the record; returns 1 if the device and the table disagree."""
    device = choose_device(arguments.device)
    findings = []
    for finding in count(device):
        findings.append(finding)
        _progress(len(findings), len(IDIOMS))
    wrong = sum(not finding.agrees for finding in findings)
    record = {
        "what": "waits of idioms, predicted and found",
        "simulated": device.type == "vgpu",
        "gpu": device_name(device),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["gapless", "census"] + (["--device", arguments.device] if arguments.device else [])),
        "idioms": len(findings),
        "disagreements": wrong,
        "findings": [finding.to_json() for finding in findings],
    }
    print(json.dumps(record, indent=1, ensure_ascii=False) if arguments.json else table(findings, device))
    if arguments.out:
        write_json(arguments.out, record)
    return 1 if wrong else 0


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


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} idioms", end="\n" if done == of else "", file=sys.stderr, flush=True)
