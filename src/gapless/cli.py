"""The ``gapless`` command."""

from __future__ import annotations

import argparse
import json
import sys

EXIT_OK, EXIT_UNUSABLE = 0, 2


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 2 it could not be done, with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="gapless", description="A course in PyTorch training performance.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    trace = commands.add_parser("trace", help="print the report of a profiler's trace",
                                description="Print the report of any Kineto (PyTorch profiler) trace, gzip or not.")
    trace.add_argument("file", help="the trace: .json or .json.gz")
    trace.add_argument("--json", action="store_true", help="print JSON")
    trace.add_argument("--picture", metavar="PNG", help="also draw the timeline (needs matplotlib)")
    trace.set_defaults(run=_trace)

    from .grading import command as grade

    grade.add_parser(commands)

    from . import calibrate, census, demo, record, validate

    for module in (demo, record, census, calibrate, validate):
        module.add_parser(commands)

    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except _unusable() as error:
        print(f"gapless {arguments.command}: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _unusable() -> tuple[type[Exception], ...]:
    """Errors that mean the input cannot be used, not that the program is wrong."""
    from .device import UnknownDevice
    from .record import RecordError
    from .trace import TraceError

    return TraceError, UnknownDevice, RecordError, ImportError


def _trace(arguments) -> int:
    from .report import StepReport
    from .trace import Trace

    report = StepReport.from_trace(Trace.read(arguments.file))
    print(json.dumps(report.to_json(), indent=1) if arguments.json else report)
    if arguments.picture:
        from .picture import alt_text, draw, save

        save(draw(report), arguments.picture, alt_text(report))
        print(f"picture: {arguments.picture}", file=sys.stderr)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
