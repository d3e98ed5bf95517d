"""One run of a script, from step to step: warm-up, the recorded steps, a step for its memory, the end."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import platform
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
from torch.profiler import record_function

from .. import vgpu
from ..evidence.traces.trace import Trace
from ..files import write_json
from ..measure.device import clock_ms, device_name, synchronize
from ..measure.memory_profile import MemoryRecording
from ..measure.profile import LinedProfile
from ..vgpu.host.line_sampler import LineSampler, sampling
from ..vgpu.process import location
from . import options as files
from .afterwards import Afterwards
from .options import Options
from .steps import StepEnds

WARM_UP = 3  # steps, where there are no workers
_PLAIN_STEPS = 2  # the last of the warm-up, which a real GPU's step without the profiler is timed by
_MOST_AHEAD = 16  # more steps than these are not waited for
_MOST_SWALLOWED = 3
_MEMORY_STEPS = 2  # of MemoryRecording
_LONG_S = 60.0
_SLOW = "; much less with --fast, if the program's course does not depend on values"


class AuditDone(BaseException):
    """All is recorded: ends the script. No Exception, so that a program that goes on after errors does not go on."""


class Session:
    """The states of a run; :meth:`running` around the script. ``facts`` are what the page needs beside the traces."""

    def __init__(self, options: Options, device: torch.device):
        self.options, self.device = options, device
        self.ends = StepEnds(self._ended, self._began_anew, self._begin_counting, options.forward)
        self.done = False
        self.facts: dict = {"steps_seen": 0, "state": "no step"}
        self._profile: LinedProfile | None = None
        self._memory: MemoryRecording | None = None
        self._block: record_function | None = None
        self._lines: LineSampler | None = None
        self._afterwards: Afterwards | None = None
        self._counting: vgpu.host_clock.counting | None = None
        location.names_libraries = True
        self._seen = self._recorded = self._raised = 0
        self._plain_from_ms: float | None = None
        self._began = self._first_ended_s = time.monotonic()
        self._pid = os.getpid()

    def finish(self) -> None:
        """After the script, however it ended: close what is open."""
        self._abandon()
        try:
            self._count(False)
        except RuntimeError as error:  # the program has taken the place of what counts its calls
            self.facts["not_counted"] = str(error)
        if self._afterwards is not None:
            self.facts["afterwards"] = self._afterwards.stop()
        location.names_libraries = False
        self.facts |= {"steps_seen": self._seen, "kind": self.ends.kind, "counts": self.ends.counts,
                       "optimizers": self.ends.optimizers, "device_name": device_name(self.device),
                       "simulated": self.device.type == "vgpu",
                       "processor": _processor(),
                       "cores": vgpu.card().host.cores if self.device.type == "vgpu" else os.cpu_count(),
                       "launches": self._launches(), "torch": torch.__version__}

    def _launches(self) -> int:
        """Of the device, so far; on a real one, whether it is in use."""
        return vgpu.timeline().launches if self.device.type == "vgpu" else int(torch.cuda.is_initialized())

    def _abandon(self) -> None:
        for part in (self._profile, self._memory):
            if part is not None:
                part.abandon()
        if self._lines is not None:
            self._lines.stop()

    # -- at the end of each step ----------------------------------------------------------------------

    def _began_anew(self) -> None:
        """Another kind of event ends a step from now on: what was recorded were no steps."""
        if self.done or os.getpid() != self._pid:
            return
        with self._aside():
            self._abandon()
        self._profile = self._memory = self._plain_from_ms = None
        self._seen = self._recorded = 0

    def _ended(self) -> None:
        if os.getpid() != self._pid:
            return  # a process that the script has forked
        with self._aside():
            self._step_ended()
        if self.done:
            self._end()

    def _step_ended(self) -> None:
        if self.done:
            return
        self._seen += 1
        now_s = time.monotonic()
        if self._seen == 2:  # the first that was seen from its beginning
            self._say(self._forecast(now_s - self._first_ended_s))
        elif self._seen == 1:
            self._first_ended_s = now_s
        if self._profile is None and self._memory is None:
            self._say(f"warm-up step {self._seen} of {self._warm_up}")
            if self._seen == self._warm_up - _PLAIN_STEPS and self.device.type != "vgpu":
                synchronize(self.device)
                self._plain_from_ms = clock_ms(self.device)
            if self._seen >= self._warm_up:
                self._begin_recording()
        elif self._memory is None and self._afterwards is None:
            self._recorded += 1
            self._ended_ms.append(clock_ms(self.device))
            self._block.__exit__(None, None, None)
            self._say(f"recorded step {self._recorded} of {self._steps}")
            if self._recorded < self._steps:
                self._open_block()
            else:
                self._end_recording()
        elif self._afterwards is not None:
            self.done = self._afterwards.step_ended()
        elif self._memory.step_ended():
            self._write(files.MEMORY, self._memory.trace)
            self._watch()

    def _forecast(self, step_s: float) -> str:
        """How long the rest will take, when a step takes so long."""
        steps = self._warm_up + self._steps + (_MEMORY_STEPS if self.options.memory else 0) - self._seen
        watch_s = self.options.watch_s if self.device.type == "vgpu" else 0.0
        return (f"about {max(1.0, steps * step_s + watch_s):.0f} s for {steps} more steps"
                + (f" and {watch_s:g} s of watching" if watch_s else "")
                + (_SLOW if self.facts["values"] and self.device.type == "vgpu" and steps * step_s > _LONG_S else ""))

    @property
    def _steps(self) -> int:
        return self.options.steps or -(-files.STEPS // self._workers) * self._workers

    @property
    def _workers(self) -> int:
        """Of a loader. Those that began together have their batches ready together, so that single steps tell nothing."""
        return min(max((each["num_workers"] for each in self.facts.get("loaders", ())), default=0), _MOST_AHEAD) or 1

    @property
    def _warm_up(self) -> int:
        """What workers have ready when the steps begin is used up in these: from then on they are as fast as they are."""
        if self.options.warm_up is not None:
            return self.options.warm_up
        ahead = max((each["ahead"] for each in self.facts.get("loaders", ())), default=0)
        return WARM_UP + min(ahead, _MOST_AHEAD)

    def _begin_recording(self) -> None:
        synchronize(self.device)
        if self._plain_from_ms is not None:
            self.facts["unrecorded_ms"] = (clock_ms(self.device) - self._plain_from_ms) / _PLAIN_STEPS
        self._profile = LinedProfile(self.device)
        self._profile.start()
        self._ended_ms = [clock_ms(self.device)]
        self.facts |= {"host": "measured" if vgpu.host_clock.is_measured() else "counted", "busy": _is_busy()}
        self._lines = sampling() if self.device.type == "vgpu" else None
        self._open_block()

    def _open_block(self) -> None:
        self._block = record_function(f"ProfilerStep#{self._recorded}")
        self._block.__enter__()

    def _end_recording(self) -> None:
        if self.device.type == "vgpu":
            vgpu.timeline().host_work(1)  # the closing wait is in no step
        synchronize(self.device)
        total_ms = clock_ms(self.device) - self._ended_ms[0]
        trace = self._profile.stop()
        if self._lines is not None:
            self.facts["long_gaps_ns"] = self._lines.stop()
        self._write(files.TRACE, trace)
        self.facts |= {"state": "recorded", "step_ms": total_ms / self._recorded,
                       "host_ms": [end - begin for begin, end in itertools.pairwise(self._ended_ms[::self._workers])],
                       "steps": self._recorded, "warm_up": self._seen - self._recorded}
        if self.options.memory:
            self._memory = MemoryRecording(self.device)
        else:
            self._watch()

    def _watch(self) -> None:
        if self.options.watch_s and self.device.type == "vgpu":
            self._say(f"{self.options.watch_s:g} s more, for what not every step does")
            self._afterwards = Afterwards(self.options.watch_s)
        else:
            self.done = True

    def _write(self, name: str, trace: Trace) -> None:
        trace.write(Path(self.options.folder) / name)

    def _end(self) -> None:
        self._raised += 1
        if self._raised > _MOST_SWALLOWED:
            self._say("the script does not end: it is stopped")
            sys.stdout.flush()
            self.leave()
        raise AuditDone

    def leave(self, ended: dict | None = None) -> None:
        """Write down what was found, and end this process and those that it has started. ``ended``: how the script ended;
        None where it goes on after all."""
        self.finish()
        children = multiprocessing.active_children()
        self.facts |= ended or {"end": "done", "stopped": True}
        write_json(Path(self.options.folder) / files.FACTS, self.facts)
        for child in children:
            child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        if ended is None:
            os._exit(0)

    def _aside(self):
        """Inside, what is done is on no clock."""
        return vgpu.host_clock.uncounted() if self.device.type == "vgpu" else nullcontext()

    def _begin_counting(self) -> None:
        # Not later: at the end of a step PyTorch may be in the middle of a compiled function, which goes on with the
        # dispatch modes that it began with.
        if os.getpid() == self._pid:
            self._count(True)

    def _count(self, on: bool) -> None:
        """The modelled host's Python, from before the first step on: what workers have ready depends on it."""
        if self.device.type != "vgpu":
            return
        if on and self._counting is None:
            self._counting = vgpu.host_clock.counting()
            self._counting.__enter__()
        elif not on and self._counting is not None:
            self._counting.__exit__(None, None, None)
            self._counting = None

    def _say(self, text: str) -> None:
        print(f"gapless audit: {text} ({time.monotonic() - self._began:.0f} s)", file=sys.stderr, flush=True)


def _is_busy() -> bool:
    """Whether more processes want this machine's cores than it has, so that all of them take longer."""
    try:
        return os.getloadavg()[0] > (os.cpu_count() or 1) + 0.5  # this program is one of them
    except (AttributeError, OSError):
        return False  # not known


def _processor() -> str:
    """The name of this machine's."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
