"""What was seen of a learner's function, as plain data.

Evidence crosses from the process that has the device to the one that judges, so it holds JSON values, NumPy arrays and
traces: nothing that could carry behaviour.
"""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..evidence.report import StepReport
from ..evidence.traces.trace import Trace
from ..incoming import Unreadable, read_arrays, read_json

_LARGEST_TRACE_BYTES, _MOST_TRACE_ITEMS = 64 * 2**20, 10_000_000


class EvidenceError(ValueError):
    """The evidence is missing, damaged or not of the agreed form."""


Inputs = dict[str, Any]  # arrays, or lists of them


@dataclass
class Case:
    """One set of inputs for an exercise's function.

    ``inputs``: argument name → array, or a list of them, in the order of the arguments. ``options``: further
    keyword arguments, plain JSON values. ``needs_grad``: the names whose gradient is compared. ``layouts``: argument
    name → how its tensors lie in memory (:mod:`.layout`), of those that are not contiguous. ``on_host``: the names of those
    that the function gets on the host → whether in "pinned" or "pageable" memory; the others it gets on the device.
    ``late``: names of lists → the first of their tensors whose values come only once a call is made ready, and until then
    are 0; of a single tensor, 0. ``most_waits``: how often the call may wait, where that is not what a measured step may.
    ``tolerance``: (relative, absolute) for the numbers of a plain answer, where the
    exercise's are too wide.
    """

    name: str
    inputs: Inputs
    options: dict = field(default_factory=dict)
    needs_grad: tuple[str, ...] = ()
    layouts: dict[str, str] = field(default_factory=dict)
    on_host: dict[str, str] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    tolerance: tuple[float, float] | None = None
    most_waits: float | None = None

    def copy_of_options(self) -> dict:
        """To the bottom: what a function changes in place is no one else's. They may be whole traces, and pickle takes a
        tenth of deepcopy's time."""
        return pickle.loads(self._pickled)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self.options)


@dataclass(frozen=True)
class Plan:
    """What a function is asked. ``cases``: small inputs, the edge cases among them. ``trial``: inputs of middling size, all
    alike in shape, on which it is timed as well."""

    cases: list[Case]
    trial: list[Case] = field(default_factory=list)


@dataclass
class Answer:
    """What the function did with one case.

    ``error``: the last line of what it raised, with the cell's line; or None. ``unusable``: why its answer
    cannot be compared, or None. ``returned``: in words.
    ``value`` and ``grads`` are None and empty where there is nothing to compare. ``plain``: the answer of an exercise
    that is asked in its own way, in JSON's types. ``overwritten``: inputs that hold something else now. ``kernels``:
    launches of the call and its backward pass, on the virtual GPU. ``races``: what was used before it was there, in words;
    ``swallowed``: errors of operators that the function caught. ``waits``: of the call, on the virtual GPU, each an
    operator and its line as a report has it, or "".
    """

    case: str
    error: str | None = None
    returned: str = ""
    device: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    value: np.ndarray | None = None
    grads: dict[str, np.ndarray] = field(default_factory=dict)
    overwritten: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: int | None = None
    plain: object = None
    unusable: str | None = None
    races: list[str] = field(default_factory=list)
    swallowed: list[str] = field(default_factory=list)
    waits: list[list[str]] = field(default_factory=list)


@dataclass
class Aside:
    """What a function did beside the measured part of its calls, on the virtual GPU. ``kernels``: launched, or captured."""

    waits: int = 0
    kernels: int = 0
    read_back_bytes: int = 0
    sent_bytes: int = 0


@dataclass
class Run:
    """One function measured.

    ``host_ms``: from the call until it returns, the device having work queued before it.
    ``true_ms``: time per step over a run of many, synchronised at both ends. On a real GPU both
    are medians and ``samples_ms`` holds every true step time; on the virtual GPU they are exact. ``most_waits``,
    ``fewest_kernels``: of one call, of all that there were, on the virtual GPU; ``trace`` is of some of them.
    ``peak_bytes``: the most that a call took of the device's memory, above what was there before the first one;
    ``beside_bytes``: what was taken beside the calls. ``aside``: what was done to make calls ready; ``afterwards``: to look
    at their answers.
    """

    host_ms: float
    true_ms: float
    samples_ms: list[float]
    trace: Trace
    most_waits: int = 0
    fewest_kernels: int = 0
    peak_bytes: int = 0
    beside_bytes: int = 0
    aside: Aside = field(default_factory=Aside)
    afterwards: Aside = field(default_factory=Aside)

    @cached_property
    def report(self) -> StepReport:
        """The waits and times in ``trace``."""
        return StepReport.from_trace(self.trace)


