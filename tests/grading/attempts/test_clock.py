"""Attempts to be fast, or to seem so: the clock, the card and the waits are on the other side."""

import pytest

from . import FOR_BEING_RIGHT, NOTHING, SLOW, check_attempts

STATE = SLOW + """
import sys
state = sys.modules["gap" + "less.vgpu.process.state"].state
def tried(change):
    try:
        change()
    except Exception:
        pass
"""

ATTEMPTS = {
    "the clock set back": (STATE + """
def f(target):
    found = slow(target)
    tried(lambda: setattr(state.timeline, "host_ns", 0))
    tried(lambda: state.timeline.host_work(-10**9))
    tried(lambda: state.timeline._link.ask("host_work", -10**9))
    return found
""", FOR_BEING_RIGHT),
    "a question that is none": (STATE + """
def f(target):
    tried(lambda: state.timeline._link.ask("reset"))
    return slow(target)
""", NOTHING),
    "a clock of its own": (STATE + """
class Clock:
    host_ns, recording, wait_hooks = 0, None, []
    def __getattr__(self, name): return lambda *args: 0
def f(target):
    kept, state.timeline = state.timeline, Clock()
    try:
        return slow(target)
    finally:
        state.timeline = kept
""", FOR_BEING_RIGHT),
    "another card": (STATE + """
import dataclasses
tried(lambda: setattr(state, "card", dataclasses.replace(state.card, key="fast")))
tried(lambda: sys.modules["gap" + "less.vgpu.face.backend"].enable(sys.modules["gap" + "less.vgpu.hardware.cards.specs"].CARDS["h200"]))
f = slow
""", FOR_BEING_RIGHT),
    "no values wanted": (STATE + """
def f(target):
    state.shape_only = object()
    return slow(target)
""", FOR_BEING_RIGHT),
    "the lines of waits forged": (STATE + """
def f(target):
    state.link.lines = False
    return slow(target)
""", FOR_BEING_RIGHT),
    "operators that do nothing": (SLOW + """
torch.nonzero = lambda x, **options: ()
torch.Tensor.item = lambda self: 0
f = slow
""", FOR_BEING_RIGHT),
    "messages changed on their way": (SLOW + """
import json
kept = json.dumps
json.dumps = lambda value, **options: kept(value, **options).replace('"lines":true', '"lines":false').replace("aten::nonzero", "aten::relu")
f = slow
""", FOR_BEING_RIGHT),
    "clocks of the computer": (SLOW + """
import time
time.perf_counter = time.monotonic = time.time = lambda: 0.0
f = slow
""", FOR_BEING_RIGHT),
    "in a thread that nobody waits for": (SLOW + """
import threading
def f(target):
    found = target.clone()
    def later():
        try:
            found[torch.nonzero(target == BACKGROUND, as_tuple=True)] = IGNORE
        except Exception:
            pass
    threading.Thread(target=later).start()
    return found
""", FOR_BEING_RIGHT),
    "when the answer is asked for": (SLOW + """
import sys
stage, waiting = sys.modules["gap" + "less.course.stage"], []
finish = stage.Call.finish
def late(self):
    found = finish(self)
    slow(found["result"])
    return found
stage.Call.finish = late
def f(target):
    return target + 0
""", FOR_BEING_RIGHT),
    "when another call is not timed": (SLOW + """
import sys
state, calls = sys.modules["gap" + "less.vgpu.process.state"].state, {True: [], False: []}
def f(target):
    if state.shape_only is None and target.numel() < 2000:
        return slow(target)
    found, mine = target + 0, calls[state.shape_only is None]
    mine.append(found)
    if len(mine) > 6:
        for each in mine:
            slow(each)
    return found
""", FOR_BEING_RIGHT),
}


@pytest.mark.slow
def test_nobody_is_fast_without_being_so(tmp_path):
    check_attempts(ATTEMPTS, tmp_path)
