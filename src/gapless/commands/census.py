"""``gapless census``: count the waits of idioms, as PyTorch's sources predict them and as a device shows them."""

from __future__ import annotations

import datetime
import json
import shlex
import sys

from ..fidelity.census import count, table
from ..fidelity.idioms import IDIOMS
from ..files import write_json
from ..measure.device import device as choose_device
from ..measure.device import device_name
from ..measure.versions import versions


def add_parser(commands) -> None:
    """Add ``census`` to the command line."""
    parser = commands.add_parser("census", help="count the waits of idioms, predicted and found",
                                 description=__doc__)
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


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} idioms", end="\n" if done == of else "", file=sys.stderr, flush=True)
