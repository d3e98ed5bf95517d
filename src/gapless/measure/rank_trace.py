"""The trace of one rank of a run on several virtual GPUs, in steps that the program's optimizer makes.

A step ends where ``step()`` of the first optimizer that is used returns: a block ``ProfilerStep#N``, as PyTorch's profiler
writes it. A program without an optimizer is one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

from .. import vgpu
from .recorder import Recorder, as_trace


class NoStepsError(RuntimeError):
    """The program has made fewer steps than were to be traced."""


@contextmanager
def recorded(path: Path, steps: tuple[int, int] | None = None) -> Iterator[None]:
    """Inside, this process's device is recorded, and the trace is then written to ``path``. ``steps``: the first and the
    last step to record, from 0; default all, and what is before and after them. Raises NoStepsError at the end where there
    were none of ``steps``; OSError where the file cannot be written."""
    recorder = Recorder(shapes=True, lines=True)
    rank = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    first, last = steps or (0, None)
    made = begun_ns = 0
    optimizers: list = []
    result = None

    def write() -> None:
        nonlocal result
        result = recorder.stop()
        recorder_state.clear()

    def start() -> None:
        nonlocal begun_ns
        recorder.start()
        recorder_state.append(recorder)
        begun_ns = vgpu.timeline().host_ns

    def step_is_done(optimizer, args, kwargs) -> None:
        nonlocal made, begun_ns
        optimizers[:] = optimizers or [optimizer]
        if optimizer is not optimizers[0]:
            return
        timeline = vgpu.timeline()
        if recorder_state:
            timeline.annotate(f"ProfilerStep#{made}", begun_ns)
            begun_ns = timeline.host_ns
        if made == last and recorder_state:
            write()
        made += 1
        if made == first and result is None and not recorder_state:
            start()

    recorder_state: list = []
    hook = register_optimizer_step_post_hook(step_is_done)
    try:
        if first == 0:
            start()
        yield
        if recorder_state:
            if not made:
                vgpu.timeline().annotate("ProfilerStep#0", begun_ns)
            if steps is None or made > first:
                write()
    finally:
        hook.remove()
        if recorder_state:
            recorder.stop()  # after an error: nothing is left attached
    if result is None:
        raise NoStepsError(f"steps {first} to {last} should be traced, but the program has made only {made}: name fewer, or "
                           "earlier ones")
    as_trace(*result, {"distributedInfo": {"backend": "nccl", **rank}}).write(path)
