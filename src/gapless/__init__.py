"""gapless: a course in PyTorch training performance, and the tools under it.

    >>> import gapless
    >>> device = gapless.device()                     # cuda where there is one, else the virtual GPU
    >>> trace = gapless.profile(step, steps=3)        # a Kineto trace of a step function
    >>> print(gapless.StepReport.from_trace(trace))   # its waits, each with operator and line
    >>> gapless.time_step(step).true_ms               # and how long a step really takes

Needs torch and numpy; pictures need matplotlib, grading needs papermill and nbgrader.
"""

from . import vgpu
from .device import UnknownDevice, device, device_name, synchronize
from .no_syncs import SyncError, no_syncs
from .notebook import Notebook
from .profile import StepTime, profile, time_step
from .report import StepReport, Sync
from .trace import Trace, TraceError

__version__ = "0.1.0"

__all__ = [
    "Notebook", "StepReport", "StepTime", "Sync", "SyncError", "Trace", "TraceError", "UnknownDevice", "device",
    "device_name", "no_syncs", "profile", "synchronize", "time_step", "vgpu",
]
