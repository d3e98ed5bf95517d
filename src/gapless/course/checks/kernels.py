"""The check of what a step launches: fewer kernels than the slow function, and none of a kind that nobody needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ...evidence.quote import quoted
from ...evidence.report import StepReport
from ...evidence.traces.kinds import readable_name
from ...evidence.traces.steps import Steps, launches_by_correlation, work_in_steps
from ...evidence.views import source_of
from ...words import counted
from ..check import Found, Look
from ..evidence import Measured, Run
from ..verdicts import FAIL, PASS
from .measured import OfMeasurement, read_back

_MOST_NAMES = 4
_TORCHSCRIPT = ("`torch.jit.script` fuses nothing here: the virtual GPU does not model TorchScript's fuser, which PyTorch "
                "has deprecated. `torch.compile` is its successor, and is modelled.")


@dataclass(frozen=True)
class Kernels(OfMeasurement):
    """A step launches at least so many kernels ``fewer`` than the slow function's, and none that matches the regular
    expression ``unwanted``. ``advice``: what to try where it launches too many."""

    fewer: int = 0
    unwanted: str = ""
    advice: str = ""

    name = "kernels"
    counts = True
    noise = 0.0

    def judge_one(self, look: Look, measured: Measured) -> Found:
        """Whether it launches few enough, with the work still on the device."""
        copied = read_back(look.exercise, measured)
        if copied is not None:
            return FAIL, copied
        slow, own = kernels_of(measured.before.report), kernels_of(measured.learner.report)
        count, before = own.total(), slow.total()
        facts = f"{look.exercise.step_capitalised} launches {counted(count, 'kernel')}, {before:g} in the slow function"
        if self.unwanted:
            left = {name: number for name, number in own.items() if re.search(self.unwanted, name)}
            if left:
                return FAIL, f"{facts}. Among them are still: {_listed(left, look, measured)}. {self.advice}".rstrip()
        if count > before - self.fewer:
            uses_torchscript = any("torch.jit." in text for text in look.cells.values()) and look.evidence.simulated
            return FAIL, (f"{facts}; at most {before - self.fewer:g} are wanted. As often as before, or more often: "
                          f"{_listed({name: count for name, count in own.items() if count >= slow[name]}, look, measured)}. "
                          f"{_TORCHSCRIPT if uses_torchscript else self.advice}").rstrip()
        gone = {name: number - own[name] for name, number in slow.items() if number > own[name]}
        return PASS, f"{facts}. Fewer by: {_listed(gone)}."

    def figure(self, run: Run, slow: Run) -> tuple[float, str]:
        """Their number."""
        return run.report.kernels, counted(run.report.kernels, "kernel")

    def is_less(self, own: Run, slow: Run, share: float) -> bool:
        """By their number."""
        return own.report.kernels < slow.report.kernels


def kernels_of(report: StepReport) -> Counter:
    """Name → how often a step launches that kernel, on average."""
    spans = report.trace.spans
    work = work_in_steps(spans, Steps(spans), launches_by_correlation(spans))
    counts = Counter(span.name for span in work if span.category == "kernel")
    return Counter({name: number / max(report.steps, 1) for name, number in counts.items()})


def _listed(kernels: Mapping[str, float], look: Look | None = None, measured: Measured | None = None) -> str:
    """Kernels and how many of each; of the function ``measured``, with the line of a cell that launches most of them."""
    by_kind: dict[str, dict[str, float]] = {}
    for name, number in kernels.items():
        by_kind.setdefault(readable_name(name), {})[name] = number
    most = sorted(by_kind.items(), key=lambda item: -sum(item[1].values()))
    rest = f", and {counted(len(most) - _MOST_NAMES, 'other kind')}" if len(most) > _MOST_NAMES else ""
    return (", ".join(f"{sum(names.values()):g} × `{kind[:60]}`"
                      + (_line(max(names, key=names.__getitem__), look, measured) if measured is not None else "")
                      for kind, names in most[:_MOST_NAMES]) or "none") + rest


def _line(kernel: str, look: Look, measured: Measured) -> str:
    rows = source_of(measured.learner.report.trace, kernel)
    location = next((row.location for row in rows if "cell" in (row.location or "")), None)
    return "" if location is None else f" at {location}{quoted(location, look.cells)}"
