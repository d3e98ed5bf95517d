"""An audit: the script's run, and what is to be said where it gave nothing to audit."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..evidence.trace import Trace
from .launch import AuditError, launch
from .options import MEMORY, TRACE, Options
from .result import Audit, Trial

# Errors that have nothing to do with a device.
_PLAIN = frozenset({"FileNotFoundError", "ModuleNotFoundError", "ImportError", "SyntaxError", "IndentationError",
                    "NameError", "PermissionError", "NotADirectoryError", "ArgumentError", "URLError", "ConnectionError"})


def audit(script: str, arguments: Sequence[str], folder: str, *, is_module: bool = False, device: str | None = None,
          steps: int = 3, warm_up: int | None = None, memory: bool = True, time_limit_s: float | None = None,
          tries: Sequence[str] = ()) -> Audit:
    """Run ``script`` with its ``arguments`` and read what it left in ``folder``; then once more for each of the switches in
    ``tries`` (:data:`gapless.audit.switches.SWITCHES`). Raises AuditError, with the reason, where there is nothing to
    audit."""
    options = Options(script, tuple(arguments), folder, is_module, device, steps, warm_up, memory)
    facts = launch(options, time_limit_s)
    if facts["state"] != "recorded":
        raise AuditError(_nothing(options, facts, time_limit_s))
    if facts["end"] == "failed":
        print(f"gapless audit: the script failed after the recorded steps: {facts['error']['type']}", file=sys.stderr)
    kept = Path(folder) / MEMORY
    found = Audit.of(script, Trace.read(Path(folder) / TRACE), facts, Trace.read(kept) if kept.exists() else None)
    return replace(found, trials=tuple(_try(options, name, time_limit_s) for name in tries))


def _try(options: Options, name: str, time_limit_s: float | None) -> Trial:
    """The script once more, with a switch on."""
    print(f"gapless audit: once more, with {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gapless-audit-") as folder:
        try:
            facts = launch(replace(options, folder=folder, switch=name, memory=False), time_limit_s)
        except AuditError as error:
            return Trial(name, None, str(error))
    if facts["state"] != "recorded":
        return Trial(name, None, _in_short(facts))
    return Trial(name, facts["step_ms"])


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
    if facts["steps_seen"]:
        wanted = f"{options.warm_up or 'some'} of warm-up and {options.steps}"
        return (f"the script {how} after {facts['steps_seen']} steps, and {wanted} to record were asked for: "
                "--warm-up 1 --steps 1, or let it train for longer")
    if facts["children"]:
        return (f"the script {how} without a step in its own process; it has started others, which have no virtual GPU: "
                "start one training process, or audit on a real GPU")
    return (f"the script {how} without a training loop: neither optimizer.step(), nor backward(), nor a CUDA graph's replay "
            "was called. Name the script that trains, with the arguments that make it do so")


def _failed(options: Options, facts: dict, time_limit_s: float | None) -> str:
    error = facts["error"]
    where = f" at {error['at']}: {error['line']}" if error["at"] else ""
    text = f"the script failed{where}\n  {error['type']}: {error['message']}"
    for line in error["lines"]:
        text += f"\n    {line}"
    if error["out_of_memory"] and facts["simulated"]:
        return f"{text}\nThe modelled card's memory is full, as the real one's would be: a smaller batch, or a larger " \
               "card (--device vgpu:h200)"
    if not facts["simulated"] or error["type"] in _PLAIN:
        return f"{text}\nThat is the script's own: it would fail so on any device"
    print("gapless audit: it failed; once more on CPU tensors, to see whether it does there", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gapless-audit-") as folder:
        try:
            again = launch(replace(options, folder=folder, on_cpu=True, memory=False), time_limit_s)
        except AuditError as other:
            return f"{text}\nWhether it does on CPU tensors too is not known: {other}"
    if again["end"] == "failed" and again["error"]["type"] == error["type"]:
        if again["error"]["in_gapless"]:
            return f"{text}\nOn CPU tensors too, and it is raised by what stands in for torch.cuda here: it lacks something"
        return f"{text}\nOn CPU tensors it fails too ({again['error']['type']}): that is the script's own"
    return (f"{text}\nOn CPU tensors it does not fail: the virtual GPU lacks something, or CUDA would refuse it as well. "
            "See docs/virtual_gpu.md, “What it cannot do”")
