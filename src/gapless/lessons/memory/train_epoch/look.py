"""Lesson 08: what an epoch holds after each of its steps, and who holds it, to be looked at."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable

import torch

from ....course.answers import put
from ....course.stage import Call
from ....evidence.pictures.figure import new_figure
from ....measure.device import origin_of
from .cases import example_epoch
from .judged import FAILED, LOOKED, PLAIN, kinds_of_steps
from .stage import ask_epoch, make_network

_MARKS = {PLAIN: ".", LOOKED: "o", FAILED: "x"}


def held_after_steps(train_epoch: Callable, device: torch.device) -> list[tuple[str, int]]:
    """(kind of step, bytes that are held more than before the epoch) after each step of an epoch of 40, of which some fail;
    last what is held when it is over, of the kind "over"."""
    gc.collect()  # what another epoch has left in cycles would go meanwhile
    case = example_epoch()
    given, notes = put(case, device)
    call = Call(ask_epoch, train_epoch, given, device)
    call.run()
    call.finish()
    held = [note.held_bytes - notes[0].held_bytes for note in notes]
    return [*zip(kinds_of_steps(case), held[2:-1]), ("over", held[-1])]


def draw_held(epochs: dict[str, Callable], device: torch.device):
    """What is held after each step, a line for each of the ``epochs``. Returns a figure. Raises ImportError without
    matplotlib."""
    found = {name: held_after_steps(train_epoch, device) for name, train_epoch in epochs.items()}
    place = origin_of(device)
    words = "; ".join(f"{name}: {row[0][1] / 1024:.0f} KiB after the first step, {row[-2][1] / 1024:.0f} KiB after the "
                      f"last, {row[-1][1] / 1024:.0f} KiB when it is over" for name, row in found.items())
    figure = new_figure(8.0, 3.2, f"Line chart of what is held after each step, {place}. {words}.")
    axes = figure.subplots()
    for (name, row), style, color in zip(found.items(), ("--", "-"), ("#7f8b97", "#3b7dc4")):
        axes.plot(range(1, len(row)), [nbytes / 1024 for _, nbytes in row[:-1]], style, color=color, linewidth=1, label=name)
        for step_kind, mark in _MARKS.items():
            points = [(number, nbytes / 1024) for number, (each, nbytes) in enumerate(row, start=1) if each == step_kind]
            axes.plot(*zip(*points), mark, color=color, markersize=5)
    axes.set_xlabel("step (. plain   o with a look at the validation data   x failed)")
    axes.set_title(f"KiB held after each step ({place})", loc="left", fontsize=10.5, fontweight="bold")
    axes.set_ylim(0)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def after_an_epoch(train_epoch: Callable, device: torch.device) -> torch.nn.Module:
    """The network, when an epoch is over and all else of it is gone."""
    case = example_epoch()
    model = make_network(case.options, device)
    given, _ = put(case, device)
    pairs = list(zip(given.inputs["rows"], given.inputs["labels"]))[:6]
    train_epoch(model, torch.optim.SGD(model.parameters(), lr=0.05), iter(pairs), pairs[:1], 3)
    return model


def largest_result(device: torch.device) -> torch.Tensor | None:
    """Of the tensors on the device that Python knows of, the largest that an operator has made and that has a graph."""
    found = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor) and each.device.type == device.type
             and each.grad_fn is not None and not each._is_view()]
    return max(found, key=lambda each: each.nbytes, default=None)


def who_holds(thing, depth: int = 8) -> str:
    """Who refers to ``thing``, who to that, and so on, as ``gc.get_referrers`` tells, a line each."""
    lines, seen = [], {id(thing)}
    for _ in range(depth):
        referrers = [each for each in gc.get_referrers(thing) if id(each) not in seen
                     and not isinstance(each, types.FrameType) and not _is_namespace(each)]
        if not referrers:
            break
        thing = referrers[0]
        seen |= {id(thing), id(referrers)}
        lines.append("  " * len(lines) + "held by " + _in_words(thing))
        if isinstance(thing, torch.nn.Module):
            break
    return "\n".join(lines) or "nothing that Python knows of"


def _is_namespace(thing) -> bool:
    """Whether it is the variables of a module or a notebook."""
    return isinstance(thing, dict) and "__name__" in thing


def _in_words(thing) -> str:
    if isinstance(thing, types.FunctionType):
        return f"the function {thing.__qualname__} (line {thing.__code__.co_firstlineno})"
    if isinstance(thing, types.CellType):
        return "a closure's variable"
    if isinstance(thing, (list, tuple, dict)):
        return f"a {type(thing).__name__} of {len(thing)}"
    return f"a {type(thing).__name__}"
