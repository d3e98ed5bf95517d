"""The process that a script runs in: ``python -m gapless.audit.child OPTIONS``. What it finds goes into a folder's files.

The script runs as ``python script.py`` would run it: as ``__main__``, with its own arguments, its folder on the path, in the
folder where the command was given. Its standard output goes to standard error, as standard output is the report's.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import os
import runpy
import sys
import traceback
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from ..measure.device import device as choose_device
from ..vgpu import as_cuda, host_clock, shape_only
from ..vgpu.process.location import is_user_file
from .loaders import watched_loaders
from .options import Options
from .session import AuditDone, Session
from .side_effects import watch
from .switches import switched


def main(text: str) -> None:
    """Run the script of these options (JSON) and leave the files."""
    options = Options.from_json(text)
    device = choose_device(options.device)
    session = Session(options, device)
    simulated = as_cuda.install(on_cpu=options.on_cpu) if device.type == "vgpu" else nullcontext()
    session.facts["overwritten"] = watch(options.began_s)
    session.facts["values"] = not (options.fast and device.type == "vgpu")
    values = nullcontext() if session.facts["values"] else shape_only()
    loaders = session.facts.setdefault("loaders", [])
    gc.collect()
    gc.freeze()  # what is here so far takes no time of the program's, when the collector looks through its own
    host_clock.measure(not options.counted)
    with simulated, values, session.ends.watching(), watched_loaders(loaders):
        with switched(options.switch), _watched_processes(session.facts):
            ended = _run(options)
    session.leave(ended)


@contextmanager
def _watched_processes(facts: dict):
    """Inside, ``facts["started"]`` counts the processes that the program starts itself: no loader's, pool's or manager's."""
    facts["started"] = 0
    start = multiprocessing.process.BaseProcess.start

    @functools.wraps(start)
    def counted(process):
        package = getattr(getattr(process, "_target", None), "__module__", None) or ""
        if not package.startswith(("torch.utils.data", "gapless.", "multiprocessing.")):
            facts["started"] += 1
        start(process)

    multiprocessing.process.BaseProcess.start = counted  # type: ignore[assignment]
    try:
        yield
    finally:
        multiprocessing.process.BaseProcess.start = start


def _run(options: Options) -> dict:
    """Run the script; how it ended: ``end`` is "done", "returned", "exited", "interrupted" or "failed"."""
    sys.argv = [options.script, *options.arguments]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if options.is_module:
                sys.path.insert(0, os.getcwd())
                runpy.run_module(options.script, run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(options.script).resolve().parent))
                runpy.run_path(options.script, run_name="__main__")
    except AuditDone:
        return {"end": "done"}
    except SystemExit as error:
        return {"end": "exited", "status": error.code if isinstance(error.code, (int, str)) else 0}
    except KeyboardInterrupt:
        return {"end": "interrupted"}
    except BaseException as error:
        if any(isinstance(each, AuditDone) for each in _chain(error)):
            return {"end": "done"}  # raised again as another, as a library does with what interrupts it
        return {"end": "failed", "error": _about(error)}
    return {"end": "returned"}


def _chain(error: BaseException | None):
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _about(error: BaseException) -> dict:
    """The error in words, with the script's own lines."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if is_user_file(frame.filename) and os.sep + "gapless" + os.sep + "audit" not in frame.filename]
    lines = [f"{frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}" for frame in frames
             if frame.filename != runpy.__file__]
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    at = (own or frames or [None])[-1]
    return {"type": type(error).__name__, "message": str(error), "lines": lines,
            "at": None if at is None else f"{at.filename}:{at.lineno}", "line": None if at is None else at.line,
            "in_gapless": _is_ours(traceback.extract_tb(error.__traceback__)),
            "out_of_memory": isinstance(error, torch.OutOfMemoryError),
            "is_syntax": isinstance(error, SyntaxError)}


def _is_ours(frames) -> bool:
    """Whether this package raised it."""
    return bool(frames) and frames[-1].filename.startswith(str(Path(__file__).parents[1]))


if __name__ == "__main__":
    main(sys.argv[1])
