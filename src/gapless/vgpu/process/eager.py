"""Keeps torch.compile out of the virtual GPU: after a graph break Dynamo compiles what Python runs, and would ours too."""

from __future__ import annotations

from torch._C._dynamo import eval_frame

_ALONE = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def eager(function):
    """Decorator: torch.compile leaves this function, and what it calls, as it is."""
    eval_frame.set_code_exec_strategy(function.__code__, _ALONE)
    return function
