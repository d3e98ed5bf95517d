"""What can be imported here, and which device the course gets: found out in a process of its own.

An import may end Python altogether, so each is announced before it is tried. This file is run as a script, and imports
gapless only when that is asked for.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings

_MARK = "gapless-probe "
_SECONDS = 300


def probe(names: list[str]) -> dict[str, dict]:
    """Name → what was found, for each of these modules, tried in this order: ``file`` (where it is imported from, or '') and
    ``error`` (text or None).

    ``torch`` has more to tell (see :func:`_torch`), and so has ``gapless``.
    """
    found: dict[str, dict] = {}
    while names:
        # -P: what happens to lie in this folder is looked for by the doctor, by name.
        command = [sys.executable, "-P", "-X", "utf8", __file__, *names]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
                                  timeout=_SECONDS)
            out, how = done.stdout, f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        except subprocess.TimeoutExpired as late:
            out, how = (late.stdout or b"").decode("utf-8", "replace"), f"not done within {_SECONDS} s"
        tried = None
        for line in out.splitlines():
            if line.startswith(_MARK):
                name, facts = json.loads(line.removeprefix(_MARK))
                if facts is None:
                    tried = name
                else:
                    found[name], tried = facts, None
        if tried is not None:
            found[tried] = {"file": "", "error": f"importing it ends Python ({how})"}
        left = [name for name in names if name not in found]
        if len(left) == len(names):
            found |= {name: {"file": "", "error": f"Python does not start ({how})"} for name in left}
            left = []
        names = left
    return found


def _facts(name: str) -> dict:
    file = ""
    try:
        spec = importlib.util.find_spec(name)
        file = spec.origin or "" if spec is not None else ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module = importlib.import_module(name)
            more = {"torch": _torch, "gapless": _gapless}.get(name)
            facts = {"error": None, "file": file}
            if more is not None:
                facts |= more(module, caught)
        return facts
    except BaseException as error:  # SystemExit too: whatever an import does
        text = str(error).strip().splitlines()
        return {"file": file, "error": f"{type(error).__name__}: {text[0] if text else 'no message'}"}


def _torch(torch, caught) -> dict:
    """Whether PyTorch sees CUDA GPUs, and if not, why in its own words."""
    available = torch.cuda.is_available()
    why = ""
    if not available:
        try:
            torch.cuda.init()
        except Exception as error:
            why = str(error).strip().splitlines()[0].partition(". ")[0]
        told = [str(each.message).strip().splitlines()[0] for each in caught if "CUDA" in str(each.message)]
        why = "; ".join(dict.fromkeys([*told, why]))
    return {"cuda_build": torch.version.cuda or torch.version.hip, "cuda": available, "why": why,
            "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if available else []}


def _gapless(gapless, caught) -> dict:
    """The course's device here, and what its lessons import besides."""
    from gapless.lessons import LESSONS, find_lesson
    from gapless.vgpu.libraries import LINES

    lessons = {lesson_id: list(getattr(find_lesson(lesson_id), "packages", ())) for lesson_id in LESSONS}
    try:
        device = gapless.device()
    except gapless.UnknownDevice as error:
        return {"lessons": lessons, "device": None, "device_error": str(error)}
    return {"lessons": lessons, "libraries": LINES, "device": str(device), "device_name": gapless.device_name(device)}


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(_MARK + json.dumps([each, None]), flush=True)
        print("\n" + _MARK + json.dumps([each, _facts(each)]), flush=True)
