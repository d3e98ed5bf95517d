"""Lesson 09: what ``train_epoch`` is asked for, and what several ranks have trained and sent. On the judge's side."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from ....course.evidence import Case
from ....course.ranks import ANSWER, COLLECTIVES, RANKS
from ..judged import ALIKE, AS_BIG, BIG_BATCH, OTHERS, SAME, UNTRAINED, WHY_UNTRAINED, close
from ..stage import WEIGHTS
from .stage import AS_IT_WAS, EXTRA, LEFT, OTHER_MODE, OTHER_SETTINGS, PASSES, leave_gradients, make_branched, micro_batches

SENT = "gradients sent"
ONE_BY_ONE, OTHERWISE = "one micro-batch at a time", "other rows than a micro-batch's"
ONCE_A_STEP, TWICE_A_STEP, EACH_PASS, TOO_FEW, TOO_OFTEN = (
    "once for each step", "twice for each step", "in each backward pass",
    "less often than there are steps", "more often than there are steps")
SUMMED, BY_PARTS, FORGOTTEN, BY_WORLD, PILED_UP = (
    "as with gradients that are summed over the micro-batches", "as with a short last group divided by `parts`",
    "as without the short last group", "as with gradients that are divided by the world twice",
    "as with gradients that are never cleared")


def accumulating_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, world: int, count: int, parts: int, columns: int = 1, **more) -> Case:
        width, size = int(rng.integers(3, 7)), int(rng.integers(3, 6))
        x = rng.normal(size=(count, world, size, width + EXTRA)).astype(np.float32)
        y = (x.sum(-1, keepdims=True) + rng.normal(size=(count, world, 1, columns))).astype(np.float32)
        options = {"world": world, "seed": int(rng.integers(1000)), "width": width, "parts": parts,
                   "columns": columns, "branch": False, "training": True, "epochs": 1, "rate": 0.2, "momentum": 0.0, **more}
        return Case(f"{name}: {count} micro-batches, {parts} a step, {world} ranks", {"x": x, "y": y}, options,
                    on_host={"x": "pageable", "y": "pageable"})

    parts = int(rng.integers(3, 5))
    return [case("whole groups", 2, 2 * parts, parts),
            case("a short last group, two epochs, an optimizer with momentum", 2, 2 * parts - 1, parts, epochs=2, rate=0.1,
                 momentum=0.5),
            case("one micro-batch is left", 3, parts + 1, parts),
            case("a step for each, a network in evaluation mode except its last layer", 2, 3, 1, training=False),
            case("a layer that some micro-batches do not use", 2, parts + 2, parts, branch=True),
            case("fewer than a step's, targets of two columns", 2, parts - 1, parts, 2),
            case("an empty epoch", 2, 0, parts)]


def wanted_train_epoch(case: Case) -> dict:
    """What is found of a right answer."""
    return {ALIKE: SAME, SENT: ONCE_A_STEP, BIG_BATCH: AS_BIG, PASSES: ONE_BY_ONE, LEFT: AS_IT_WAS}


def seen_train_epoch(case: Case, plain: dict, notes) -> dict:
    """What the check compares, in words: right, or else what was found."""
    weights = [{name: np.asarray(value) for name, value in row[ANSWER][WEIGHTS].items()} for row in plain[RANKS]]
    found = {ALIKE: SAME if all(close(each, weights[0]) for each in weights) else "different",
             SENT: _sent(case, plain[RANKS], weights[0]), BIG_BATCH: OTHERS}
    for words, options in ((AS_BIG, {}), (SUMMED, {"divide": "nothing"}), (BY_PARTS, {"divide": "parts"}),
                           (FORGOTTEN, {"short": False}), (BY_WORLD, {"ranks": case.options["world"] ** 2}),
                           (PILED_UP, {"cleared": False}), (PILED_UP, {"left": True}), (UNTRAINED, {"rate": 0.0})):
        if close(weights[0], trained_alone(case, **options)):
            found[BIG_BATCH] = words
            break
    count, _, rows, _ = case.inputs["x"].shape
    passes = [rows] * count * case.options["epochs"]
    answers = [row[ANSWER] for row in plain[RANKS]]
    return {**found, PASSES: ONE_BY_ONE if all(answer[PASSES] == passes for answer in answers) else OTHERWISE,
            LEFT: next((answer[LEFT] for answer in answers if answer[LEFT] != AS_IT_WAS), AS_IT_WAS)}


def _sent(case: Case, rows: list[dict], weights: dict[str, np.ndarray]) -> str:
    """How often the ranks have sent gradients, by the elements that their devices have sent inside the function, in whatever
    way. (DDP's notes are among them, of the parameters that were used and of the order of its buckets: some elements for
    each parameter, far fewer than the gradients.)"""
    own, epochs = len(case.inputs["x"]), case.options["epochs"]
    steps, parameters = epochs * -(-own // case.options["parts"]), sum(value.size for value in weights.values())
    count = epochs * own
    reduced = [sum(each["elements"] for each in row[COLLECTIVES]) for row in rows]
    notes = 2 * len(weights) * (count + 1)
    if min(reduced) < steps * parameters:
        return TOO_FEW
    if max(reduced) <= steps * parameters + notes:
        return ONCE_A_STEP
    for words, times in ((EACH_PASS, count), (TWICE_A_STEP, 2 * steps)):
        if times * parameters <= min(reduced) <= max(reduced) <= times * parameters + notes:
            return words
    return TOO_OFTEN


def trained_alone(case: Case, divide: str = "group", short: bool = True, ranks: int | None = None, cleared: bool = True,
                  left: bool = False, rate: float | None = None) -> dict[str, np.ndarray]:
    """The weights after the same epochs by one process on the CPU that sees all ranks' micro-batches. ``divide``: by what a
    step's losses are divided; ``short``: whether a last group that is not full makes a step; ``ranks``: by what their
    sum is divided, if not by their number; ``cleared``: whether gradients are, before each step; ``left``: whether
    only those from before the first step are not; ``rate``: of learning, if not the optimizer's."""
    options = case.options
    world, parts = options["world"], options["parts"]
    network = make_branched(options["seed"], options["width"], options["columns"])
    x, y = (torch.from_numpy(np.array(case.inputs[name])) for name in ("x", "y"))
    shares = [micro_batches(x, y, options, rank) for rank in range(world)]
    rate = options["rate"] if rate is None else rate
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=options["momentum"])
    leave_gradients(network)
    for start in list(range(0, len(x), parts)) * options["epochs"]:
        group = range(start, min(start + parts, len(x)))
        if len(group) < parts and not short:
            continue
        if cleared and not left:
            optimizer.zero_grad()
        left = False
        for place in group:
            for share in shares:
                loss = F.mse_loss(network(share[place][0]), share[place][1])
                (loss / (ranks or world) / {"group": len(group), "parts": parts, "nothing": 1}[divide]).backward()
        optimizer.step()
    return {name: value.numpy() for name, value in network.state_dict().items()}


