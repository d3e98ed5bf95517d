"""Lesson 10: what a list of findings is worth, by the slow program's own trace. On the judge's side."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

from .... import vgpu
from ....course.check import Found, Look
from ....course.evidence import Case
from ....course.exercise import full_size
from ....course.verdicts import FAIL, PASS
from ....evidence.report import StepReport
from ....evidence.traces.trace import Trace
from ....evidence.views import kernels_by_line
from ....measure.profile import profile
from ..cause import BUS, KERNELS, KINDS, WAIT, Cause
from ..program import ENTRY, Program

LEVELS = {"values": 5, "findings_10": 10, "findings_15": 15}  # check → how many findings it wants, wrong ones taken off
_FEW_KERNELS = 8  # a line that launches fewer, in a whole run, is no place for many kernels
_MANY_KERNELS = 50  # of a line that launches more, in a whole run, it is true that they are many
_SHORTEST = 4  # characters that name a line
_MOST = 60  # findings that are read
_FREE = 6  # findings that may count neither way; each more counts as wrong
_TOLD = 8  # remarks that a check makes
_IN_THE_PROFILE = (WAIT, KERNELS)  # kinds that it shows, line by line
_LINE = re.compile(r'cell "(?P<file>\w+\.py)", line (?P<line>\d+)(?P<backward> \(in its backward pass\))?')


def findings_cases(seed: int) -> list[Case]:
    """One: the run that is traced, with a batch size of its own."""
    return [Case("the slow program", {}, {"epochs": 1, "batch_size": int(np.random.default_rng(seed).integers(4, 12))})]


@dataclass(frozen=True)
class Facts:
    """What the slow program's trace says of its lines, each a (file, number): ``waits``, how often the host waits there;
    ``backward_waits``, in the backward pass of its operators; ``kernels``, how many are launched there, forward and
    backward."""

    waits: Counter = field(default_factory=Counter)
    backward_waits: Counter = field(default_factory=Counter)
    kernels: Counter = field(default_factory=Counter)


def facts_of(trace: Trace) -> Facts:
    """Read off a trace of the program as cells."""
    facts = Facts()
    for sync in StepReport.from_trace(trace).syncs:
        if found := _LINE.fullmatch(sync.location or ""):
            where = facts.backward_waits if found["backward"] else facts.waits
            where[found["file"], int(found["line"])] += 1
    for line, count in kernels_by_line(trace).items():
        if found := _LINE.fullmatch(line or ""):
            facts.kernels[found["file"], int(found["line"])] += count
    return facts


_known: dict[tuple, Facts] = {}


def traced(program: Program, device: torch.device, **settings) -> Facts:
    """The facts of a run of the slow program at full size, with other ``settings``; found out once for each card."""
    key = program.name, str(device), repr(vgpu.card()) if device.type == "vgpu" else "", repr(settings)
    if key not in _known:
        size, usual = program.full
        slow = program.load(program.slow_files)
        inputs = [torch.from_numpy(each) for each in program.inputs(np.random.default_rng(0), size).values()]
        try:
            with full_size(device):
                trace = profile(lambda: slow(*inputs, device, **{**usual, **settings}), steps=1, warmup=0, device=device)
        finally:
            if device.type == "vgpu":
                vgpu.timeline().reset()
        _known[key] = facts_of(trace)
        del trace
        gc.collect()
    return _known[key]


@dataclass
class Judged:
    """A list of findings, judged: names of causes that are found; remarks on those that are wrong and on those that do not
    count either way. ``told``: those remarks that say no more than a look at the program and its profile does. Whether
    another finding is right stays hidden: trying all lines, one check each, would give the answer away."""

    found: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    void: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def say(self, remarks: list[str], remark: str, told: bool = True) -> None:
        remarks.append(remark)
        line = f"- {'wrong' if remarks is self.wrong else 'not counted'}: {remark}"
        if told and line not in self.told:
            self.told.append(line)

    @property
    def balance(self) -> int:
        """Right less wrong, at least zero. Who quotes all lines of the profile has understood none of them."""
        return max(0, len(self.found) - len(self.wrong) - max(0, len(self.void) - _FREE))


def judge_findings(program: Program, findings: list[tuple[str, str]], facts: Facts) -> Judged:
    """Judge each (part of a line, kind). Right is what the table of causes has and the trace confirms; a line of which the
    trace says what was said, and that the table has not, counts neither way; each cause counts once."""
    judged = Judged()
    for text, kind in findings:
        kind = kind.strip().lower()
        quote = f"`{text.strip()[:70]}`, {kind}"
        if kind not in KINDS:
            judged.say(judged.wrong, "a pair is in the wrong order: first the part of a line, then the cause"
                       if text.strip().lower() in KINDS else f"{quote}: no such cause; there are {', '.join(KINDS)}")
            continue
        places = lines_with(program.slow_files, text)
        if len(places) != 1:
            judged.say(judged.void, f"{quote}: " + ("no line of the program that you got contains this" if not places else
                                                    f"{len(places)} lines contain this: quote more of the line that you "
                                                    "mean"))
            continue
        place, = places
        causes = [cause for cause in program.causes if kind in cause.kinds and place in places_of(program, cause)]
        shown = [cause for cause in causes if borne_out(program, cause, kind, place, facts)]
        new = [cause.name for cause in shown if cause.name not in judged.found]
        if new:
            judged.found.append(new[0])
        elif shown:
            judged.say(judged.void, f"{quote}: said already", told=kind in _IN_THE_PROFILE)
        elif kind == WAIT and facts.waits[place]:
            judged.say(judged.void, f"{quote}: it waits there, but removing that wait gains nothing")
        elif kind == KERNELS and facts.kernels[place] > _MANY_KERNELS:
            judged.say(judged.void, f"{quote}: {facts.kernels[place]} kernels are launched there in a whole run, but this "
                                    "line is not the reason that they are so many. What calls it so often, or looks at "
                                    "its results?")
        else:
            judged.say(judged.wrong, f"{quote}: {_against(kind, place, facts)}", told=kind in _IN_THE_PROFILE)
    return judged


def borne_out(program: Program, cause: Cause, kind: str, place: tuple[str, int], facts: Facts) -> bool:
    """Whether the trace shows what is said of the line, as far as a trace shows that."""
    if kind == WAIT:
        return bool(facts.waits[place] or (cause.waits_in_backward and facts.backward_waits))
    elsewhere = [each for file, part in cause.seen_at for each in lines_with({file: program.slow_files[file]}, part)]
    return kind != KERNELS or any(facts.kernels[each] >= _FEW_KERNELS for each in [place, *elsewhere])


def _against(kind: str, place: tuple[str, int], facts: Facts) -> str:
    if kind == WAIT:
        return ("the waits there are in the backward pass of its operators. What makes it wait, and where is that "
                "turned on?" if facts.backward_waits[place] else "the trace has no wait there")
    if kind == KERNELS:
        return f"{facts.kernels[place] or 'no'} kernels are launched there in a whole run, which is not many"
    return {BUS: "not too much crosses the bus there"}.get(kind, "that is not what this line does")


def places_of(program: Program, cause: Cause) -> list[tuple[str, int]]:
    """(file, line number) of the lines that show a cause."""
    return [place for file, part in cause.lines
            for place in lines_with({file: program.slow_files[file]}, part)]


def lines_with(files: dict[str, str], text: str) -> list[tuple[str, int]]:
    """(file, line number) of the lines that hold ``text``; blanks do not count. A train file's first line is the cell's."""
    wanted = "".join(text.split())
    if len(wanted) < _SHORTEST:
        return []
    return [(file, number) for file, source in files.items()
            for number, line in enumerate(source.splitlines(), start=1 + (file == f"{ENTRY}.py"))
            if wanted in "".join(line.split())]


def judged_of(program: Program):
    """``judged(look)`` for the exercise ``findings`` on ``program``."""
    def judged(look: Look) -> dict[str, Found]:
        evidence = look.evidence
        error = evidence.error or (f"it raised {evidence.answers[0].error}" if evidence.answers and evidence.answers[0].error
                                   else evidence.answers[0].unusable if evidence.answers else "it was not asked")
        if error is not None:
            return dict.fromkeys(LEVELS, (FAIL, error[:1].upper() + error[1:] + ("" if error.endswith((".", "?")) else ".")))
        findings = evidence.answers[0].plain
        found = judge_findings(program, [(text, kind) for text, kind in findings[:_MOST]],
                               look.truth.of(look.plan.cases[0]).plain)
        said = f"of the {len(program.causes)} causes, after subtracting wrong findings"
        remarks = [*found.told[:_TOLD], f"{_FREE} findings may be true without counting; each more counts as wrong.",
                   "For waits and kernels the check says what the profile shows. A finding of another kind counts, but "
                   "the check does not say whether it is right."]
        if len(findings) > _MOST:
            remarks.append(f"The check reads only the first {_MOST} of your {len(findings)} findings.")
        enough = {check: found.balance >= wanted for check, wanted in LEVELS.items()}
        first = next((check for check in LEVELS if not enough[check]), None)  # the one that has the remarks
        return {check: (PASS, f"At least {wanted} {said}.") if enough[check] else
                       (FAIL, "\n".join([f"Fewer than {wanted} {said}.", *(remarks if check == first else ())]))
                for check, wanted in LEVELS.items()}

    return judged


def all_findings(program: Program) -> list[tuple[str, str]]:
    """One for each cause: what the table has."""
    return [(cause.lines[0][1], cause.kinds[0]) for cause in program.causes]


def findings_source(program: Program) -> str:
    """The function that returns them: the model solution."""
    rows = "".join(f"        ({json.dumps(line, ensure_ascii=False)}, \"{kind}\"),\n"
                   for line, kind in all_findings(program))
    return f"def findings():\n    return [\n{rows}    ]\n"


def annotated_findings(program: Program) -> str:
    """The same and how to come to it, Markdown: the remarks are the program's ``solutions/findings.md``."""
    return f"```python\n{findings_source(program)}```\n\n{program.text('solutions/findings.md')}"
