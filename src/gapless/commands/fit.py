"""``gapless fit``: fit the constants of the kernel models to measured times, and write them for the virtual GPU."""

from __future__ import annotations

import importlib
import shlex
from pathlib import Path

from ..fidelity import measured
from ..files import write_json
from ..vgpu.hardware.cards import fitted
from ..vgpu.hardware.cards.specs import CARDS

# In the order in which they build on each other.
MODELS = ("streaming", "products", "half_products", "convolutions", "collectives", "networks", "uncertainty")


def add_parser(commands) -> None:
    """Add ``fit`` to the command line."""
    parser = commands.add_parser("fit", help="fit the models of kernel times to measured times", description=__doc__)
    parser.add_argument("model", nargs="*", metavar="MODEL", help=f"which: {', '.join(MODELS)} (default: all)")
    parser.add_argument("--measured", metavar="FILE", action="append",
                        help="a table of measured times; may be repeated (default: those in records/measured)")
    parser.add_argument("--leave-out", metavar="CARD",
                        help="a card whose rows are not used, to see how well the others predict it")
    parser.add_argument("--out", help="write here instead; only with one model (.json)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Read, fit, write, a line each. Raises MeasuredError."""
    names = arguments.model or MODELS
    for name in names:
        if name not in MODELS:
            raise measured.MeasuredError(f"no model is called {name!r}; known are {', '.join(MODELS)}")
    if arguments.leave_out is not None and arguments.leave_out not in CARDS:
        raise measured.MeasuredError(f"no card is called {arguments.leave_out!r}; known are {', '.join(CARDS)}")
    if len(names) > 1 and (arguments.out or arguments.leave_out):
        raise measured.MeasuredError("--out and --leave-out are for one model: name it")
    if arguments.leave_out and not arguments.out:
        raise measured.MeasuredError("with --leave-out give --out FILE too: the fit in use is made from all cards")
    files = [Path(name) for name in arguments.measured] if arguments.measured else measured.shipped()
    rows = [row for file in files for row in measured.read(file)]
    for name in names:
        module = importlib.import_module(f"..fidelity.fit.{name}", __package__)
        found = module.fit([row for row in rows if isinstance(row, module.ROWS)], arguments.leave_out)
        command = ["gapless", "fit", name, *(["--measured", *arguments.measured] if arguments.measured else [])]
        out = Path(arguments.out) if arguments.out else fitted.FOLDER / f"{module.MODEL}.json"
        write_json(out, {"source": module.SOURCE, "command": shlex.join(command), **found})
        if not arguments.out:
            for path, value in getattr(module, "beside", lambda rows: {})(
                    [row for row in rows if isinstance(row, module.ROWS)]).items():
                write_json(path, value)
        print(f"{name}: {out}, {len(found['shared'])} shared constants, {len(found['cards'])} cards' own")
    return 0
