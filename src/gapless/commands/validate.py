"""``gapless validate``: compare predicted with measured step times of five networks, or with times that others measured.

Without a GPU, ``--predict-only`` prints the predictions, which are simulated and compared with nothing.
"""

from __future__ import annotations

import datetime
import json
import shlex
import subprocess
import sys
from pathlib import Path

from .. import vgpu
from ..evidence.pictures import themed
from ..fidelity import against_measured, measured
from ..fidelity.validate import Figures, compare, measure_all, predict, table
from ..fidelity.workloads import DTYPES, WORKLOADS
from ..files import check_writable, write_bytes, write_json
from ..measure.device import device as choose_device
from ..measure.device import device_name
from ..measure.versions import versions
from ..vgpu.hardware.cards.specs import find_model


class ValidationError(ValueError):
    """It cannot be validated; the message says what to do."""


def add_parser(commands) -> None:
    """Add ``validate`` to the command line."""
    parser = commands.add_parser("validate", help="compare predicted with measured step times",
                                 description="Compare predicted with measured step times, kernel times and memory of five "
                                             "networks' training steps.")
    parser.add_argument("--device", default="cuda", help="the GPU to measure (default: %(default)s)")
    parser.add_argument("--card",
                        help="the card to predict with: a name or a card file; by default the one of the GPU's name")
    parser.add_argument("--predict-only", action="store_true", help="only simulate: needs no GPU")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), help="only this one; may be repeated")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="only this one; may be repeated")
    parser.add_argument("--measured", nargs="*", metavar="FILE",
                        help="compare with times that others measured, in these tables (.csv, .csv.gz); without a FILE with "
                             "those in records/measured")
    parser.add_argument("--sample", type=int, metavar="N", help="with --measured: only about N rows of each table, evenly")
    parser.add_argument("--picture", metavar="FILE", help="with --measured: also draw predicted over measured times (.png)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", help="also write a record (.json)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Predict, measure, print, write the record. Raises ValidationError where there is no card to predict with."""
    if arguments.measured is not None:
        return _against_measured(arguments)
    if arguments.sample is not None or arguments.picture is not None:
        raise ValidationError("--sample and --picture go with --measured")
    names, dtypes = arguments.workload or list(WORKLOADS), arguments.dtype or list(DTYPES)
    cases = [(name, dtype) for name in names for dtype in dtypes]
    if arguments.predict_only:
        card, figures = arguments.card or vgpu.card().key, None
        predicted = predict(card, cases)
    else:
        device = choose_device(arguments.device)
        if device.type != "cuda":
            raise ValidationError(f"{arguments.device} is simulated and cannot be measured: use --predict-only")
        card = arguments.card or find_model(device_name(device))
        if card is None:
            raise ValidationError(f"no card models {device_name(device)}: name one with --card, or make one with "
                                  "`gapless calibrate`")
        predicted = _predict_in_a_process_of_its_own(card, cases)
        figures = measure_all(device, cases)
    command = ["gapless", "validate", *(["--predict-only"] if arguments.predict_only else []),
               *(["--card", arguments.card] if arguments.card else [])]
    record = {**compare(card, predicted, figures), "versions": versions(), "date": datetime.date.today().isoformat(),
              "command": shlex.join(command)}
    print(json.dumps(record, indent=1, ensure_ascii=False) if arguments.json else table(record))
    if arguments.out:
        write_json(arguments.out, record)
    return 0


def _predict_in_a_process_of_its_own(card: str, cases: list[tuple[str, str]]) -> dict[tuple[str, str], Figures]:
    """With both devices in one process PyTorch would take ``vgpu`` for the accelerator."""
    command = [sys.executable, "-m", "gapless.commands.cli", "validate", "--predict-only", "--json", "--card", card]
    for name in dict.fromkeys(name for name, _ in cases):
        command += ["--workload", name]
    for dtype in dict.fromkeys(dtype for _, dtype in cases):
        command += ["--dtype", dtype]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValidationError(f"the prediction failed: {done.stderr.strip()}")
    rows = {(row["workload"], row["dtype"]): row for row in json.loads(done.stdout)["cases"]}
    return {case: Figures(**rows[case]["predicted"]) for case in cases}


def _against_measured(arguments) -> int:
    """Predict every row that others measured; print, write and draw the errors. Raises MeasuredError."""
    unfit = [name for name in ("card", "workload", "dtype", "predict_only") if getattr(arguments, name)]
    if unfit:
        raise ValidationError(f"--measured goes without --{unfit[0].replace('_', '-')}: the tables already hold "
                              "measurements")
    if arguments.sample is not None and arguments.sample < 1:
        raise ValidationError(f"--sample is {arguments.sample}: it is 1 or more")
    for path in filter(None, (arguments.out, arguments.picture)):
        check_writable(path)
    files = [Path(name) for name in arguments.measured] or measured.shipped()
    tables = [measured.read(file) for file in files]  # all are read before anything takes long
    rows = [row for rows in tables for row in rows[::max(1, len(rows) // arguments.sample) if arguments.sample else 1]]
    found = list(against_measured.points(rows))
    lines = against_measured.summary(found)
    command = ["gapless", "validate", "--measured", *arguments.measured,
               *(["--sample", str(arguments.sample)] if arguments.sample else [])]
    record = {"what": "times that others measured, and their predictions", "simulated": True, "errors": lines,
              "versions": versions(), "date": datetime.date.today().isoformat(), "command": shlex.join(command)}
    print(json.dumps(record, indent=1, ensure_ascii=False) if arguments.json else against_measured.table(lines))
    if arguments.out:
        write_json(arguments.out, record)
    if arguments.picture:
        write_bytes(arguments.picture, themed.png(against_measured.picture(found), against_measured.alt(lines)))
    return 0
