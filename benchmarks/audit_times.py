"""Real time of `gapless audit` against the bare script, on the five scripts in `benchmarks/audited`.

    python benchmarks/audit_times.py [--repeats 3] [--card a100]

Each script runs as many steps bare as the audit lets it run (3 of warm-up, 3 recorded, 2 for memory): on the CPU, on the
virtual GPU without an audit, and audited. In seconds, the smallest of all repeats; starting Python and importing PyTorch
included, which the first column shows by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import milliseconds, parse, parser

AUDITED = Path(__file__).parent / "audited"
STEPS = 8
ON_THE_DEVICE = ("import runpy, sys; from gapless.vgpu import as_cuda\n"
                 "with as_cuda.install(sys.argv[2]): runpy.run_path(sys.argv[1], run_name='__main__')")


def seconds(command: list[str], folder: str, steps: int | None, repeats: int) -> float:
    """The least real time of ``command``. Raises CalledProcessError where it fails."""
    environment = {**os.environ} | ({} if steps is None else {"STEPS": str(steps)})

    def run() -> None:
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    return min(milliseconds(run) for _ in range(repeats)) / 1e3


def main() -> None:
    """Print the table."""
    found = parser(__doc__)
    found.set_defaults(repeats=3)
    found.add_argument("--card", default="a100")
    options = parse(found)
    print(f"{'script':<14}{'imports':>9}{'CPU':>8}{'vgpu':>8}{'audit':>8}   audit ÷ CPU")
    with tempfile.TemporaryDirectory() as folder:
        empty = seconds([sys.executable, "-c", "import torch"], folder, None, options.repeats)
        for script in sorted(AUDITED.glob("*.py")):
            path = str(script)
            times = [seconds(command, folder, steps, options.repeats) for command, steps in (
                ([sys.executable, path], STEPS), ([sys.executable, "-c", ON_THE_DEVICE, path, options.card], STEPS),
                ([sys.executable, "-m", "gapless.commands.cli", "audit", "--device", f"vgpu:{options.card}", "--watch", "0",
                  "--warm-up", "3", "--out", "page.html", path], 1000 if script.stem != "digits" else 200))]
            row = "".join(f"{each:>8.1f}" for each in times)
            print(f"{script.stem:<14}{empty:>9.1f}{row}   {times[2] / times[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
