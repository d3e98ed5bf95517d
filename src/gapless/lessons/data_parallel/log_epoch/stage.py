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
from ..stage import make_network, rank_and_world, watch_batches

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.json"
LOSS, FILES, MORE, MODE, MODEL = "loss", "files", "more files", "mode of the model", "parameters of the model"
AS_THEY_WERE = "as they were"
OLD, CONTENT, HOW = "old", "content", "how it got its name"
RENAMED, IN_PLACE, ELSEWHERE, GONE = "renamed", "in place", "from another folder", "after the old one was gone"


def ask_log_epoch(function, given, device):
    """What each rank returns, and what is then in its folder: a folder for each, as on machines with disks of their own. In
    each lie the files of the epoch before. With the option ``again`` another call has been made, with another folder."""
    options = given.options
    rank, world = rank_and_world()
    model = make_network("plain", options["seed"], options["width"], options["columns"]).to(device)
    model.train(options["training"])
    batches = _batches(given.inputs["x"], given.inputs["y"], options["sizes"], rank)
    dist.init_process_group(rank=rank, world_size=world, device_id=torch.device(device.type, 0))  # else a barrier warns
    check_batches, parameters = watch_batches(batches), _about(model)
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder = Path(name)
        old = {CHECKPOINT: _checkpoint_before(folder / CHECKPOINT), METRICS: b'{"epoch": -1, "loss": 0.0}'}
        for file, content in old.items():
            (folder / file).write_bytes(content)
            (Path(other) / file).write_bytes(content)
        if options["again"]:
            function(rank, world, model, batches, other, options["epoch"] - 1)
        _listen(folder)
        yield
        loss = function(rank, world, model, batches, name, options["epoch"])
        yield
        check_batches()
        if not dist.is_initialized():
            raise Unusable("it has destroyed the process group, which belongs to the caller. Leave the group as it is.")
        renamed = _heard(folder)
        files = {file: _seen(folder / file, content, *renamed.get(file, (IN_PLACE, None))) for file, content in old.items()}
        more = sorted(path.name for path in folder.iterdir() if path.name not in old)
    if isinstance(loss, bool) or not isinstance(loss, (int, float)):
        raise Unusable(f"it returned a {type(loss).__name__}, not the loss of the epoch, a number. Return it on each rank.")
    return {LOSS: float(loss), FILES: files, MORE: len(more), MODE: "training" if model.training else "evaluation",
            MODEL: next((words for words, before in parameters.items() if _about(model)[words] != before), AS_THEY_WERE)}


def _about(model: torch.nn.Module) -> dict[str, list]:
    """How the parameters are when they are not as before → what tells it, of each."""
    found = list(model.parameters())
    return {"on another device": [each.device for each in found],
            "with another `requires_grad`": [each.requires_grad for each in found],
            "with other gradients": [each.grad is None for each in found]}


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


_TELL = "gapless.renamed"  # an event of our own: what was heard is in the hook's closure, where no frame shows it


def _heard(folder: Path) -> dict[str, tuple[str, bytes | None]]:
    """File in ``folder`` → how it got that name, and with what in it, since :func:`_listen`."""
    told: dict[str, tuple[str, bytes | None]] = {}
    sys.audit(_TELL, folder, told)
    return told


def _listen(folder: Path) -> None:
    """To files that get names in ``folder``, for the rest of the process."""
    found: dict[str, tuple[str, bytes | None]] = {}

    def hear(event: str, given: tuple) -> None:
        if event == _TELL and given[0] == folder:
            given[1].update(found)
        if event not in ("os.rename", "os.remove"):
            return
        source, *target = (Path(os.fsdecode(each)).absolute() for each in given[:2 if event == "os.rename" else 1])
        if source.parent == folder.absolute() and source.name in (CHECKPOINT, METRICS):
            found[source.name] = GONE, None
        for each in target:
            if each.parent == folder.absolute() and source.is_file() and found.get(each.name, (RENAMED,))[0] == RENAMED:
                # Another folder may be on another disk: there a rename fails, and what then comes is a copy.
                found[each.name] = RENAMED if folder.absolute() in source.parents else ELSEWHERE, source.read_bytes()

    sys.addaudithook(hear)


def _seen(path: Path, before: bytes, how: str, when_renamed: bytes | None) -> dict:
    try:
        now = path.read_bytes()
    except OSError:
        return {OLD: False, CONTENT: None, HOW: how}
    return {OLD: now == before, CONTENT: _content(path), HOW: IN_PLACE if how == RENAMED and now != when_renamed else how}


def _content(path: Path):
    """What is in the file, as plain data; None where it cannot be read."""
    try:
        if path.name == METRICS:
            found = json.loads(path.read_text(encoding="utf-8"))
            return {name: value if type(value := found[name]) in (int, float) else str(value) for name in ("epoch", "loss")}
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {"epoch": int(found["epoch"]),
                "model": {str(name): value.tolist() for name, value in found["model"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, EOFError, pickle.UnpicklingError):
        return None
