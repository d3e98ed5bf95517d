"""``gapless run``: a training script on several virtual GPUs, a process a GPU."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

EXIT_FAILED = 1


def add_parser(commands) -> None:
    """Add ``run`` to the command line."""
    parser = commands.add_parser(
        "run", help="run a script on several virtual GPUs",
        description="Run a Python script in as many processes as there are GPUs, each with a virtual GPU of its own "
                    "(vgpu:0; cuda too, where there is no real GPU) and the environment that torchrun gives (RANK, "
                    "LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, …). Collectives move real values and take modelled time. "
                    "Afterwards each rank's clocks are printed to stderr.")
    parser.add_argument("--gpus", metavar="N", type=int, default=2, help="how many (default: %(default)s)")
    parser.add_argument("--machines", metavar="M", type=int, default=1,
                        help="over how many machines they are spread (default: 1)")
    parser.add_argument("--machine", metavar="NAME[@GB/S]",
                        help="what each machine is: dgx_a100, pairs_a100, pcie, …, and its network's speed, as in "
                             "dgx_a100@6.5 (default: what such cards usually stand in)")
    parser.add_argument("--device", metavar="CARD", default=None,
                        help="the card: a10g, a100, h100, … (default: GAPLESS_DEVICE, else a10g)")
    parser.add_argument("--host", choices=("measured", "counted"), default="measured",
                        help="measured is the program's own time on this machine; counted is an estimate from its "
                             "Python calls, the same on every machine (default: %(default)s)")
    parser.add_argument("--traces", metavar="FOLDER", help="write each rank's trace there, rank0.json.gz and so on")
    parser.add_argument("--trace-steps", metavar="FIRST-LAST", type=_steps,
                        help="only of these steps, counted from 0 by the optimizer's step()")
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def _steps(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of steps: give 3 or 3-5, for example")
    return int(found[1]), int(found[2] or found[1])


def run(arguments: argparse.Namespace) -> int:
    """Run it; 1 where a rank fails, 2 where it cannot be run. Raises UnknownDevice."""
    from .. import vgpu
    from ..measure.device import VARIABLE
    from ..measure.several_gpus import RankError, on_gpus
    from ..vgpu.hardware.times import interconnect

    script = Path(arguments.script)
    if not script.is_file():
        print(f"gapless run: there is no file {script}", file=sys.stderr)
        return 2
    if arguments.trace_steps and not arguments.traces:
        print("gapless run: --trace-steps without --traces FOLDER: name a folder for the traces", file=sys.stderr)
        return 2
    device = (arguments.device or os.environ.get(VARIABLE, "")).strip()
    name = re.sub(r"^vgpu(:|$)", "", device) or "a10g"
    if name.startswith("cuda"):
        print(f"gapless run: {device} is a real GPU: use torchrun there. This command is for virtual ones: --device a10g",
              file=sys.stderr)
        return 2
    try:
        with vgpu.host_clock.measured(arguments.host == "measured"):
            results = on_gpus(arguments.gpus, _script, str(script), arguments.arguments, f"vgpu:{name}", device=name,
                              machines=arguments.machines, machine=arguments.machine, traces=arguments.traces,
                              trace_steps=arguments.trace_steps)
    except RankError as error:
        print(f"gapless run: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (ValueError, OSError, RuntimeError) as error:
        print(f"gapless run: {error}", file=sys.stderr)
        return 2
    card = vgpu.find_card(name)
    print(f"Simulated: {arguments.gpus} × {card.name}, machine {arguments.machine or interconnect.machine_name(card)}"
          + (f", {arguments.machines} of them" if arguments.machines > 1 else ""), file=sys.stderr)
    for result in results:
        print(f"rank {result.rank}: host {result.host_ns / 1e6:.3f} ms, GPU done at {result.device_ns / 1e6:.3f} ms"
              + (f", {result.trace}" if result.trace else ""), file=sys.stderr)
    return 0


def _script(rank: int, world: int, path: str, arguments: list[str], device: str) -> None:
    """What each process runs. Where there is no GPU, ``cuda`` means the virtual one."""
    import torch

    from ..measure.device import VARIABLE
    from ..vgpu import as_cuda

    os.environ[VARIABLE] = device
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(path).absolute().parent)
    here, number = (int(os.environ[name]) for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"))
    with nullcontext() if torch.cuda.is_available() else as_cuda.install(index=number, count=here):
        runpy.run_path(path, run_name="__main__")
