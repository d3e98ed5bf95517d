"""Which lines had made what was held at the peak: by hand, and of a profiled step."""

import torch

from gapless.evidence.held import held_at_peak
from gapless.evidence.traces.trace import Trace
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile

from .kineto_events import BACKWARD, MAIN, frame, op


def change(at, nbytes, address, *, device_type=1, tid=MAIN):
    args = {"Device Type": device_type, "Device Id": 0, "Bytes": nbytes, "Addr": address}
    return {"ph": "i", "name": "[memory]", "ts": at, "pid": 1, "tid": tid, "args": args}


LINES = [frame("/home/me/train.py(3): step", 10, 10), frame("/home/me/train.py(4): step", 30, 10),
         frame("/venv/site-packages/torch/nn/functional.py(9): relu", 31, 5)]


def test_what_is_freed_before_the_peak_or_made_after_it_is_not_there():
    trace = Trace([*LINES, change(12, 100, 1), change(14, 50, 2), change(16, -100, 1), change(32, 70, 3), change(34, 10, 4),
                   change(50, -70, 3), change(60, 30, 5)])
    assert held_at_peak(trace) == [("me/train.py:3", 150)]


def test_the_innermost_line_of_the_program_has_it_and_no_line_where_none_is_known():
    trace = Trace([*LINES, change(12, 100, 1), change(32, 70, 3), change(50, 500, 7), change(15, 20, 8, tid=BACKWARD)])
    assert held_at_peak(trace) == [(None, 520), ("me/train.py:3", 100), ("me/train.py:4", 70)]


def test_the_hosts_memory_and_frees_of_what_was_there_before_do_not_count():
    trace = Trace([*LINES, change(12, 100, 1), change(13, 999, 2, device_type=0), change(14, -5000, 9)])
    assert held_at_peak(trace) == [("me/train.py:3", 100)]
    assert held_at_peak(Trace([op("aten::mm", 0, 5)])) == []


def test_of_a_profiled_step_the_lines_of_its_forward_pass_are_named():
    device = choose_device("vgpu:a10g")
    x = torch.ones(512, 512, device=device, requires_grad=True)

    def step():
        y = x.exp()
        (y * y).sum().backward()
        x.grad = None

    held = held_at_peak(profile(step, steps=1, warmup=1, device=device))
    first = step.__code__.co_firstlineno
    lines = dict(held)
    assert lines[f"evidence/test_held.py:{first + 1}"] == x.nbytes
    assert any(f"test_held.py:{first + 2} (in its backward pass)" in str(line) for line in lines)
