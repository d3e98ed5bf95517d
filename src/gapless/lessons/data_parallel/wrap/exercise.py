"""Lesson 09: the exercise ``wrap``."""

from __future__ import annotations

import numpy as np
from torch.nn.modules.batchnorm import _BatchNorm

from ....course.checks import Values
from ....course.evidence import Case
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from ....course.ranks import ANSWER, COLLECTIVES, RANKS
from ..judged import ALIKE, AS_BIG, BIG_BATCH, OTHERS, SAME, big_batch, close
from ..stage import WEIGHTS, make_network
from . import right, slow, stage

_STEPS = 2  # the gradients of the second are those of weights that the first has changed
STATISTICS = "running statistics"
BETWEEN = "what goes from GPU to GPU"
ENOUGH, GRADIENTS_ALONE = "gradients, and what norms have to know", "only gradients, or not these"


def wrap_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, kind: str, world: int, columns: int | None = 1) -> Case:
        width, size = int(rng.integers(3, 7)), int(rng.integers(3, 6))
        x = (rng.normal(size=(_STEPS * world * size, width)) + rng.normal(size=(1, width))).astype(np.float32)
        x += np.repeat(np.tile(np.arange(world), _STEPS), size)[:, None].astype(np.float32)  # ranks whose rows differ
        y = (x @ rng.normal(size=(width, columns or width))).astype(np.float32)
        options = {"world": world, "kind": kind, "seed": int(rng.integers(1000)), "width": width, "batch_size": size,
                   "epochs": 1, "columns": columns or width}
        return Case(f"{name}, {world} ranks, {size} rows each", {"x": x, "y": y}, options,
                    on_host={"x": "pageable", "y": "pageable"})

    return [case("a BatchNorm", "norm", 3), case("no BatchNorm", "plain", 2),
            case("a BatchNorm2d with `momentum=None` and a BatchNorm3d without weights", "images", 2),
            case("a BatchNorm without running statistics, a frozen one and a frozen layer", "frozen", 2),
            case("a network that is a BatchNorm itself", "a norm alone", 2, None)]


def wanted_wrap(case: Case) -> dict:
    """What is found of a right answer."""
    return {ALIKE: SAME, BIG_BATCH: AS_BIG, STATISTICS: AS_BIG, BETWEEN: ENOUGH, stage.MODE: "training"}


def seen_wrap(case: Case, plain: dict, notes) -> dict:
    """What the check compares, in words."""
    world, size, count = case.options["world"], case.options["batch_size"], len(case.inputs["x"])
    samples = [[place for start in range(rank * size, count, world * size) for place in range(start, start + size)]
               for rank in range(world)]
    wanted = big_batch(case, samples)
    weights = [{name: np.asarray(value) for name, value in row[ANSWER][WEIGHTS].items()} for row in plain[RANKS]]

    def part(named: dict[str, np.ndarray], running: bool) -> dict[str, np.ndarray]:
        return {name: value for name, value in named.items() if ("running" in name) == running}

    return {ALIKE: SAME if all(close(part(each, False), part(weights[0], False)) for each in weights) else "different",
            BIG_BATCH: AS_BIG if close(part(weights[0], False), part(wanted, False)) else OTHERS,
            STATISTICS: AS_BIG if all(close(part(each, True), part(wanted, True)) for each in weights) else OTHERS,
            BETWEEN: _between(plain[RANKS], case, count // (world * size)),
            stage.MODE: plain[RANKS][0][ANSWER][stage.MODE]}


def _between(rows: list[dict], case: Case, steps: int) -> str:
    """Whether the devices have sent gradients in each step, and as many numbers as a norm has statistics. (Backward it
    sends them again, but only where its input needs a gradient.) What DDP broadcasts is neither."""
    network = make_network(case.options["kind"], case.options["seed"], case.options["width"])
    wanted = steps * (sum(value.numel() for value in network.parameters() if value.requires_grad)
                      + sum(2 * each.num_features for each in network.modules() if isinstance(each, _BatchNorm)))
    sent = [sum(each["elements"] for each in row[COLLECTIVES] if each["name"] != "broadcast") for row in rows]
    return ENOUGH if min(sent) >= wanted else GRADIENTS_ALONE


def explain_wrap(case: Case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    if found.get(stage.MODE) != wanted[stage.MODE]:
        return "The network is in evaluation mode, in which a norm uses its running statistics. Leave it in training mode."
    if found.get(ALIKE) != SAME and found.get(BETWEEN) == ENOUGH:
        return ("The GPUs send gradients, but the ranks' weights differ. All must start from rank 0's weights, which "
                "DistributedDataParallel sends when it wraps the model (`init_sync`).")
    if found.get(ALIKE) != SAME:
        return "The ranks train separately. Average the gradients too, with DistributedDataParallel."
    if found.get(BIG_BATCH) == found.get(STATISTICS) == AS_BIG:
        return "The weights are right, but the GPUs have not sent what they need for that."
    if found.get(BETWEEN) == ENOUGH and found.get(BIG_BATCH) == AS_BIG:
        return ("The weights are right, but the running statistics are not. All ranks must use rank 0's, which "
                "DistributedDataParallel sends (`broadcast_buffers`), and each norm keeps its `momentum`.")
    if found.get(BETWEEN) == ENOUGH:
        return ("The GPUs send enough, but the result is different. Is there another norm, with its own weights, "
                "statistics, `eps` and `momentum`? `nn.SyncBatchNorm.convert_sync_batchnorm` keeps those of the BatchNorm. "
                "Does its process group hold all ranks? And a layer with `requires_grad=False` must stay frozen.")
    if found != wanted:
        return ("Each rank's BatchNorm takes the mean and variance of its own rows. It needs those of all ranks, in the "
                "forward pass and in the gradient. `nn.SyncBatchNorm.convert_sync_batchnorm` replaces each BatchNorm by "
                "such a norm, in nested modules too. Use the model that it returns. The norms' process group must hold all "
                "ranks.")
    return None


EXERCISE = Exercise(
    name="wrap",
    slow=slow.wrap,
    cases=wrap_cases,
    asked=Asked(ask=stage.ask_wrap, see=seen_wrap),
    right=Right(function=right.right_wrap, wanted=wanted_wrap),
    setting=Setting(ranks=True),
    checks=(Values(3),),
    teaching=Teaching(
        hints=(
            "Which layer of the network looks at several rows at once, and whose rows are they with four ranks?",
            "PyTorch has a BatchNorm that sends its sums to all ranks, and a function that replaces every BatchNorm by it.",
            "`nn.SyncBatchNorm.convert_sync_batchnorm(model)` returns the model; wrap that with `DistributedDataParallel`.",
        ),
        explain=explain_wrap,
    ),
)
