"""After the recorded steps the program runs on for a while: what it does in some steps only, such as every tenth."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass

from .. import vgpu
from ..evidence.traces.waits import source_line
from ..vgpu.host.line_sampler import sampling
from .advice import advice_for_wait, host_advice
from .places import Places

MOST_STEPS = 200
_WORTH = 0.03  # of a step's time, on average: less is not told


class Afterwards:
    """From now on, for ``seconds``, on the virtual GPU. ``steps``: that have ended since."""

    def __init__(self, seconds: float):
        self.steps, self._until = 0, time.monotonic() + seconds
        self._waits: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))  # what waits → step → ms
        self._own: dict[str, dict[int, float]] = defaultdict(dict)
        self._seen: dict[str, int] = {}
        self._ends_ns: list[int] = []
        vgpu.timeline().wait_hooks.append(self._waited)
        self._lines = sampling()

    def _waited(self, wait: vgpu.Wait) -> None:
        self._waits[f"{wait.location or ''}\n{wait.op or wait.name}"][self.steps] += wait.wait_ns / 1e6

    def step_ended(self) -> bool:
        """Whether that is enough."""
        if self._lines is not None:
            now = self._lines.found()
            for line, ns in now.items():
                if ns > self._seen.get(line, 0):
                    self._own[line][self.steps] = (ns - self._seen.get(line, 0)) / 1e6
            self._seen = now
        # Not the host's clock alone: a wait in one step makes up for the lead of those before it.
        timeline = vgpu.timeline()
        self._ends_ns.append(max(timeline.host_ns, timeline.device_ready_ns))
        self.steps += 1
        return self.steps >= MOST_STEPS or time.monotonic() > self._until

    def stop(self) -> dict:
        """What was seen: ``steps``, of ``waits`` and the host's ``own`` time by line and step the milliseconds, and
        ``longer_ms``: how much longer than the typical step they are on average."""
        hooks = vgpu.timeline().wait_hooks
        if self._waited in hooks:
            hooks.remove(self._waited)
            if self._lines is not None:
                self._lines.stop()
        took_ms = [(end - start) / 1e6 for start, end in itertools.pairwise(self._ends_ns)]
        longer_ms = statistics.fmean(took_ms) - statistics.median(took_ms) if took_ms else 0.0
        return {"steps": self.steps, "longer_ms": max(0.0, longer_ms), "waits": _whole(self._waits, self.steps),
                "own": _whole(self._own, self.steps)}


def _whole(found: dict[str, dict[int, float]], steps: int) -> dict[str, dict[int, float]]:
    """Without what belongs to a step that has not ended."""
    return {line: whole for line, by_step in found.items()
            if (whole := {step: ms for step, ms in by_step.items() if step < steps})}


@dataclass(frozen=True)
class Seldom:
    """What happens at a line in some steps: ``every`` so many, ``ms`` each time; ``costs_ms`` a step on average.
    ``is_own``: the host's own time, no wait for the device."""

    location: str
    line: str | None
    does: str
    every: float
    ms: float
    costs_ms: float
    what: str | None
    is_own: bool


def seldom(facts: dict, step_ms: float) -> list[Seldom]:
    """What happens in no more than half of the steps, what costs most first, if it is 3 % of what a step takes.
    ``facts``: of :meth:`Afterwards.stop`."""
    found = []
    for kind in ("waits", "own"):
        for text, by_step in facts.get(kind, {}).items():
            frame, _, operator = text.partition("\n")
            places, location = Places([frame]), source_line(frame)
            costs_ms = sum(by_step.values()) / facts["steps"]
            if 2 * len(by_step) > facts["steps"] or costs_ms < _WORTH * step_ms or location is None:
                continue
            line, path = places.text(location), places.path(location) or location
            what = host_advice(line or "", path) if kind == "own" else advice_for_wait(operator, path, line or "").what
            found.append(Seldom(location, line, f"{operator} waits" if operator else "the host works or waits",
                                _every(sorted(map(int, by_step)), facts["steps"]), statistics.median(by_step.values()),
                                costs_ms, what, kind == "own"))
    return sorted(found, key=lambda each: -each.costs_ms)


def _every(steps: list[int], count: int) -> float:
    """The usual distance; of one alone: all that was seen."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(steps)]
    return statistics.median(gaps) if gaps else count
