"""Quick questions: one line of code each, answered by running it on the device."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ..evidence.report import StepReport
from ..measure.device import stay_busy, synchronize
from ..measure.peak import held_and_peak
from ..measure.profile import profile

WAITS, KERNELS, KIB, COLLECTIVES = "waits", "kernels", "KiB", "collectives"
_COUNTS = (WAITS, KERNELS, KIB, COLLECTIVES)
_COLLECTIVE = "record_param_comms"  # what Kineto calls the begin of one
_BUSY_MS = 5.0  # of work in the queue before the line, so that a wait is one


@dataclass(frozen=True)
class Quick:
    """``line``: a Python statement. ``why`` it does what it does, in a sentence."""

    line: str
    why: str


@dataclass(frozen=True)
class QuickQuestions:
    """``question``: asked of each line, with yes or no for an answer. ``counts``: what has to occur for a yes, ``waits`` of
    the host, ``kernels`` launched, ``collectives`` begun, or ``KiB`` by which what the memory holds becomes more or less.
    ``setup(device)``: the names that the lines find besides ``torch``, ``nn``, ``F`` and ``device``, made again for each;
    ``put_away()`` is called after each.

    Raises ValueError for another ``counts``.
    """

    question: str
    counts: str
    setup: Callable[[torch.device], dict]
    questions: tuple[Quick, ...]
    put_away: Callable[[], None] = lambda: None

    def __post_init__(self):
        if self.counts not in _COUNTS:
            raise ValueError(f"counts is {self.counts!r}; it is one of {', '.join(_COUNTS)}")


def how_often(questions: QuickQuestions, quick: Quick, device: torch.device) -> int:
    """How many waits, kernels or collectives the line makes on ``device``, counted in a profile of it; or by how many KiB
    the memory holds more after it, less than 0 where it holds less. Raises what the line raises."""
    names = {"torch": torch, "nn": nn, "F": F, "device": device, **questions.setup(device)}
    try:
        return _counted(questions.counts, quick.line, names, device)
    finally:
        names.clear()
        questions.put_away()


def _counted(counts: str, line: str, names: dict, device: torch.device) -> int:
    code = compile(line, "<quick question>", "exec")

    def step():
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)

    if counts == KIB:
        synchronize(device)
        before, _ = held_and_peak(device)
        step()
        after, _ = held_and_peak(device)
        return round((after - before) / 1024)

    def busy():
        stay_busy(device, _BUSY_MS)
        step()

    waits = counts == WAITS
    trace = profile(busy if waits else step, steps=1, warmup=1, device=device)
    if counts == COLLECTIVES:
        return sum(span.name == _COLLECTIVE for span in trace.spans)
    report = StepReport.from_trace(trace)
    return round(report.syncs_per_step if waits else report.kernels)


def listed(questions: QuickQuestions) -> str:
    """The questions, as Markdown."""
    lines = [f"**{questions.question}**", ""]
    lines += [f"{number}. `{quick.line}`" for number, quick in enumerate(questions.questions, start=1)]
    blank = "?" * len(questions.questions)
    return "\n".join([*lines, "", f"Guess first: `lesson.quick(\"{blank}\")`, with a y or an n for each ?, in this order. "
                      "Then the device answers."])


def answered(questions: QuickQuestions, answers: str, device: torch.device) -> str:
    """The learner's ``answers`` (a y or n for each question, ? where there is none; blanks do not count) beside the
    device's: a Markdown table. Raises ValueError for anything else."""
    given = [letter for letter in answers.lower() if not letter.isspace()]
    if len(given) != len(questions.questions) or not set(given) <= set("yn?"):
        raise ValueError(f"{len(questions.questions)} answers are needed: a y (yes) or an n (no) for each line, or a ? if "
                         f"you do not know. These are {len(given)}: {answers!r}")
    rows, right = [], 0
    for number, (letter, quick) in enumerate(zip(given, questions.questions), start=1):
        count = how_often(questions, quick, device)
        truth = "y" if count else "n"
        right += letter == truth
        mark = {truth: "✓", "?": "–"}.get(letter, "✗")
        words = f"yes, {_in_words(count, questions.counts)}" if count else "no"
        line = quick.line.replace("|", "\\|")
        rows.append(f"| {number} | `{line}` | {letter} {mark} | {words} | {quick.why} |")
    return "\n".join([f"**{questions.question}** You have {right} of {len(given)}.", "",
                      "| | line | you | the device | why |", "|---:|---|---|---|---|", *rows])


def _in_words(count: int, counts: str) -> str:
    if counts == KIB:
        return f"{abs(count)} KiB {'more' if count > 0 else 'less'}"
    return f"{count} {counts if count != 1 else counts[:-1]}"
