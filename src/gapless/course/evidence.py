"""What was seen of a learner's function, as plain data.

Evidence crosses from the process that runs the learner's code to the one that judges it,
so it holds JSON values, NumPy arrays and traces: nothing that could carry behaviour.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ..evidence.report import StepReport
from ..evidence.trace import Trace


class EvidenceError(ValueError):
    """The evidence is missing, damaged or not of the agreed form."""


@dataclass
class Case:
    """One set of inputs for an exercise's function.

    ``inputs``: argument name → array, in the order of the arguments. ``options``: further
    keyword arguments, plain JSON values. ``needs_grad``: the names whose gradient is compared.
    """

    name: str
    inputs: dict[str, np.ndarray]
    options: dict = field(default_factory=dict)
    needs_grad: tuple[str, ...] = ()


@dataclass
class Answer:
    """What the function did with one case.

    ``error``: the last line of what it raised, with the cell's line; or None. ``unusable``: why its answer
    cannot be compared, or None. ``returned``: in words.
    ``value`` and ``grads`` are None and empty where there is nothing to compare. ``plain``: the answer of an exercise
    that is asked in its own way, in JSON's types. ``kernels``: launches of the call and its backward pass, on the virtual
    GPU.
    """

    case: str
    error: str | None = None
    returned: str = ""
    device: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    value: np.ndarray | None = None
    grads: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: int | None = None
    plain: object = None
    unusable: str | None = None


@dataclass
class Run:
    """One function measured at the exercise's full size.

    ``host_ms``: from the call until it returns, the device having work queued before it.
    ``true_ms``: time per step over a run of many, synchronised at both ends. On a real GPU both
    are medians and ``samples_ms`` holds every true step time; on the virtual GPU they are exact.
    """

    host_ms: float
    true_ms: float
    samples_ms: list[float]
    trace: Trace

    @cached_property
    def report(self) -> StepReport:
        """The waits and times in ``trace``."""
        return StepReport.from_trace(self.trace)


@dataclass
class Evidence:
    """Everything seen of one exercise.

    ``error``: why the cell could not be run at all (with its line), else None. ``before`` and
    ``after`` are the known-slow function, measured before and after the learner's own
    (``learner``). ``tampering``: what was found changed in the measuring tools, in words.
    """

    exercise: str
    device: str
    device_name: str = ""
    simulated: bool = True
    error: str | None = None
    measure_error: str | None = None
    answers: list[Answer] = field(default_factory=list)
    before: Run | None = None
    learner: Run | None = None
    after: Run | None = None
    tampering: list[str] = field(default_factory=list)

    def save(self, folder: str | os.PathLike) -> None:
        """Write ``evidence.json``, ``arrays.npz`` and ``*.trace.json`` into ``folder``, the JSON last."""
        folder = Path(folder)
        arrays = {}
        plain = {k: v for k, v in self.__dict__.items() if k not in ("answers", "before", "learner", "after")}
        plain["answers"] = []
        for i, answer in enumerate(self.answers):
            row = {k: v for k, v in answer.__dict__.items() if k not in ("value", "grads")}
            if answer.value is not None:
                arrays[f"{i}.value"] = answer.value
            for name, grad in answer.grads.items():
                arrays[f"{i}.grad.{name}"] = grad
            plain["answers"].append(row)
        for which in ("before", "learner", "after"):
            run = getattr(self, which)
            plain[which] = None
            if run is not None:
                run.trace.write(folder / f"{which}.trace.json")
                plain[which] = {"host_ms": run.host_ms, "true_ms": run.true_ms, "samples_ms": run.samples_ms}
        with open(folder / "arrays.npz", "wb") as file:
            np.savez(file, **arrays)
        temporary = folder / "evidence.json.tmp"
        temporary.write_text(json.dumps(plain))
        os.replace(temporary, folder / "evidence.json")

    @classmethod
    def load(cls, folder: str | os.PathLike) -> "Evidence":
        """Read what :meth:`save` wrote. Raises EvidenceError for anything else; runs no pickles."""
        folder = Path(folder)
        try:
            plain = json.loads((folder / "evidence.json").read_text())
            with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            answers = []
            for i, row in enumerate(plain.pop("answers")):
                prefix = f"{i}.grad."
                row["shape"] = None if row["shape"] is None else tuple(int(n) for n in row["shape"])
                row["value"] = arrays.get(f"{i}.value")
                row["grads"] = {n[len(prefix):]: a for n, a in arrays.items() if n.startswith(prefix)}
                answers.append(Answer(**row))
            for which in ("before", "learner", "after"):
                if plain[which] is not None:
                    numbers = plain[which]
                    plain[which] = Run(
                        host_ms=float(numbers["host_ms"]),
                        true_ms=float(numbers["true_ms"]),
                        samples_ms=[float(x) for x in numbers["samples_ms"]],
                        trace=Trace.read(folder / f"{which}.trace.json"),
                    )
            return cls(answers=answers, **plain)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise EvidenceError(f"the evidence cannot be read: {error}") from error


def save_cases(cases: list[Case], path: str | os.PathLike) -> None:
    """Write cases as one ``.npz`` without pickles."""
    arrays, plain = {}, []
    for i, case in enumerate(cases):
        plain.append({"name": case.name, "inputs": list(case.inputs), "options": case.options,
                      "needs_grad": list(case.needs_grad)})
        for name, array in case.inputs.items():
            arrays[f"{i}.{name}"] = array
    with open(path, "wb") as file:
        np.savez(file, cases=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)


def load_cases(path: str | os.PathLike) -> list[Case]:
    """Read what :func:`save_cases` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        plain = json.loads(stored["cases"].tobytes())
        return [
            Case(
                name=row["name"],
                inputs={name: stored[f"{i}.{name}"] for name in row["inputs"]},
                options=row["options"],
                needs_grad=tuple(row["needs_grad"]),
            )
            for i, row in enumerate(plain)
        ]
