"""Lesson 09: the trainings that ``main`` is asked for, and what is said of a wrong one."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .. import judged as shared_judged
from . import judged


def main_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, world: int, samples: int, batch_size: int, epochs: int = 2, kind: str = "plain",
             columns: int = 1) -> Case:
        width = int(rng.integers(3, 7))
        x = rng.normal(size=(samples, width)).astype(np.float32)
        y = (x @ rng.normal(size=(width, columns)) + 0.1 * rng.normal(size=(samples, columns))).astype(np.float32)
        options = {"world": world, "kind": kind, "seed": int(rng.integers(1000)), "width": width, "columns": columns,
                   "batch_size": batch_size, "epochs": epochs}
        return Case(f"{name}: {samples} samples, {world} ranks, {batch_size} a batch", {"x": x, "y": y}, options,
                    on_host={"x": "pageable", "y": "pageable"})

    batch = int(rng.integers(4, 7))  # so that no share's order comes again by chance
    return [case("whole batches", 2, 2 * batch * 3, batch), case("a short last batch", 2, 2 * (batch * 2 + 1), batch, 3),
            case("samples that do not divide", 3, 3 * batch * 2 - 1, batch),
            case("a frozen layer, targets of three columns", 2, 2 * batch * 2, batch, kind="frozen at first", columns=3)]


_WHY = {
    shared_judged.SHARES: "Each rank takes its own share: use a DistributedSampler(dataset, world, rank), or "
                          "places[rank::world] of an order that all ranks draw alike. The batch size is that of one "
                          "rank.",
    shared_judged.ORDER: "A rank has the same order in two epochs. The sampler's order depends on its epoch: call "
                         "`sampler.set_epoch(epoch)` before each.",
    shared_judged.ALIKE: "The ranks have trained separately. DistributedDataParallel first takes rank 0's weights, and "
                         "averages the gradients in each backward pass. Call the wrapped model, not the module inside.",
    judged.SENT: "The gradients did not go from GPU to GPU in each step. Either each rank trained on everything, or they "
                 "met only now and then.",
    shared_judged.BIG_BATCH: "The gradients have to be the mean over ranks, starting from rank 0's weights. Wrap the "
                             "model before the optimizer steps, and do not scale the loss or the learning rate by the "
                             "world. Each batch is one step of `torch.optim.SGD` with a rate of 0.2 and the loss "
                             "`F.mse_loss`. A layer with `requires_grad=False` stays as it is.",
    judged.WORK: "One rank computes more than twice as much as another. Each rank must run forward and backward pass on "
                 "its own share. Only then is a step faster with more GPUs.",
}
_OF_WEIGHTS = {
    shared_judged.TOO_LARGE: "The gradients are summed over the ranks. `all_reduce` adds, while DDP divides by the "
                             "world. Did you multiply the loss or the learning rate, or forget to divide a gradient?",
    shared_judged.TOO_SMALL: "You divide the gradients by the world once more. DDP already takes their mean, and the "
                             "learning rate stays 0.2.",
    shared_judged.LARGER_BATCHES: "Each rank's batch is `world` times too large: `batch_size` is that of one rank.",
    shared_judged.SMALLER_BATCHES: "Each rank's batch is `world` times too small: `batch_size` is that of one rank.",
    shared_judged.PILED_UP: "The gradients of earlier steps are still there, and new ones are added. Call "
                            "`optimizer.zero_grad()` in each step, before the backward pass.",
    shared_judged.WITHOUT_SHORT: "You take no step for an epoch's short last batch. It is a batch like the others: train on "
                                 "it too.",
    shared_judged.ABSOLUTE: "The loss is the mean of absolute errors (`F.l1_loss`). Use the squared ones, `F.mse_loss`.",
    shared_judged.BROADCAST: "The outputs and the targets have different shapes, so the loss compares each output with each "
                             "target of the batch. Leave the outputs as they are: rows × columns.",
    shared_judged.LOSS_SUMMED: "The loss is a sum over the batch. Use its mean (`F.mse_loss` as it is).",
    shared_judged.UNTRAINED: shared_judged.WHY_UNTRAINED,
}


def explain_main(case: Case, found, wanted) -> str | None:
    if not isinstance(found, dict):
        return None
    why = _OF_WEIGHTS.get(found.get(shared_judged.BIG_BATCH))
    if why is not None:
        return why
    if found.get(shared_judged.ORDER) == judged.DATASETS:
        return ("A rank takes an epoch's samples in the dataset's order. A `DistributedSampler` draws another order by "
                "default (unless you pass `shuffle=False`), and it depends on the epoch: `sampler.set_epoch(epoch)`.")
    if found.get(shared_judged.SHARES) == judged.UNSEEN:
        return ("The check sees only what this process takes from `dataset`, and not what a loader's workers take. Leave "
                "`num_workers` at 0 here.")
    if found.get(shared_judged.SHARES) == judged.ALL_ON_EACH:
        return ("Each rank has read all samples. It reads its own share alone: use a DistributedSampler(dataset, world, "
                "rank). The batch size is that of one rank.")
    if found.get(shared_judged.BIG_BATCH) == shared_judged.OTHERS and found[judged.SENT] != judged.IN_EACH_STEP and (
            found[shared_judged.ALIKE] == shared_judged.SAME):
        return ("The ranks meet, but not in each step. Average the gradients in each step, before the optimizer's "
                "`step()`. DistributedDataParallel does so in each backward pass.")
    if str(found.get(shared_judged.SHARES)).startswith(judged.EPOCHS):
        return ("`epochs` says how often the ranks go through the dataset: `for epoch in range(epochs)`. Each read counts, "
                "so read a sample only to train on it.")
    if str(found.get(shared_judged.SHARES)).startswith(judged.MORE):
        return ("Each read of a sample counts. Read a sample only to train on it, not for its shape or for a loss "
                "afterwards.")
    if str(found.get(shared_judged.SHARES)).startswith(judged.UNEQUAL):
        return ("If the samples do not divide evenly, pad the shares to equal size with samples that repeat. "
                "`DistributedSampler(dataset, world, rank)` does so.")
    if str(found.get(shared_judged.SHARES)).endswith(judged.DROPPED):
        return ("Samples are dropped. Leave `drop_last` out, in the sampler and in the loader. A short last batch is "
                "still a batch, and the sampler fills up the shares.")
    return next((_WHY[name] for name in wanted if found.get(name) != wanted[name] and name in _WHY), None)
