"""``gapless calibrate``: measure a GPU and write the card file that ``vgpu:NAME`` then models it by."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from ..fidelity.calibrate import CalibrationError, errors, fit, table, take_measurements
from ..files import write_json
from ..measure.device import device as choose_device
from ..measure.versions import versions
from ..vgpu.hardware.cards.cardfile import card_to_json


def add_parser(commands) -> None:
    """Add ``calibrate`` to the command line."""
    parser = commands.add_parser("calibrate", help="measure a GPU and write its card file",
                                 description=__doc__)
    parser.add_argument("--device", default="cuda", help="the GPU to measure (default: %(default)s)")
    parser.add_argument("--out", required=True, help="the card file to write: records/cards/NAME.json makes it vgpu:NAME")
    parser.add_argument("--fit", metavar="FILE",
                        help="do not measure: fit the measurements in this card file again; needs no GPU")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Measure (or read), fit, print, write. Raises CalibrationError."""
    file: dict[str, Any]
    if arguments.fit:
        file = _read(arguments.fit)
    else:
        device = choose_device(arguments.device)
        if device.type != "cuda":
            raise CalibrationError(f"{arguments.device} is simulated: there is nothing to measure. Name a CUDA device, or "
                                   "fit the measurements of a card file again with --fit FILE")
        file = {"measurements": take_measurements(device), "gpu": torch.cuda.get_device_name(device),
                "versions": versions(),
                "date": datetime.date.today().isoformat(),
                "command": shlex.join(["gapless", "calibrate", "--device", arguments.device, "--out", arguments.out])}
    card = fit(file["measurements"], key=Path(arguments.out).stem.lower(), measured=file.get("date", ""))
    residuals = errors(card, file["measurements"])
    print(table(card, residuals))
    kept = {name: value for name, value in file.items() if name in ("measurements", "gpu", "versions", "date", "command")}
    write_json(arguments.out, {**card_to_json(card), "fit": residuals, **kept})
    print(f"card: {arguments.out}", file=sys.stderr)
    return 0


def _read(path: str) -> dict:
    try:
        file = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CalibrationError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise CalibrationError(f"{path} is not JSON: {error}") from None
    if not isinstance(file, dict) or not isinstance(file.get("measurements"), dict):
        raise CalibrationError(f"{path} holds no measurements")
    return file
