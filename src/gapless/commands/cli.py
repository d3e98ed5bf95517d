"""The ``gapless`` command.

It starts without PyTorch too, so that ``gapless doctor`` can say what is wrong with it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

EXIT_UNUSABLE = 2

# Each is a module beside this one, with _ for -, which adds itself by its add_parser.
COMMANDS = ("start", "lab", "check", "watch", "progress", "reset", "deal", "doctor", "grade", "grade-class", "class-report",
            "grades", "demo", "trace", "run", "audit", "record", "census", "calibrate", "validate", "fit", "new-lesson")


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``gapless`` with all commands; what cannot be imported here is a command that says why."""
    parser = argparse.ArgumentParser(prog="gapless", description="A course in PyTorch training performance.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name in COMMANDS:
        try:
            loaded = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        except Exception as error:  # whatever a damaged PyTorch raises
            _add_unavailable(commands, name, error)
        else:
            loaded.add_parser(commands)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 2 it could not be done, with the reason on stderr."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _run(argv: list[str] | None) -> int:
    parser = make_parser()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # no sign is worth a crash on a terminal that lacks it
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except _unusable() as error:
        print(f"gapless {arguments.command}: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
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
        from ..audit.launch import AuditError
        from ..evidence.traces.trace import TraceError
        from ..fidelity.calibrate import CalibrationError
        from ..fidelity.measured import MeasuredError
        from ..lessons import UnknownLesson
        from ..measure.device import UnknownDevice
        from .record import RecordError
        from .validate import ValidationError
    except Exception:  # without PyTorch none of these can have been raised
        return (ImportError,)
    return (TraceError, UnknownDevice, UnknownLesson, RecordError, CalibrationError, ValidationError, MeasuredError,
            ImportError, AuditError)


def _add_unavailable(commands, name: str, error: Exception) -> None:
    """Add a command that says why it cannot run."""
    parser = commands.add_parser(name, help="(cannot run here: see gapless doctor)", add_help=False)
    parser.add_argument("rest", nargs=argparse.REMAINDER)

    def run(arguments):
        raise ImportError(f"{type(error).__name__}: {error}. What to do: gapless doctor")

    parser.set_defaults(run=run)


if __name__ == "__main__":
    sys.exit(main())
