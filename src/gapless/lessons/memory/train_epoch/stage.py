"""Lesson 08: how ``train_epoch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import builtins

import torch
from torch import nn

from ....course.plain import Unusable, hooks_on

HOOKS, MODES = "hooks on the model afterwards", "backward passes in training mode"
PASSED_ON = "the error of a broken batch"
BROKEN = "the data are broken"  # what that error says
BEGUN, STEP, END = "begun", "step", "end"  # what notes say


class Network(nn.Module):
    """Rows → classes: a body of linear layers, and a head."""

    def __init__(self, columns: int, width: int, depth: int, classes: int, error: type[Exception] = RuntimeError):
        super().__init__()
        self.columns, self.error = columns, error
        sizes = [columns, *[width] * depth]
        self.body = nn.Sequential(*[layer for before, after in zip(sizes, sizes[1:])
                                    for layer in (nn.Linear(before, after), nn.Tanh())])
        self.head = nn.Linear(width, classes)
        self.modes: list[bool] = []  # of each forward pass that a backward pass followed, whether it was in training mode

    def forward(self, rows):
        if rows.shape[1] != self.columns:
            raise self.error(f"rows of {rows.shape[1]} columns, where {self.columns} are needed: {BROKEN}")
        logits, training = self.head(self.body(rows)), self.training
        if logits.requires_grad:
            logits.register_hook(lambda _: self.modes.append(training))
        return logits


def make_network(options: dict, device: torch.device) -> Network:
    """Its weights drawn from the case's seed. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options["seed"])
        return Network(options["columns"], options["width"], options["depth"], options["classes"],
                       getattr(builtins, options["error"])).to(device)


def ask_epoch(function, given, device):
    """What the epoch reports, and the weights that it ends with. A note tells of each step's beginning."""
    options = given.options
    model = make_network(options, device)
    model.body.register_forward_hook(lambda *_: None)  # somebody else's, as these
    model.head.register_forward_hook(lambda *_: None)
    model.head.register_forward_pre_hook(lambda *_: None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rows, labels = given.inputs["rows"], given.inputs["labels"]
    pairs = [(each[:, 1:] if number == options["broken"] else each, these[:-1] if number in options["failing"] else these)
             for number, (each, these) in enumerate(zip(rows, labels))]
    validation = list(zip(given.inputs["validation_rows"], given.inputs["validation_labels"]))
    if options["broken"] == "validation":
        others, their_labels = validation[-1]
        validation[-1] = others[:, 1:], their_labels
    if options["stale"]:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)

    def batches():
        for number, pair in enumerate(pairs):
            if options["broken"] == "loader" and number == 2:
                raise model.error(BROKEN)
            given.note(STEP)
            yield pair

    yield
    given.note(BEGUN)
    try:
        report = function(model, optimizer, batches(), validation, options["every"])
    except Exception as error:
        if BROKEN not in str(error):
            raise
        report = PASSED_ON
    yield
    optimizer.zero_grad()
    given.note(END)
    if report == PASSED_ON and len(model.body._forward_hooks) > 1:
        raise Unusable("an error reached the caller, and your hook is still on the model. Call `remove()` in a `finally`.")
    if not isinstance(report, dict):
        return report
    if isinstance(report.get("failures"), (list, tuple)) and not all(isinstance(each, str) for each in report["failures"]):
        raise Unusable("'failures' holds something other than text. A kept error keeps its traceback, and with it the "
                       "tensors of every frame that it passed through.")
    return {**report, HOOKS: hooks_on(model), MODES: sum(model.modes),
            "weights": [each.detach().flatten()[:20] for each in model.parameters()]}
