"""The traces of one run with several processes: one a rank."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..traces import storage
from ..traces.trace import Trace, TraceError, as_number, read_traces
from ..traces.windows import host_windows, is_step

_RANK_IN_NAME = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)
_NAME_THEM = 'name the files rank0.json.gz, rank1.json.gz, …, or put "distributedInfo": {"rank": 0} into each'
_SHOWN = 8

Traces = str | os.PathLike | Mapping[Any, Trace] | Iterable[Trace | str | os.PathLike]


def read_ranks(traces: Traces, *, partial: bool = False) -> dict[int, Trace]:
    """The traces of one run by rank, in order of the ranks.

    ``traces``: a folder (or URL) that holds them, a list of traces or paths, or a dict whose keys are ranks or files' names.
    A trace's rank is what it says itself (``distributedInfo``), else its key, else what its file's name says
    (``rank3``). ``partial``: whether ranks may be missing.

    Raises TraceError where a rank is not to be found, is there twice or is missing, where there is only one, and where the
    traces are of different runs.
    """
    found: dict[int, Trace] = {}
    names: dict[int, object] = {}
    for name, trace in _named(traces):
        rank = rank_of(trace, name)
        if rank is None:
            raise TraceError(f"{name} does not say of which rank it is: {_NAME_THEM}")
        if rank in found:
            raise TraceError(f"{names[rank]} and {name} are both of rank {rank}: keep the one of the run that you mean, "
                             "a trace a rank")
        found[rank], names[rank] = trace, name
    found = dict(sorted(found.items()))
    _check_one_run(found, names, partial)
    return found


def rank_of(trace: Trace, name: object = None) -> int | None:
    """The rank that a trace says it is of, or else its key or file's name, or None."""
    rank = as_number(_info(trace).get("rank"))
    if rank is not None and rank >= 0:
        return int(rank)
    if isinstance(name, int):
        return name
    told = _RANK_IN_NAME.findall(storage.name_of(name)) if isinstance(name, (str, os.PathLike)) else []
    return int(told[-1]) if told else None


def world_size(ranks: Mapping[int, Trace]) -> int:
    """How many ranks the run had: what the traces say, else how many there are."""
    told = {int(size) for size in (as_number(_info(trace).get("world_size")) for trace in ranks.values()) if size}
    return max(told | {max(ranks, default=-1) + 1})


def _named(traces: Traces) -> Iterable[tuple[object, Trace]]:
    if isinstance(traces, Trace):
        raise TraceError("this is one trace: give the traces of all ranks, as a list or as the folder that holds them")
    if isinstance(traces, (str, os.PathLike)):
        if not storage.is_url(traces) and os.path.isfile(traces):
            raise TraceError(f"{traces} is one trace: give the folder that holds the traces of all ranks")
        yield from read_traces(traces).items()
    elif isinstance(traces, Mapping):
        yield from traces.items()
    else:
        for place, trace in enumerate(traces):
            if isinstance(trace, Trace):
                yield f"trace {place} of the list", trace
            else:
                yield trace, Trace.read(trace)


def _check_one_run(ranks: dict[int, Trace], names: dict[int, object], partial: bool) -> None:
    if len(ranks) < 2:
        only = f"only rank {next(iter(ranks))} is there" if ranks else "there is no trace"
        raise TraceError(f"{only}: how ranks wait for each other is seen in the traces of several; record every rank")
    for key, words in (("world_size", "ranks"), ("backend", "as its backend")):
        told = {rank: _info(trace)[key] for rank, trace in ranks.items() if _info(trace).get(key)}
        one = next(iter(told), None)
        other = next((rank for rank in told if told[rank] != told[one]), None)
        if other is not None:
            raise TraceError(f"these are traces of different runs: {names[one]} has {told[one]} {words}, {names[other]} has "
                             f"{told[other]}; keep those of one run")
    steps = {rank: {window.name for window in host_windows(trace)} for rank, trace in ranks.items()
             if any(map(is_step, trace.spans))}
    if steps and not set.intersection(*steps.values()):
        one, other = next(((a, b) for a in steps for b in steps if not steps[a] & steps[b]), list(steps)[:2])
        raise TraceError(f"no step was recorded on every rank: {names[one]} has {_some(steps[one])}, {names[other]} has "
                         f"{_some(steps[other])}; profile the same steps on every rank")
    size = world_size(ranks)
    missing = sorted(set(range(size)) - set(ranks))
    if missing and not partial:
        raise TraceError(f"{_some(missing, 'rank')} missing of {size}: the rank that the others wait for may be among "
                         "them. Record every rank, or pass partial=True and take what is said as being of these ranks "
                         "alone")


def _some(numbers: Iterable, noun: str = "step") -> str:
    listed = sorted(map(int, numbers))
    shown = ", ".join(map(str, listed[:_SHOWN])) + (f", … {listed[-1]}" if len(listed) > _SHOWN else "")
    verb = "" if noun == "step" else " is" if len(listed) == 1 else " are"
    return f"{noun}{'s' * (len(listed) != 1)} {shown}{verb}"


def _info(trace: Trace) -> dict:
    info = trace.metadata.get("distributedInfo")
    return info if isinstance(info, dict) else {}
