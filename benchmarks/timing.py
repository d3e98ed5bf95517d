"""What the benchmarks share: times turn by turn, so that a busy machine is as unfair to one as to another."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have: ``--repeats`` and ``--threads``."""
    found = argparse.ArgumentParser(description=description.splitlines()[0])
    found.add_argument("--repeats", type=int, default=15, help="how often each is measured")
    found.add_argument("--threads", type=int, help="threads of PyTorch on the CPU (default: PyTorch's choice)")
    return found


def parse(found: argparse.ArgumentParser) -> argparse.Namespace:
    """Its options, the threads set."""
    options = found.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    return options


def milliseconds(step: Callable[[], object]) -> float:
    """Real time of one call."""
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def within(context: Callable, call: Callable[[], object]) -> Callable[[], None]:
    """``call`` inside the context manager that ``context`` makes."""

    def inside():
        with context():
            call()

    return inside


def interleaved(steps: dict[str, Callable[[], object]], repeats: int, warmup: int = 3) -> dict[str, list[float]]:
    """Times (ms) of each of ``steps``, turn by turn, after ``warmup`` turns that do not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(warmup + repeats):
        for name, step in steps.items():
            took = milliseconds(step)
            if turn >= warmup:
                times[name].append(took)
    return times


def show(name: str, times: list[float]) -> None:
    """One line: the median, and between what the times lie."""
    middle, low, high = statistics.median(times), min(times), max(times)
    print(f"{name:58s} {middle:8.1f} ms   ({low:.1f} … {high:.1f}, n = {len(times)})", flush=True)
