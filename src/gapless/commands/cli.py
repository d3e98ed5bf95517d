"""The ``gapless`` command.

It starts without PyTorch too, so that ``gapless doctor`` can say what is wrong with it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys

EXIT_OK, EXIT_UNUSABLE = 0, 2

# Command → the module with its add_parser.
MODULES = {
    "check": ".check",
    "watch": ".watch",
    "progress": ".progress",
    "reset": ".reset",
    "doctor": ".doctor",
    "grade": ".grade",
    "demo": ".demo",
    "record": ".record",
    "census": "..fidelity.census",
    "calibrate": "..fidelity.calibrate",
    "validate": "..fidelity.validate",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 2 it could not be done, with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="gapless", description="A course in PyTorch training performance.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    trace = commands.add_parser("trace", help="print the report of a profiler's trace",
                                description="Print the report of any Kineto (PyTorch profiler) trace, gzip or not.")
    trace.add_argument("file", help="the trace: .json or .json.gz, or a URL such as s3://bucket/trace.json.gz")
    trace.add_argument("--json", action="store_true", help="print JSON")
    trace.add_argument("--picture", metavar="PNG", help="also draw the timeline (needs matplotlib)")
    trace.set_defaults(run=_trace)

    for name, module in MODULES.items():
        try:
            loaded = importlib.import_module(module, __package__)
        except Exception as error:  # whatever a damaged PyTorch raises
            _add_unavailable(commands, name, error)
        else:
            loaded.add_parser(commands)

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # no sign is worth a crash on a terminal that lacks it
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except _unusable() as error:
        print(f"gapless {arguments.command}: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNUSABLE
    except Exception as error:
        if not hasattr(sys.modules["gapless"], "_broken"):
            raise
        print(f"gapless {arguments.command}: {type(error).__name__}: {error}. What to do: gapless doctor", file=sys.stderr)
        return EXIT_UNUSABLE


def _unusable() -> tuple[type[Exception], ...]:
    """Errors that mean the input cannot be used, not that the program is wrong."""
    try:
        from ..measure.device import UnknownDevice
        from ..lessons import UnknownLesson
        from .record import RecordError
        from ..evidence.trace import TraceError
    except Exception:  # without PyTorch none of these can have been raised
        return (ImportError,)
    return TraceError, UnknownDevice, UnknownLesson, RecordError, ImportError


def _add_unavailable(commands, name: str, error: Exception) -> None:
    """Add a command that says why it cannot run."""
    parser = commands.add_parser(name, help="(cannot run here: see gapless doctor)", add_help=False)
    parser.add_argument("rest", nargs=argparse.REMAINDER)

    def run(arguments):
        raise ImportError(f"{type(error).__name__}: {error}. What to do: gapless doctor")

    parser.set_defaults(run=run)


def _trace(arguments) -> int:
    from ..evidence.report import StepReport
    from ..evidence.trace import Trace

    report = StepReport.from_trace(Trace.read(arguments.file))
    print(json.dumps(report.to_json(), indent=1) if arguments.json else report)
    if arguments.picture:
        from ..evidence.picture import alt_text, draw, save

        save(draw(report), arguments.picture, alt_text(report))
        print(f"picture: {arguments.picture}", file=sys.stderr)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