@dataclass
class Measured:
    """The learner's function (``learner``) and, ``before`` it and on a real GPU ``after`` it too, the slow one, under the
    same conditions; ``best``: the model solution, where the exercise has one; ``model``: the published solution, on a real
    GPU. ``error``: what the learner's raised."""

    before: Run
    learner: Run | None = None
    after: Run | None = None
    best: Run | None = None
    model: Run | None = None
    error: str | None = None

    @property
    def runs(self) -> dict[str, Run]:
        """Those that there are, by name."""
        return {name: getattr(self, name) for name in _RUNS if getattr(self, name) is not None}


_RUNS = ("before", "learner", "after", "best", "model")
_SIZES = ("full", "trial")


@dataclass
class Evidence:
    """Everything seen of one exercise.

    ``error``: why the cell could not be run at all (with its line), else None. ``answers``: one for each case;
    ``trial_answers``: for each of the trial; ``again``: to its second case, in the tensors of the first after a call on
    them, where that was asked. ``full``: measured at the article's size; ``trial``: on the trial's inputs, whose answers
    were compared.
    """

    exercise: str
    device: str
    device_name: str = ""
    simulated: bool = True
    error: str | None = None
    answers: list[Answer] = field(default_factory=list)
    trial_answers: list[Answer] = field(default_factory=list)
    again: Answer | None = None
    full: Measured | None = None
    trial: Measured | None = None

    @property
    def main(self) -> Measured | None:
        """What a learner reads about: the article's size where that was measured, else the trial."""
        return self.full or self.trial

    @property
    def learner(self) -> Run | None:
        """The learner's function there."""
        return self.main.learner if self.main is not None else None

    def save(self, folder: str | os.PathLike) -> None:
        """Write ``evidence.json``, ``arrays.npz`` and ``*.trace.json`` into ``folder``, the JSON last."""
        folder = Path(folder)
        arrays: dict[str, np.ndarray] = {}
        plain = {name: getattr(self, name) for name in _TEXTS}
        for which in ("answers", "trial_answers"):
            plain[which] = [_pack(answer, f"{which}.{i}", arrays) for i, answer in enumerate(getattr(self, which))]
        plain["again"] = None if self.again is None else _pack(self.again, "again", arrays)
        for size in _SIZES:
            measured: Measured | None = getattr(self, size)
            plain[size] = None
            if measured is not None:
                plain[size] = {"error": measured.error}
                for name, run in measured.runs.items():
                    run.trace.write(folder / f"{size}.{name}.trace.json")
                    plain[size][name] = {"host_ms": run.host_ms, "true_ms": run.true_ms, "samples_ms": run.samples_ms,
                                         "most_waits": run.most_waits, "fewest_kernels": run.fewest_kernels,
                                         "peak_bytes": run.peak_bytes, "beside_bytes": run.beside_bytes,
                                         "aside": asdict(run.aside), "afterwards": asdict(run.afterwards)}
        with open(folder / "arrays.npz", "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # as if a name could be allow_pickle
        temporary = folder / "evidence.json.tmp"
        temporary.write_text(json.dumps(plain))
        os.replace(temporary, folder / "evidence.json")

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Evidence:
        """Read what :meth:`save` wrote. Raises EvidenceError for anything else; runs no pickles."""
        folder = Path(folder)
        try:
            plain = read_json(folder / "evidence.json", allow_nan=True)
            arrays = read_arrays(folder / "arrays.npz")
            found = cls(**{name: plain[name] for name in _TEXTS})
            for which in ("answers", "trial_answers"):
                setattr(found, which, [_unpack(row, f"{which}.{i}", arrays) for i, row in enumerate(plain[which])])
            found.again = None if plain["again"] is None else _unpack(plain["again"], "again", arrays)
            for size in _SIZES:
                if plain[size] is not None:
                    runs = {name: _run(plain[size][name], folder / f"{size}.{name}.trace.json")
                            for name in _RUNS if name in plain[size]}
                    setattr(found, size, Measured(**runs, error=plain[size]["error"]))
            return found
        except Unreadable as error:
            raise EvidenceError(str(error)) from None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise EvidenceError(f"cannot be read: {error!r}") from None


_TEXTS = tuple(field.name for field in fields(Evidence) if field.name not in ("answers", "trial_answers", "again", *_SIZES))
_ARRAYS = ("value", "grads", "overwritten")


def _pack(answer: Answer, prefix: str, arrays: dict[str, np.ndarray]) -> dict:
    """The answer in JSON's types; its arrays go into ``arrays``."""
    if answer.value is not None:
        arrays[f"{prefix}.value"] = answer.value
    for kind in ("grads", "overwritten"):
        arrays |= {f"{prefix}.{kind}.{name}": array for name, array in getattr(answer, kind).items()}
    return {each.name: getattr(answer, each.name) for each in fields(Answer) if each.name not in _ARRAYS}


def _unpack(row: dict, prefix: str, arrays: dict[str, np.ndarray]) -> Answer:
    answer = Answer(**row)
    answer.shape = None if answer.shape is None else tuple(int(n) for n in answer.shape)
    answer.value = arrays.get(f"{prefix}.value")
    for kind in ("grads", "overwritten"):
        start = f"{prefix}.{kind}."
        setattr(answer, kind, {name[len(start):]: array for name, array in arrays.items() if name.startswith(start)})
    return answer


def _run(numbers: dict, trace: Path) -> Run:
    return Run(host_ms=float(numbers["host_ms"]), true_ms=float(numbers["true_ms"]),
               samples_ms=[float(x) for x in numbers["samples_ms"]], trace=_trace(trace),
               most_waits=int(numbers["most_waits"]), fewest_kernels=int(numbers["fewest_kernels"]),
               peak_bytes=int(numbers["peak_bytes"]), beside_bytes=int(numbers["beside_bytes"]),
               **{part: Aside(**{name: int(number) for name, number in numbers[part].items()})
                  for part in ("aside", "afterwards")})


def _trace(path: Path) -> Trace:
    return Trace.from_json(read_json(path, _LARGEST_TRACE_BYTES, _MOST_TRACE_ITEMS, allow_nan=True))


def save_plan(plan: Plan, path: str | os.PathLike) -> None:
    """Write a plan as one ``.npz`` without pickles."""
    arrays, plain = {}, {}
    for part in ("cases", "trial"):
        rows = plain[part] = []
        for i, case in enumerate(getattr(plan, part)):
            counts = {}
            for name, value in case.inputs.items():
                counts[name] = len(value) if isinstance(value, list) else None
                for j, array in enumerate(value if isinstance(value, list) else [value]):
                    arrays[f"{part}.{i}.{name}.{j}"] = array
            rows.append({"name": case.name, "inputs": counts, "options": case.options, "needs_grad": list(case.needs_grad),
                         "layouts": case.layouts, "on_host": case.on_host, "late": case.late})
    with open(path, "wb") as file:
        np.savez(file, plan=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)


def load_plan(path: str | os.PathLike) -> Plan:
    """Read what :func:`save_plan` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        plain = json.loads(stored["plan"].tobytes())

        def inputs(part: str, i: int, counts: dict) -> Inputs:
            return {name: stored[f"{part}.{i}.{name}.0"] if count is None
                    else [stored[f"{part}.{i}.{name}.{j}"] for j in range(count)] for name, count in counts.items()}

        return Plan(*([Case(row["name"], inputs(part, i, row["inputs"]), row["options"], tuple(row["needs_grad"]),
                            row["layouts"], row["on_host"], row["late"]) for i, row in enumerate(plain[part])]
                      for part in ("cases", "trial")))
