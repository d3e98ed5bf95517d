"""gapless: a course in PyTorch training performance, and the tools under it.

    >>> import gapless
    >>> device = gapless.device()                     # cuda where there is one, else the virtual GPU
    >>> trace = gapless.profile(step, steps=3)        # a Kineto trace of a step function
    >>> print(gapless.StepReport.from_trace(trace))   # its waits, each with operator and line
    >>> gapless.time_step(step).true_ms               # and how long a step really takes

Needs torch and numpy; pictures need matplotlib, grading needs papermill and nbgrader.
"""

import sys as _sys

try:
    from . import vgpu
    from .evidence import views
    from .evidence.pictures.memory import memory_picture
    from .evidence.pictures.picture import before_after
    from .evidence.report import StepReport, Sync
    from .evidence.traces import tensorboard as _tensorboard  # noqa: F401  gives traces their write_tensorboard
    from .evidence.traces.trace import Trace, TraceError, read_traces
    from .learner.explore import explore
    from .learner.notebook import Notebook
    from .learner.progress import progress
    from .measure import profiler
    from .measure.device import UnknownDevice, clock_ms, device, device_name, host_work, synchronize
    from .measure.memory_profile import memory_profile
    from .measure.no_syncs import SyncError, no_syncs
    from .measure.profile import StepTime, profile, time_step
    from .measure.several_gpus import RankError, RankResult, on_gpus

    # Modules under their public names, as os.path is one: from gapless.profiler import record_function.
    _sys.modules.update({f"{__name__}.profiler": profiler, f"{__name__}.views": views})
except Exception as _error:  # PyTorch is missing or damaged: the command line still has to start, for `gapless doctor`
    _broken = _error

    def __getattr__(name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        raise ImportError(f"gapless cannot be used here ({type(_broken).__name__}: {_broken}). What to do: gapless doctor"
                          ) from _broken

__version__ = "0.1.0"

__all__ = [
    "Notebook", "RankError", "RankResult", "StepReport", "StepTime", "Sync", "SyncError", "Trace", "TraceError",
    "UnknownDevice", "before_after",
    "clock_ms", "device", "device_name", "explore", "host_work", "memory_picture", "memory_profile", "no_syncs", "profile",
    "on_gpus", "profiler", "progress", "read_traces", "synchronize", "time_step", "vgpu", "views",
]
