"""Lesson 05: how ``warmup_schedule`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable

OTHERS, AS_GIVEN = "other settings of the groups", "as they were"
_GIVEN = {"momentum": 0.8, "weight_decay": 0.01, "dampening": 0}


def ask_warmup_schedule(function, given, device):
    """The learning rates of each step, group by group, and whether the groups' other settings stay; with ``resumed``, of a
    schedule that is created and loaded after that many steps."""
    options = given.options

    def make():
        groups = [{"params": [nn.Parameter(torch.zeros(1, device=device))], "lr": lr} for lr in options["rates"]]
        optimizer = torch.optim.SGD(groups, lr=1.0, **_GIVEN)
        schedule = function(optimizer, options["factor"], options["warmup"], options["total"])
        if not hasattr(schedule, "step"):
            raise Unusable(f"it returned a {type(schedule).__name__}, not a scheduler of torch.optim.lr_scheduler.")
        return optimizer, schedule

    yield
    optimizer, schedule = make()
    yield
    rates: dict[str, list] = {f"learning rates, group {place}": [] for place in range(len(options["rates"]))}
    others = AS_GIVEN
    for step in range(3 * options["total"]):
        for group, seen in zip(optimizer.param_groups, rates.values()):
            seen.append(group["lr"])
            changed = [name for name, value in _GIVEN.items() if group[name] != value]
            if changed and others == AS_GIVEN:
                others = f"{changed[0]} is {group[changed[0]]:g} at step {step}"
        if step == options.get("resumed"):
            saved = optimizer.state_dict(), schedule.state_dict()
            optimizer, schedule = make()
            optimizer.load_state_dict(saved[0])
            schedule.load_state_dict(saved[1])
        optimizer.step()
        schedule.step()
    return {**rates, OTHERS: others}
