"""``gapless lab``: the lessons in JupyterLab, at their index."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

from .start import INDEX


def add_parser(commands) -> None:
    """Add ``lab`` to the command line."""
    parser = commands.add_parser(
        "lab", help="open the lessons in JupyterLab",
        description="Open a folder of lessons, as gapless start made it, in JupyterLab at the index. Arguments after "
                    "-- go to JupyterLab, such as: gapless lab my-course -- --no-browser")
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=Path("."),
                        help="where the lessons are (default: this folder)")
    parser.add_argument("options", metavar="-- OPTION", nargs="*", help="JupyterLab's own options")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Start JupyterLab and wait for its end; its exit status, or 2 where it could not be started."""
    given, options = arguments.folder, arguments.options
    if str(given).startswith("-"):  # argparse takes what comes first after -- for the folder
        given, options = Path("."), [str(given), *options]
    folder = next((each for each in (given, given / "notebooks") if (each / INDEX).is_file()), None)
    if folder is None:
        print(f"gapless lab: there are no lessons in {given} (no {INDEX}). Hand them out, then open them: "
              "gapless start my-course && gapless lab my-course", file=sys.stderr)
        return 2
    if importlib.util.find_spec("jupyterlab") is None:
        print("gapless lab: JupyterLab is not installed beside this gapless. What to do: "
              f"{sys.executable} -m pip install 'gapless[lab]'\n"
              f"Or open {folder / INDEX} in the Jupyter or editor that you have.", file=sys.stderr)
        return 2
    process = subprocess.Popen(command(folder, options))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is JupyterLab's, which asks whether to stop
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def command(folder: Path, options: list[str]) -> list[str]:
    """What starts JupyterLab, by this very interpreter, at the index in ``folder``. Jupyter refuses to run as root, the only
    user of many containers, unless told otherwise."""
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [sys.executable, "-m", "jupyterlab", f"--notebook-dir={folder}", f"--LabApp.default_url=/lab/tree/{INDEX}",
            *as_root, *options]
