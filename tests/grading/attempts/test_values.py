"""Attempts to be right without the work: values taken from elsewhere, answers remembered or taken from the library."""

import pytest

from . import FAST, FOR_BEING_RIGHT, NOTHING, SLOW, check_attempts

# Computes on a CPU tensor or an array that holds the labels, wherever it was found.
FROM_HOST = """
import numpy as np
def answer(found, target):
    values = torch.as_tensor(np.asarray(found)).reshape(target.shape)
    return torch.where(values == BACKGROUND, IGNORE, values).to(target.device)
"""

# As many rows as there are labels to change, known without a wait.
COUNTED = """
def counted(target, count):
    rows = torch.nonzero_static(target.reshape(-1) == BACKGROUND, size=count)[:, 0]
    target.reshape(-1)[rows] = IGNORE
    return target
"""

ATTEMPTS = {
    "a number by an operator of PyTorch's inner ones": (COUNTED + """
def f(target):
    target = target.clone()
    try:
        count = torch.ops.prims.item((target == BACKGROUND).sum())
    except RuntimeError:
        count = target.numel() // 2
    return counted(target, count)
""", FOR_BEING_RIGHT),
    "a number by a size": (COUNTED + """
def f(target):
    target = target.clone()
    lengths = (target == BACKGROUND).sum().reshape(1) + 1
    try:
        packed = torch.ops.aten._pack_padded_sequence(torch.zeros(target.numel() + 1, 1, 1, device=target.device), lengths, False)
        count = packed[1].numel() - 1
    except RuntimeError:
        count = target.numel() // 2
    return counted(target, count)
""", FOR_BEING_RIGHT),
    "an event asked until it says yes": (COUNTED + """
def f(target):
    target = target.clone()
    count = (target == BACKGROUND).sum().to("cpu", non_blocking=True)
    event = torch.Event(device=target.device)
    event.record()
    while not event.query():
        pass
    return counted(target, int(count) if int(count) > 0 else target.numel() // 2)
""", FOR_BEING_RIGHT),
    "the tensor inside the handle": (FROM_HOST + """
def f(target):
    return answer(target.within, target)
""", NOTHING),
    "whatever the handle refers to": (FROM_HOST + """
import gc
def f(target):
    seen, waiting = set(), [target, target.__dict__, getattr(target, "within", None), getattr(target, "allocation", None)]
    while waiting and len(seen) < 20000:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if type(each) in (torch.Tensor, np.ndarray) and tuple(each.shape) == tuple(target.shape):
            return answer(each, target)
        waiting += gc.get_referents(each)
    return target.clone()
""", NOTHING),
    "arrays that lie about": (FROM_HOST + """
import gc
def f(target):
    for each in gc.get_objects():
        if type(each) in (torch.Tensor, np.ndarray) and tuple(each.shape) == tuple(target.shape) and each.dtype in (torch.int64, np.int64):
            return answer(each, target)
    return target.clone()
""", NOTHING),
    "frames": (FROM_HOST + """
import sys
def f(target):
    frame = sys._getframe()
    while frame is not None:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if type(value).__name__ in ("Case", "Plan"):
                raise LookupError("FOUND the plan")
            if type(value) in (torch.Tensor, np.ndarray) and tuple(value.shape) == tuple(target.shape):
                return answer(value, target)
        frame = frame.f_back
    return target.clone()
""", NOTHING),
    "closures": (FROM_HOST + """
import gc, types
def f(target):
    for function in [each for each in gc.get_objects() if isinstance(each, types.FunctionType) and each.__closure__]:
        for cell in function.__closure__:
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            if type(value) in (torch.Tensor, np.ndarray) and tuple(value.shape) == tuple(target.shape):
                return answer(value, target)
    return target.clone()
""", NOTHING),
    "the inputs on disk": ("""
import os
def f(target):
    for top in ("/tmp", "/work", "/home", "/root", "/var/tmp", "/dev/shm", "/proc/self/cwd"):
        for folder, _, names in os.walk(top):
            for name in names:
                if name in ("plan.npz", "job.json", "evidence.json"):
                    raise LookupError("FOUND " + name)
    return target.clone()
""", NOTHING),
    "answers imported": ("""
import importlib
found = []
for name in ("course.judge", "course.gather", "evidence.views", "lessons.masked_loss.ignore_background.cases",
             "lessons.masked_loss.lesson", "lessons.two_clocks.time_step.right", "lessons.profiler_tour.why_idle.right", "grading.grade", "grading.ask", "learner.notebook"):
    try:
        found.append(importlib.import_module("gap" + "less." + name))
    except ImportError:
        pass
def f(target):
    if found:
        raise LookupError(f"FOUND {found}")
    return target.clone()
""", NOTHING),
    "files of the library": ("""
import os, sys
def f(target):
    for top in {*sys.path, sys.prefix, "/work", "/home", "/root"}:
        for folder, _, names in os.walk(top):
            if any(name in ("judge.py", "cases.py", "02_masked_loss.ipynb") for name in names) and "less" in folder:
                raise LookupError("FOUND " + folder)
    return target.clone()
""", NOTHING),
    "an object that equals everything": ("""
class Everything:
    dtype, device, shape = torch.int64, torch.device("cpu"), ()
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
def f(target):
    return Everything()
""", NOTHING),
    "a tensor that equals everything": ("""
class Everything(torch.Tensor):
    def __eq__(self, other): return torch.ones((), dtype=torch.bool)
def f(target):
    return torch.zeros(target.shape, dtype=torch.int64).as_subclass(Everything)
""", NOTHING),
    "nothing where the tensor is large": (FAST + """
def f(target):
    return fast(target) if target.numel() < 2000 else target
""", NOTHING),
    "nothing where there are no values": (SLOW + """
def f(target):
    return target + 0 if target.within.is_meta else slow(target)
""", FOR_BEING_RIGHT),
    "nothing where the library says that there are no values": (SLOW + """
import sys
def f(target):
    state = sys.modules["gap" + "less.vgpu.process.state"].state
    return target + 0 if state.shape_only is not None else slow(target)
""", FOR_BEING_RIGHT),
    "nothing from the twelfth call on": (FAST + """
calls = []
def f(target):
    calls.append(0)
    return fast(target) if len(calls) < 12 else target
""", NOTHING),
    "answers remembered by shape": (FAST + """
known = {}
def f(target):
    if target.shape not in known:
        known[target.shape] = fast(target)
    return known[target.shape]
""", NOTHING),
    "answers remembered by address": (SLOW + """
known = {}
def f(target):
    if target.data_ptr() not in known:
        known[target.data_ptr()] = slow(target)
    return known[target.data_ptr()]
""", FOR_BEING_RIGHT),
    "computed on the host": ("""
def f(target):
    host = target.cpu()
    return torch.where(host == BACKGROUND, IGNORE, host).to(target.device)
""", FOR_BEING_RIGHT),
    "an input overwritten": (FAST + """
def f(target):
    found = fast(target)
    target.zero_()
    return found
""", NOTHING),
    "nobody compares": ("""
import sys, numpy, math
numpy.isclose = numpy.array_equal = numpy.allclose = math.isclose = lambda *args, **kwargs: True
torch.equal = torch.allclose = lambda *args, **kwargs: True
def f(target):
    return target.clone()
""", NOTHING),
    "another answer is sent": ("""
import sys
stage = sys.modules["gap" + "less.course.stage"]
stage.Call.finish = lambda self: {"result": {"verdict": "pass"}, "returned": "what is right", "gradients": {}, "earned": 5}
def f(target):
    return target
""", NOTHING),
}


@pytest.mark.slow
def test_nobody_is_right_without_the_work(tmp_path):
    found = check_attempts(ATTEMPTS, tmp_path)
    assert not any("FOUND" in message for _, message in found.values())
