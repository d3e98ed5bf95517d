"""An audit: the script's run, and what to say if it gave nothing to audit."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..evidence.traces.trace import Trace
from ..measure.several_gpus import taken_port
from .launch import AuditError, launch
from .options import FACTS, MEMORY, STEPS, TRACE, Options
from .result import Audit, Trial, noise_ms
from .side_effects import copy_folder, name_as_in

# Errors that have nothing to do with a device.
_PLAIN = frozenset({"FileNotFoundError", "ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError",
                    "NameError", "PermissionError", "NotADirectoryError", "ArgumentError", "URLError", "ConnectionError"})
# What a program says that looks for the environment of torchrun's processes.
_LAUNCHER = re.compile(r"\b(LOCAL_RANK|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|GROUP_RANK)\b")
_OTHERS = ("It has started processes of its own, which have no virtual GPU and are not watched: let it train in one process "
           "(torch.multiprocessing.spawn of one is none), run it by gapless run --gpus N, or audit on a real GPU")


def audit(script: str, arguments: Sequence[str], folder: str, *, is_module: bool = False, device: str | None = None,
          steps: int | None = None, warm_up: int | None = None, memory: bool = True, forward: bool = False,
          time_limit_s: float | None = None, tries: Sequence[str] = (), counted: bool = False,
          watch_s: float = 0.0, scratch: bool = False, fast: bool = False) -> Audit:
    """Run ``script`` with its ``arguments`` and read what it left in ``folder``; then once more for each of the switches in
    ``tries`` (:data:`gapless.audit.switches.SWITCHES`). ``forward``: a step is a forward pass. ``counted``: the virtual
    GPU's host is counted, not measured. ``watch_s``: how long the script runs on afterwards (:mod:`.afterwards`).
    ``scratch``: it runs in a copy of the current folder, made in ``folder``. ``fast``: no values are computed on the virtual
    GPU (:func:`gapless.vgpu.shape_only`). Raises AuditError, with the reason, where there is nothing to audit.

    Without being asked it is run again where it wants a launcher's environment, where it has fewer steps than are needed,
    and, by its forward passes, where it trains nothing."""
    options = Options(script, tuple(arguments), folder, is_module, device, steps, warm_up, memory, forward=forward,
                      counted=counted, fast=fast, watch_s=watch_s, began_s=time.time())
    if scratch:
        options = _in_a_copy(options)
    facts = _run(options, time_limit_s)
    overwritten = facts["overwritten"]
    while (other := _otherwise(options, facts)) is not None:
        options, why = other
        print(f"gapless audit: {why}: once more so", file=sys.stderr, flush=True)
        for kept in (TRACE, MEMORY, FACTS):
            (Path(folder) / kept).unlink(missing_ok=True)
        facts = _run(options, time_limit_s)
        overwritten = facts["overwritten"] = overwritten + facts["overwritten"]
    if facts["state"] != "recorded":
        raise AuditError(_nothing(options, facts, time_limit_s))
    if "not_counted" in facts:
        raise AuditError(facts["not_counted"])
    if facts["end"] == "failed":
        print(f"gapless audit: the script failed after the recorded steps: {facts['error']['type']}", file=sys.stderr)
    kept = Path(folder) / MEMORY
    found = Audit.of(script, Trace.read(Path(folder) / TRACE), facts, Trace.read(kept) if kept.exists() else None)
    return replace(found, trials=tuple(_try(options, name, time_limit_s) for name in tries))


def _in_a_copy(options: Options) -> Options:
    here, copy = Path.cwd(), (Path(options.folder) / "copy").resolve()
    copy_folder(here, copy)
    script = Path(options.script)
    if not options.is_module and script.is_absolute() and script.is_relative_to(here):
        options = replace(options, script=str(copy / script.relative_to(here)))
    return replace(options, copy=str(copy))


def _run(options: Options, time_limit_s: float | None) -> dict:
    """One run; its files and facts name the folder that it is a copy of, where it is in one."""
    facts = launch(options, time_limit_s)
    if options.copy is None:
        return facts
    folder = Path(options.folder)
    name_as_in(Path.cwd(), Path(options.copy), [folder / name for name in (TRACE, MEMORY, FACTS)])
    return json.loads((folder / FACTS).read_text(encoding="utf-8"))


def _otherwise(options: Options, facts: dict) -> tuple[Options, str] | None:
    """What else to try after a run that came to nothing, and why; None: nothing else."""
    if facts["state"] == "recorded" or facts["end"] == "interrupted":
        return None
    if facts["end"] == "failed":
        wants = not options.launched and _LAUNCHER.search(facts["error"]["message"])
        return (replace(options, launched=True), "the script is made for a launcher, and runs as torchrun's only process") \
            if wants else None
    seen = facts["steps_seen"]
    if seen >= 2 and options.warm_up is None:
        steps = min(options.steps or STEPS, seen - 1)
        left = seen - steps
        return (replace(options, steps=steps, warm_up=max(1, min(3, left - 2)), memory=options.memory and left >= 3),
                f"the script ends after {seen} steps, so fewer are taken")
    if not seen and not options.forward and facts["launches"] and not facts["started"]:
        return replace(options, forward=True), "the script trains nothing, so each forward pass of its model is a step"
    return None


def _try(options: Options, name: str, time_limit_s: float | None) -> Trial:
    """The script once more, with a switch on."""
    print(f"gapless audit: once more, with {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gapless-audit-") as folder:
        try:
            facts = _run(replace(options, folder=folder, switch=name, memory=False, watch_s=0.0), time_limit_s)
        except AuditError as error:
            return Trial(name, None, str(error))
    if facts["state"] != "recorded":
        return Trial(name, None, _in_short(facts))
    return Trial(name, facts["step_ms"], noise_ms=noise_ms(facts))


def _in_short(facts: dict) -> str:
    error = facts.get("error")
    return f"{error['type']}: {error['message'].partition(chr(10))[0]}" if error else "it ended before the recorded steps"


def _nothing(options: Options, facts: dict, time_limit_s: float | None) -> str:
    """Why there is no audit, and what to do."""
    if facts["end"] == "failed":
        return _failed(options, facts, time_limit_s)
    if facts["end"] == "interrupted":
        return "the script was interrupted before the recorded steps were over"
    how = f"exited with status {facts['status']!r}" if facts["end"] == "exited" else "ended"
    seen = facts["steps_seen"]
    if seen == 1:
        return f"the script {how} after one step, and two are needed: one to warm up, one to record. Let it train for longer"
    if seen:
        return (f"the script {how} after {seen} steps, and {options.warm_up} to warm up and {options.steps or STEPS} to "
                "record were asked for: --warm-up 1 --steps 1, or let it train for longer")
    if facts["started"]:
        return (f"the script {how} without a step in its own process. {_OTHERS}")
    idle = "" if facts["launches"] else ", and nothing ran on the GPU"
    return (f"the script {how} without a training loop: neither optimizer.step(), nor backward(), nor a CUDA graph's replay "
            f"was called{idle}. Name the script that trains, with the arguments that make it do so")


def _failed(options: Options, facts: dict, time_limit_s: float | None) -> str:
    error = facts["error"]
    where = f" at {error['at']}: {error['line']}" if error["at"] else ""
    text = f"the script failed{where}\n  {error['type']}: {error['message']}"
    for line in error["lines"]:
        text += f"\n    {line}"
    if error["out_of_memory"] and facts["simulated"]:
        return f"{text}\nThe modelled card's memory is full, as the real one's would be: a smaller batch, or a larger " \
               "card (--device vgpu:h200)"
    if port := taken_port(error["message"]):
        return text + port
    if facts["started"] and facts["simulated"]:
        return f"{text}\n{_OTHERS}"
    if not facts["simulated"] or error["type"] in _PLAIN:
        return f"{text}\nThat is the script's own: it would fail so on any device"
    if not facts["values"]:
        return f"{text}\nWith --fast every value on the device reads as zero. Without it this may not happen"
    print("gapless audit: it failed; once more on CPU tensors, to see whether it does there", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gapless-audit-") as folder:
        try:
            again = _run(replace(options, folder=folder, on_cpu=True, memory=False, watch_s=0.0), time_limit_s)
        except AuditError as other:
            return f"{text}\nWhether it does on CPU tensors too is not known: {other}"
    if again["end"] == "failed" and again["error"]["type"] == error["type"]:
        if again["error"]["in_gapless"]:
            return f"{text}\nOn CPU tensors too, and it is raised by what stands in for torch.cuda here: it lacks something"
        return f"{text}\nOn CPU tensors it fails too ({again['error']['type']}): that is the script's own"
    return (f"{text}\nOn CPU tensors it does not fail: the virtual GPU lacks something, or CUDA would refuse it as well. "
            "See docs/virtual_gpu.md, “What it cannot do”")
