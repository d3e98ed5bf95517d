"""Lesson 09: how ``log_epoch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from ....course.plain import Unusable
from ..stage import make_network, rank_and_world

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.json"
LOSS, FILES, MORE = "loss", "files", "more files"
OLD, CONTENT, RENAMED = "old", "content", "renamed"


def ask_log_epoch(function, given, device):
    """What each rank returns, and what is then in its folder: a folder for each, as on machines with disks of their own. In
    each lie the files of the epoch before."""
    options = given.options
    rank, world = rank_and_world()
    model = make_network("plain", options["seed"], options["width"]).to(device)
    batches = _batches(given.inputs["x"], given.inputs["y"], options["sizes"], rank)
    dist.init_process_group(rank=rank, world_size=world, device_id=torch.device(device.type, 0))  # else a barrier warns
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old = {CHECKPOINT: _checkpoint_before(folder / CHECKPOINT), METRICS: b'{"epoch": -1, "loss": 9.0}'}
        for file, content in old.items():
            (folder / file).write_bytes(content)
        renamed = _renamed(folder)
        yield
        loss = function(rank, world, model, batches, name, options["epoch"])
        yield
        files = {file: _seen(folder / file, content, renamed.get(file)) for file, content in old.items()}
        more = sorted(path.name for path in folder.iterdir() if path.name not in old)
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        loss = loss.item()
    if isinstance(loss, bool) or not isinstance(loss, (int, float)):
        raise Unusable(f"it returned a {type(loss).__name__}; the loss of the epoch, a number, is wanted on each rank.")
    return {LOSS: float(loss), FILES: files, MORE: len(more)}


def _batches(x: torch.Tensor, y: torch.Tensor, sizes: list[list[int]], rank: int) -> list:
    """The rank's own rows, those after the ranks' before it, in batches of ``sizes[rank]``."""
    found, start = [], sum(map(sum, sizes[:rank]))
    for size in sizes[rank]:
        found.append((x[start:start + size], y[start:start + size]))
        start += size
    return found


def _checkpoint_before(path: Path) -> bytes:
    torch.save({"epoch": -1, "model": {}}, path)
    return path.read_bytes()


def _renamed(folder: Path) -> dict[str, bytes]:
    """File in ``folder`` → what was in it when it got that name, from now on. For the rest of the process."""
    found = {}

    def hear(event: str, given: tuple) -> None:
        if event == "os.rename":
            source, target = (Path(os.fsdecode(each)).absolute() for each in given[:2])
            # From another disk a rename fails, and what then comes is a copy.
            if target.parent == folder.absolute() and source.is_file() and source.stat().st_dev == folder.stat().st_dev:
                found[target.name] = source.read_bytes()

    sys.addaudithook(hear)
    return found


def _seen(path: Path, before: bytes, when_renamed: bytes | None) -> dict:
    try:
        now = path.read_bytes()
    except OSError:
        return {OLD: False, CONTENT: None, RENAMED: False}
    return {OLD: now == before, CONTENT: _content(path), RENAMED: now == when_renamed}


def _content(path: Path):
    """What is in the file, as plain data; None where it cannot be read."""
    try:
        if path.name == METRICS:
            found = json.loads(path.read_text(encoding="utf-8"))
            return {"epoch": int(found["epoch"]), "loss": float(found["loss"])}
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {"epoch": int(found["epoch"]),
                "model": {str(name): value.tolist() for name, value in found["model"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None