_NEVER = ("The ranks have not met in each step. Run a step's *last* micro-batch without `no_sync`, in the short last "
          "group too. Its backward pass sends all that was accumulated.")
_OFTEN = ("Gradients went from GPU to GPU although no step followed. DDP decides in the *forward* pass whether the "
          "backward pass sends. Put `with ddp.no_sync():` around both, in all micro-batches of a step except the last.")
_OF_WEIGHTS = {
    SUMMED: "You add up the micro-batches' gradients. Divide each loss by the number of micro-batches in its step.",
    BY_PARTS: "The last group may be shorter than `parts`. Divide by the number of micro-batches that it has.",
    BY_WORLD: "DDP already takes the mean over the ranks: do not divide by their number once more.",
    UNTRAINED: WHY_UNTRAINED,
    PILED_UP: "The gradients of earlier steps, or from before the call, are still there, and new ones are added. Call "
              "`optimizer.zero_grad()` before a step's first micro-batch.",
    FORGOTTEN: "The micro-batches left at the end of the epoch need a step too: the last group may be shorter than "
               "`parts`.",
}


def explain_train_epoch(case: Case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    if found.get(BIG_BATCH) in _OF_WEIGHTS:
        return _OF_WEIGHTS[found[BIG_BATCH]]
    if found.get(SENT) == ONCE_A_STEP and found.get(ALIKE) != SAME:
        return ("The ranks have sent gradients as often as there are steps, but their weights differ. Gradients that are "
                "added after that stay on their rank. Send with a step's *last* micro-batch. And each rank must take the "
                "optimizer's step.")
    if found.get(SENT) == TOO_FEW or found.get(ALIKE) != SAME:
        return _NEVER
    if found.get(SENT) == TWICE_A_STEP:
        return ("The gradients were sent twice for each step. DistributedDataParallel takes their mean in the backward "
                "pass, so do not reduce them again.")
    if found.get(SENT) in (EACH_PASS, TOO_OFTEN):
        return _OFTEN
    if found.get(BIG_BATCH) != AS_BIG:
        return ("A step's gradient is the mean over its micro-batches and over the ranks, of the loss `F.mse_loss`, "
                "which itself is the mean over rows and columns. Do you take the step by `optimizer.step()`, and use each "
                "micro-batch once? Do you clear gradients before a step's first micro-batch, and only there?")
    if found.get(PASSES) != ONE_BY_ONE:
        return ("Run each micro-batch through the network separately, once. They are as large as fits: several in one "
                "pass do not fit.")
    if found.get(LEFT) == OTHER_MODE:
        return "The network is left in another train/eval mode than before. Leave the mode as it is, of each module in it."
    if found.get(LEFT) == OTHER_SETTINGS:
        return "The optimizer is left with another learning rate, or with other settings. Divide the loss instead."
    if found.get(LEFT) != AS_IT_WAS:
        return ("DDP is left switched off, so after this epoch no backward pass sends again. `no_sync()` restores the "
                "switch. If you set `require_backward_grad_sync` yourself, restore it too.")
    return None
