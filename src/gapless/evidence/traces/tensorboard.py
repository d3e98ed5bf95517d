"""A trace as TensorBoard's PyTorch profiler plugin (torch-tb-profiler 0.4.3) reads it.

Runtime calls get the category that they had before PyTorch 2.0: without them no operator has any time on the GPU. Times are
in 1/1024 µs. NCCL's kernels and their launches get the "External id" of the block that called them (``nccl:all_reduce``)
and not of the operator around that, with which the plugin counts them as computing. The same block on the GPU's row, which
it would take for another call, moves to a category that it leaves alone. Collectives whose names it does not know get the
name of the same one that it does.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from . import storage
from .communication import find_collectives
from .steps import launches_by_correlation
from .trace import Trace, as_number

_CATEGORIES = {"cuda_runtime": "Runtime", "cuda_driver": "Runtime", "fwdbwd": "forward_backward"}
_NAMES = {"nccl:_all_gather_base": "nccl:all_gather", "nccl:_reduce_scatter_base": "nccl:reduce_scatter",
          "nccl:all_gather_into_tensor_coalesced": "nccl:all_gather", "nccl:all_reduce_coalesced": "nccl:all_reduce",
          "nccl:reduce_scatter_tensor_coalesced": "nccl:reduce_scatter"}


def events_for_tensorboard(trace: Trace) -> list[dict]:
    """The trace's events, changed; the trace stays as it is."""
    owners = _owners(trace)
    return [_changed(event, owners) for event in trace.events]


def write_tensorboard(trace: Trace, folder: str | os.PathLike, worker: str | None = None, *, compressed: bool = True
                      ) -> Path | str:
    """Write the trace into ``folder`` (or at a URL, as for :meth:`Trace.read`) for TensorBoard's PyTorch profiler plugin,
    and return the file's path (or URL).

    ``worker`` is what the plugin lists the trace under: the host or the simulated card, and the process's number, if
    None. The plugin (torch-tb-profiler 0.4.3) knows only what PyTorch wrote before 2.0: the events are changed for it
    as said above. Raises OSError where the folder cannot be made or written, TraceError where the URL cannot.
    """
    if worker is None:
        host = f"simulated-{trace.device_name}".replace(" ", "-") if trace.simulated else socket.gethostname()
        worker = f"{host}_{os.getpid()}"
    name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if compressed else ''}"
    if storage.is_url(folder):
        path = f"{str(folder).rstrip('/')}/{name}"
    else:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
    Trace(events_for_tensorboard(trace), trace.metadata).write(path)
    return path


Trace.write_tensorboard = write_tensorboard


def name_in_tensorboard(name: str) -> str:
    """What the plugin calls a collective of this name."""
    return _NAMES.get(name, name)


def _owners(trace: Trace) -> dict[int, object]:
    """The "External id" that an event is to have, by the identity of its arguments."""
    launches, owners = launches_by_correlation(trace.spans), {}
    for each in find_collectives(trace):
        number = None if each.call is None else each.call.args.get("External id")
        if number is None:
            continue
        for kernel in each.kernels:
            owners[id(kernel.args)] = number
            if launch := launches.get(kernel.args.get("correlation")):
                owners[id(launch.args)] = number
    return owners


def _changed(event: dict, owners: dict[int, object]) -> dict:
    event, category, name = dict(event), event.get("cat"), event.get("name")
    if category in _CATEGORIES:
        event["cat"] = _CATEGORIES[category]
    if id(event.get("args")) in owners:
        event["args"] = {**event["args"], "External id": owners[id(event["args"])]}
    if isinstance(name, str) and name.startswith("nccl:"):
        if category == "gpu_user_annotation":
            event["cat"] = "gpu_communication"
        else:
            event["name"] = name_in_tensorboard(name)
    start_us, duration_us = as_number(event.get("ts")), as_number(event.get("dur"))
    if start_us is not None:
        # The plugin adds start and duration. With decimal fractions the sum may miss the next event's start by a last
        # digit, and neighbours seem to overlap; sums of binary fractions are exact.
        event["ts"] = round(start_us * 1024) / 1024
        if duration_us is not None:
            event["dur"] = round((start_us + duration_us) * 1024) / 1024 - event["ts"]
    return event
