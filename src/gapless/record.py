"""``gapless record``: lesson 02's variants measured on a device, with what the virtual GPU predicts for the same card.

A record is the JSON that the README's measured figures rest on: device, versions, date, command, figures.
Needs torch and numpy only.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from .device import device as choose_device
from .device import device_name
from .files import write_json
from .lessons.variants import Variant, fixes, measure_variants, table
from .vgpu import CARDS

SOLUTION = Path("solutions/02_masked_loss/02_masked_loss.ipynb")


class RecordError(ValueError):
    """The record cannot be made; the message says what to do."""


def add_parser(commands) -> None:
    """Add ``record`` to the command line."""
    parser = commands.add_parser("record", help="measure lesson 02's variants and write a record",
                                 description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, help="the record to write (.json), or - for standard output")
    parser.add_argument("--device", help="cuda, vgpu, vgpu:a10g, …; by default the best there is")
    parser.add_argument("--solution", default=str(SOLUTION), help="the notebook whose exercise cells are the fixes")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Measure, print the table, write the record."""
    device = choose_device(arguments.device)
    fixed = read_fixes(arguments.solution)
    variants = measure(device, fixed)
    record = {
        "what": f"lesson 02's variants: batch {variants[0].batch} of 3×256×256 (the article's is 256)",
        "simulated": device.type == "vgpu",
        "gpu": device_name(device),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["gapless", "record", "--out", arguments.out]
                              + (["--device", arguments.device] if arguments.device else [])),
        "variants": [variant.to_json() for variant in variants],
    }
    if device.type == "cuda":
        record["driver_memory_bytes"] = torch.cuda.get_device_properties(device).total_memory
        record["predicted"] = predict(device_name(device), arguments.solution)
    print(table(variants), file=sys.stderr)
    if arguments.out == "-":
        print(json.dumps(record, indent=1, ensure_ascii=False))
        return 0
    write_json(arguments.out, record)
    print(f"record: {arguments.out}", file=sys.stderr)
    return 0


def read_fixes(notebook: str | os.PathLike) -> dict:
    """The fixes from the reference solution. Raises RecordError where there is none."""
    try:
        return fixes(Path(notebook))
    except FileNotFoundError:
        raise RecordError(f"there is no {notebook}: run this at the top of the repository, or name the notebook with "
                          "--solution") from None
    except (ValueError, KeyError) as error:
        raise RecordError(f"{notebook} does not hold the lesson's exercises ({error}): name the reference solution"
                          ) from None


def measure(device: torch.device, fixed: dict) -> list[Variant]:
    """All variants on ``device``, with a line of progress each."""
    variants = []
    for variant, _ in measure_variants(device, fixed):
        variants.append(variant)
        print(f"{variant.name}: {variant.true_step_ms:.1f} ms a step, {variant.syncs:g} syncs", file=sys.stderr, flush=True)
    return variants


def versions() -> dict[str, str]:
    """What the figures depend on."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "platform": platform.system()}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if torch.cuda.is_available() and torch.backends.cudnn.is_available():
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found


def find_model(gpu: str) -> str | None:
    """The key of the card that the virtual GPU would model for a GPU that CUDA calls ``gpu``, else None."""
    words = gpu.lower().replace("-", " ").split()
    return next((key for key in CARDS if key in words), None)


def predict(gpu: str, solution: str) -> list[dict] | str:
    """The variants on the virtual card of that name, simulated in a process of its own: with both devices in one
    process PyTorch would take ``vgpu`` for the accelerator."""
    key = find_model(gpu)
    if key is None:
        return f"the virtual GPU does not model {gpu}"
    command = [sys.executable, "-m", "gapless.cli", "record", "--device", f"vgpu:{key}", "--out", "-",
               "--solution", solution]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RecordError(f"the prediction failed: {done.stderr.strip()}")
    return json.loads(done.stdout)["variants"]
