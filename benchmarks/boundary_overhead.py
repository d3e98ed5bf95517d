"""What an operator costs in real time on a virtual GPU in another process, as in grading: medians, in µs a call.

    python benchmarks/boundary_overhead.py [--repeats 15] [--calls 200]

Tensors are small, so that the call counts and not the arithmetic. ``same process`` has the device to itself; else the
program and its device are two processes with a socket between them, both on one core, or each on its own. The three take
turns. Linux only.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import statistics

import torch
from operator_overhead import operators, repeated
from timing import milliseconds, parse, parser

from gapless import vgpu
from gapless.vgpu.boundary.link import Link
from gapless.vgpu.boundary.served import Gone, Served
from gapless.vgpu.boundary.wire import Channel

CARD = "a10g"
NAMES = tuple(operators("cpu"))


def serve(end: socket.socket, core: int) -> None:
    """Be the device until the program ends."""
    os.sched_setaffinity(0, {core})
    vgpu.enable(CARD)
    with contextlib.suppress(Gone):
        Served(Channel(end)).request({})
    os._exit(0)


def program(orders, cores: tuple[int, ...], calls: int) -> None:
    """Answer each operator's name that comes over the pipe ``orders`` with the time (µs) of one call, until it closes.

    ``cores``: the program's, and the device's where that is another process.
    """
    os.sched_setaffinity(0, {cores[0]})
    own, theirs = socket.socketpair()
    if len(cores) == 2 and os.fork() == 0:
        own.close()
        serve(theirs, cores[1])
    theirs.close()
    device = vgpu.enable(CARD)
    if len(cores) == 2:
        link = Link(Channel(own))
        link.install()
        link.receive()
    with torch.no_grad():
        steps = {name: repeated(call, calls) for name, call in operators(device).items()}
        while (name := orders.recv()) is not None:
            orders.send(milliseconds(steps[name]) * 1e3 / calls)


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--calls", type=int, default=200, help="calls in one measurement")
    options = parse(own)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("this needs two cores")
    torch.set_num_threads(1)  # threads would not live through a fork
    places = {"same process": cores[:1], "one core": [cores[0]] * 2, "two cores": cores[:2]}
    forks = multiprocessing.get_context("fork")
    pipes = {}
    for mode, where in places.items():
        pipes[mode], theirs = forks.Pipe()
        forks.Process(target=program, args=(theirs, tuple(where), options.calls), daemon=True).start()
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"µs a call, median of {options.repeats}")
    print(f"{'':20s}" + "".join(f"{mode:>14s}" for mode in places))
    for name in NAMES:
        times = {mode: [] for mode in places}
        for turn in range(options.repeats + 1):  # the first does not count
            for mode, pipe in pipes.items():
                pipe.send(name)
                took = pipe.recv()
                if turn:
                    times[mode].append(took)
        print(f"{name:20s}" + "".join(f"{statistics.median(times[mode]):14.1f}" for mode in places), flush=True)
    for pipe in pipes.values():
        pipe.send(None)


if __name__ == "__main__":
    main()
