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
from typing import NamedTuple

import torch
import torch.distributed as dist

from ....course.plain import Unusable, hooks_on
from ..stage import make_network, rank_and_world, watch_batches

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.json"
KIND = "frozen at first"  # of the network
LOSS, FILES, MORE, MODEL, WROTE = "loss", "files", "more files", "model", "whether anything was written"
AS_IT_WAS, RAN = "as it was", "run in another mode"
OLD, CONTENT, HOW = "old", "content", "how it got its name"
RENAMED, IN_PLACE, ELSEWHERE, GONE = "renamed", "in place", "from another folder", "after the old one was gone"


def ask_log_epoch(function, given, device):
    """What each rank returns, and what is then in its folder: a folder for each, as on machines with disks of their own. In
    each lie the files of the epoch before. With the option ``again`` another call has been made, with another folder."""
    options = given.options
    rank, world = rank_and_world()
    model = _model(options).to(device)
    modes = _modes_noted(model)
    batches = _batches(given.inputs["x"], given.inputs["y"], options["sizes"], rank)
    dist.init_process_group(rank=rank, world_size=world, device_id=torch.device(device.type, 0))  # else a barrier warns
    check_batches, before, start = watch_batches(batches), _about(model), os.getcwd()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder = Path(name)
        old = {CHECKPOINT: _checkpoint_before(folder / CHECKPOINT), METRICS: b'{"epoch": -1, "loss": 0.0}'}
        for file, content in old.items():
            (folder / file).write_bytes(content)
            (Path(other) / file).write_bytes(content)
        if options["again"]:
            function(rank, world, model, batches, other, options["epoch"] - 1)
        modes.clear()
        _listen(folder)
        yield
        loss = function(rank, world, model, batches, name, options["epoch"])
        yield
        if os.getcwd() != start:
            os.chdir(start)
            raise Unusable("it has changed the process's working directory (`os.chdir`). Others open files by relative "
                           "names: join `folder` and a name instead.")
        check_batches()
        if not dist.is_initialized():
            raise Unusable("it has destroyed the process group, which belongs to the caller. Leave the group as it is.")
        heard = _heard(folder)
        files = {file: _seen(folder / file, content, *heard.named.get(file, (IN_PLACE, None, None)))
                 for file, content in old.items()}
        more = sorted(path.name for path in folder.iterdir() if path.name not in old)
        wrote = bool(heard.wrote)  # before the folder is removed
    if isinstance(loss, bool) or not isinstance(loss, (int, float)):
        raise Unusable(f"it returned a {type(loss).__name__}, not the loss of the epoch, a number. Return it on each rank.")
    after = _about(model)
    changed = [words for words in before if after[words] != before[words]] or [RAN] * (not all(modes))
    return {LOSS: float(loss), FILES: files, MORE: len(more), WROTE: wrote, MODEL: (*changed, AS_IT_WAS)[0]}


def _model(options: dict) -> torch.nn.Module:
    """In the mode that ``options`` say, except for one layer; with gradients, and a layer that is frozen."""
    model = make_network(KIND, options["seed"], options["width"], options["columns"]).train(options["training"])
    model[1].train(not options["training"])
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    return model


def _modes_noted(model: torch.nn.Module) -> list[bool]:
    """Gets an entry whenever a layer runs: whether it is in the mode that it is in now."""
    found: list[bool] = []
    for module in model.modules():
        module.register_forward_pre_hook(_Noting(module.training, found))
    return found


class _Noting:
    """A hook that may be saved, as a whole module may."""

    def __init__(self, training: bool, found: list[bool]):
        self.training, self.found = training, found

    def __call__(self, module: torch.nn.Module, given: tuple) -> None:
        self.found.append(module.training == self.training)


def _about(model: torch.nn.Module) -> dict[str, list]:
    """How the model is when it is not as before → what tells it, of each module or parameter."""
    parameters, modules = list(model.parameters()), list(model.modules())
    return {"in another mode": [each.training for each in modules],
            "on another device": [each.device for each in parameters],
            "with another `requires_grad`": [each.requires_grad for each in parameters],
            "with other gradients": [None if each.grad is None else each.grad.tolist() for each in parameters],
            "with other weights": [each.tolist() for each in parameters],
            "with other hooks": [hooks_on(model)]}


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
_WRITES = os.O_WRONLY | os.O_RDWR


class _Heard(NamedTuple):
    """Since :func:`_listen`: file → how it got its name, what was in it then, and when that was written (ns); and the
    names of all that was written, renamed or removed."""

    named: dict[str, tuple[str, bytes | None, int | None]]
    wrote: list[str]


def _heard(folder: Path) -> _Heard:
    told: list[_Heard] = []
    sys.audit(_TELL, folder, told)
    return told[0]


def _listen(folder: Path) -> None:
    """To files that are written or get names in ``folder``, for the rest of the process."""
    found = _Heard({}, [])
    here = folder.resolve()
    current = {name: (folder / name).read_bytes() for name in (CHECKPOINT, METRICS)}  # what a reader should find

    def place(name, folder_fd: int) -> Path:
        start = here if folder_fd >= 0 and os.path.samestat(os.fstat(folder_fd), os.stat(here)) else Path.cwd()
        path = start / os.fsdecode(name)
        return path.parent.resolve() / path.name

    def say(name: str, how: str, *content) -> None:
        if found.named.get(name, (RENAMED,))[0] == RENAMED:
            found.named[name] = how, *(content or (None, None))

    def hear(event: str, given: tuple) -> None:
        if event == _TELL and given[0] == folder:
            given[1].append(found)
        elif event == "open" and not isinstance(given[0], int) and given[2] & _WRITES:
            path = place(given[0], -1)
            found.wrote.extend([path.name] if here in path.parents else [])
            if given[2] & os.O_TRUNC and path.parent == here and path.name in current:
                say(path.name, IN_PLACE)
        elif event == "os.remove":
            removed = place(*given)
            found.wrote.extend([removed.name] if here in removed.parents else [])
            if removed.parent == here and removed.name in current:
                say(removed.name, GONE)
        elif event == "os.rename":
            source, target = place(given[0], given[2]), place(given[1], given[3])
            found.wrote.extend([target.name] if here in target.parents else [])
            if source.parent == here and source.name in current:
                say(source.name, GONE)
            if target.parent == here and target.name in current and source.is_file():
                if target.is_file() and target.read_bytes() != current[target.name]:
                    say(target.name, IN_PLACE)
                current[target.name] = source.read_bytes()
                # Another folder may be on another disk: there a rename fails, and what then comes is a copy.
                say(target.name, RENAMED if here in source.parents else ELSEWHERE, current[target.name],
                    source.stat().st_mtime_ns)

    sys.addaudithook(hear)


def _seen(path: Path, before: bytes, how: str, when_renamed: bytes | None, written_ns: int | None) -> dict:
    try:
        now, now_ns = path.read_bytes(), path.stat().st_mtime_ns
    except OSError:
        return {OLD: False, CONTENT: None, HOW: how}
    if how == RENAMED and (now, now_ns) != (when_renamed, written_ns):
        how = IN_PLACE
    return {OLD: now == before, CONTENT: _content(path), HOW: how}


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
