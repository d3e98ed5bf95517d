"""``gapless trace``: the report of a profiler's trace."""

from __future__ import annotations

import json
import sys


def add_parser(commands) -> None:
    """Add ``trace`` to the command line."""
    parser = commands.add_parser("trace", help="print the report of a profiler's trace",
                                 description="Print the report of any Kineto (PyTorch profiler) trace, gzip or not.")
    parser.add_argument("file", help="the trace: .json or .json.gz, or a URL such as s3://bucket/trace.json.gz")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--picture", metavar="PNG", help="also draw the timeline (needs matplotlib)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Print, and draw where asked to. Raises TraceError, and ImportError where matplotlib is asked for and missing."""
    from ..evidence.picture import alt_text, draw, save
    from ..evidence.report import StepReport
    from ..evidence.trace import Trace

    report = StepReport.from_trace(Trace.read(arguments.file))
    print(json.dumps(report.to_json(), indent=1) if arguments.json else report)
    if arguments.picture:
        save(draw(report), arguments.picture, alt_text(report))
        print(f"picture: {arguments.picture}", file=sys.stderr)
    return 0
