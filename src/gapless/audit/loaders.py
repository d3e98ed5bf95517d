"""The ``DataLoader``s that a program iterates over, by the line that makes each: what its batches take, and cost a step."""

from __future__ import annotations

import functools
import math
import statistics
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader

from ..evidence.traces.trace import Trace
from ..evidence.traces.waits import source_line
from ..evidence.what_if import LOADER, WhatIf
from ..vgpu.process.location import location
from .places import Places

_NUMBER = " (loader {})"  # behind the name under which a profiler records the next batch
_MOST_KEPT = 100  # batches of a loader whose times are kept


@contextmanager
def watched_loaders(found: list[dict]):
    """Inside, each loader that is iterated over for the first time is added to ``found``: ``at`` the line that makes it (of
    one line all count as one), ``num_workers``, ``ahead`` (batches that its workers have ready), ``pin_memory``,
    ``batch_size``, ``trains`` (gradients are on where it is iterated), ``work_ms`` and ``wait_ms`` (on the virtual GPU:
    what its last batches took their workers on a core, and without one)."""
    init, begin = DataLoader.__init__, DataLoader.__iter__
    made_at: weakref.WeakKeyDictionary[DataLoader, str | None] = weakref.WeakKeyDictionary()

    @functools.wraps(init)
    def make(loader, *args, **kwargs):
        init(loader, *args, **kwargs)
        made_at[loader] = location()

    @functools.wraps(begin)
    def iterate(loader):
        about = _about(loader, made_at.get(loader))
        number = next((place for place, each in enumerate(found) if each.items() >= about.items()), len(found))
        if number == len(found):
            found.append(about | {"work_ms": [], "wait_ms": []})
        iterator = begin(loader)
        name = getattr(iterator, "_profile_name", None)
        if name is not None and not name.endswith(")"):  # workers that stay have it from the first time
            iterator._profile_name = name + _NUMBER.format(number)
            if (loading := getattr(iterator, "_loading", None)) is not None:
                loading.observe = functools.partial(_keep, found[number])
        return iterator

    DataLoader.__init__, DataLoader.__iter__ = make, iterate  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        DataLoader.__init__, DataLoader.__iter__ = init, begin  # type: ignore[method-assign]


def _about(loader: DataLoader, at: str | None) -> dict:
    size = loader.batch_size
    return {"at": at, "num_workers": loader.num_workers, "ahead": loader.num_workers * (loader.prefetch_factor or 0),
            "pin_memory": bool(loader.pin_memory), "batch_size": size if isinstance(size, int) else None,
            "trains": torch.is_grad_enabled()}


def _keep(about: dict, cost) -> None:
    for name, ns in (("work_ms", cost.work_ns + cost.hand_over_ns), ("wait_ms", cost.wait_ns)):
        about[name].append(ns / 1e6)
        del about[name][:-_MOST_KEPT]


@dataclass(frozen=True)
class Loader:
    """One of them, in the recorded steps. ``location``, ``line``: what makes it. ``batches`` a step; ``fetch_ms``: how long
    the program waits for each, or makes it; ``work_ms``, ``wait_ms``: what each takes a worker on a core and without one
    (of a loader without workers: the program itself); ``costs_ms``: what a step would be shorter without its batches;
    ``needs``: as many workers keep up with the rest of a step, None where they cannot."""

    location: str | None
    line: str | None
    num_workers: int
    pin_memory: bool
    trains: bool
    batches: float
    fetch_ms: float
    work_ms: float
    wait_ms: float
    costs_ms: float
    needs: int | None


def loaders(trace: Trace, played: WhatIf, facts: dict, saved_ms: Callable[..., float], step_ms: float) -> list[Loader]:
    """Those of the recorded steps, what costs most first. ``facts``: ``loaders`` as :func:`watched_loaders` finds them, and
    ``cores`` of the host. ``saved_ms``: what a step is shorter without something (:meth:`WhatIf.ms`)."""
    spans = defaultdict(list)
    for span in trace.spans:
        if span.category in ("op", "annotation") and span.name.startswith(LOADER) \
                and played.start_us <= span.start_us < played.end_us:
            spans[span.name.partition(".__next__")[2]].append(span.end_us - span.start_us)
    found = []
    for number, about in enumerate(facts.get("loaders", ())):
        fetched_us = spans.get(_NUMBER.format(number))
        if not fetched_us:
            continue
        fetch_ms, batches = statistics.fmean(fetched_us) / 1e3, len(fetched_us) / played.steps
        costs_ms = saved_ms(without={f"input{_NUMBER.format(number)}"})
        work_ms, wait_ms = (statistics.median(about[name]) if about.get(name) else 0.0 for name in ("work_ms", "wait_ms"))
        if not about["num_workers"]:
            work_ms = fetch_ms
        places, at = Places([about["at"]] if about["at"] else []), source_line(about["at"] or "")
        found.append(Loader(at, places.text(at), about["num_workers"], about["pin_memory"],
                            about["trains"], batches, fetch_ms, work_ms, wait_ms, costs_ms,
                            _needs(work_ms, wait_ms, (step_ms - costs_ms) / batches, facts.get("cores"))))
    return sorted(found, key=lambda each: -each.costs_ms)


def _needs(work_ms: float, wait_ms: float, every_ms: float, cores: int | None) -> int | None:
    """How many workers bring a batch every so many milliseconds. The program itself holds one core."""
    if every_ms <= 0 or (cores is not None and work_ms / max(1, cores - 1) > every_ms):
        return None
    return max(1, math.ceil((work_ms + wait_ms) / every_ms))
