"""A learner's function on several ranks: a process each, with a virtual GPU of its own, whose clocks meet in collectives.

The case's option ``world`` says how many ranks there are. What comes back is one answer for all: ``ranks``, a row a rank,
with ``answer`` (what the exercise's ``ask`` returned there) and what the device itself has seen inside the function:
``collectives`` (a row each: ``name``, ``elements``, ``start_ns``, ``end_ns``, on the rank's clock), ``values`` (those that
small ones were given, a list for each), ``computing_ns`` (that anything else ran), ``waits`` (how often the host waited for
the device, or asked it again and again), ``host_ns`` and ``device_ns`` (when the call had
returned, and its work was done).
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .. import vgpu
from ..files import temporary_folder
from ..measure import several_gpus
from ..vgpu.boundary import served_groups
from ..vgpu.distributed import collectives, rank_process, standstill
from .evidence import Answer, Case
from .exercise import Exercise
from .notebooks.cells import describe_error
from .plain import Unusable, as_plain

_WAIT_LIMIT_S = "20"  # of real time: no check of a small case takes as long
_WAITED = re.compile(r"rank \d+ waits in |ranks wait for each other|ranks call different collectives")
RANKS, ANSWER, COLLECTIVES = "ranks", "answer", "collectives"
COMPUTING, HOST, DEVICE = "computing_ns", "host_ns", "device_ns"
WAITS, VALUES = "waits", "values"
_MOST_VALUES = 64  # of a collective whose values are shown


class _Failed(Exception):
    """Why a rank has no answer: "error" or "unusable", and the text, as JSON."""


class _Waited(standstill.Standstill):
    """The same of a rank that only waited for one that failed."""


_WHY = re.compile(r"_(?:Failed|Waited): (\[.*\])")


def answer_on_ranks(exercise: Exercise, stage, case: Case, device: torch.device, put, values) -> Answer:
    """What the function on ``stage`` makes of one case, on all of its ranks. ``put(case, device)``: what the function is
    given; ``values(result)``: an answer whose tensors are the CPU's. Raises nothing of the function's."""
    world, card = case.options["world"], vgpu.card()
    os.environ.setdefault(standstill.VARIABLE, _WAIT_LIMIT_S)
    device = vgpu.enable()  # whatever the lesson's is: there are as many as ranks
    several_gpus.import_for_all()
    with temporary_folder() as scratch, stage.ranks(world) as own_stage:
        def work(rank: int) -> bytes:
            rank_process.begin_anew(card)
            # What DDP's C++ advises, it writes past Python: a check has words of its own.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            return pickle.dumps(_of_rank(exercise, own_stage(rank), case, device, put, values))

        try:
            told = [pickle.loads(each) for each in several_gpus.run_ranks(world, 1, scratch, work)]
        except several_gpus.RankError as error:
            told = _WHY.search(str(error))  # the first is the one to blame
            kind, text = json.loads(told[1]) if told else ("error", " ".join(str(error).split()))
            return Answer(case.name, unusable=f"on rank {error.rank} {text}") if kind == "unusable" else Answer(
                case.name, error=f"{text} [on rank {error.rank} of {world}]")
    return Answer(case.name, plain={RANKS: told}, returned="an answer of each rank")


def _of_rank(exercise: Exercise, stage, case: Case, device: torch.device, put, values) -> dict:
    """In the rank's process: its row. Raises _Failed or _Waited."""
    timeline = vgpu.timeline()
    recording = vgpu.Recording(lines=False)
    try:
        given, _ = put(case, device)
        timeline.recording = recording
        call = stage.begin(given)
        made_ready, polls, values_given = len(recording.records), timeline.polls, []
        with _watched(values_given):
            call.run()
        polls = timeline.polls - polls
        host_ns, device_ns = timeline.host_ns, timeline.device_ready_ns
        timeline.recording = None
        found = as_plain(values(call.finish()))
    except Unusable as error:
        raise _Failed(json.dumps(["unusable", str(error)])) from None
    except Exception as error:
        text = describe_error(error, exercise.name)
        raise (_Waited if _WAITED.search(text) else _Failed)(json.dumps(["error", text])) from None
    except BaseException:  # the learner's process has ended, or broken off
        why = "its process ended before the function returned: an exit or a crash in the cell?"
        raise _Failed(json.dumps(["error", why])) from None
    finally:
        timeline.recording = None
        served_groups.leave_group()
    kernels = [record for record in recording.records[made_ready:] if record.category == "kernel"]
    meetings = [record for record in kernels if "Collective name" in record.args]
    rows = [{"name": record.args["Collective name"], "elements": record.args["In msg nelems"],
             "start_ns": record.start_ns, "end_ns": record.start_ns + record.dur_ns} for record in meetings]
    return {ANSWER: found, COLLECTIVES: rows, COMPUTING: _covered_ns([each for each in kernels if each not in meetings]),
            VALUES: values_given,
            WAITS: polls + sum(record.name.endswith("Synchronize") for record in recording.records[made_ready:]),
            HOST: host_ns, DEVICE: device_ns}


@contextmanager
def _watched(found: list) -> Iterator[None]:
    """What small collectives are given inside is added to ``found``."""
    def watch(collective, given) -> None:
        tensors = [tensor.within for tensor in given]
        if (sum(tensor.numel() for tensor in tensors) <= _MOST_VALUES
                and not any(tensor.is_meta or tensor.is_complex() for tensor in tensors)):
            found.append([value for tensor in tensors for value in tensor.double().flatten().tolist()])

    collectives.watchers.append(watch)
    try:
        yield
    finally:
        collectives.watchers.remove(watch)


def _covered_ns(records) -> int:
    total = reached = 0
    for record in sorted(records, key=lambda record: record.start_ns):
        end_ns = record.start_ns + record.dur_ns
        total += max(0, end_ns - max(record.start_ns, reached))
        reached = max(reached, end_ns)
    return total
