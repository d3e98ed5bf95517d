"""Lesson 04: why what comes out of a learner's loader is wrong."""

from __future__ import annotations

from ....course.evidence import Case
from .cases import AGAIN, BY_EPOCHS, BY_WORKERS

_FORKED = ("Each worker begins with a copy of the dataset, and with it a copy of `dataset.rng` in the same state. PyTorch "
           "gives each worker's `torch`, `random` and `np.random` a seed of its own; it knows nothing of a generator that "
           "your dataset holds. Give it a new one in `worker_init_fn`, made from `get_worker_info().seed`: a fixed number, "
           "the time, or one drawn from that copy is the same in all workers.")
_REPEATED = ("The same numbers come in every epoch. Workers that are started anew begin with the dataset as the main "
             "process has it, where nobody has drawn anything: keep the workers, or make their seed from one that changes "
             "with the epoch (`get_worker_info().seed` does). And set no seed for each sample.")


def explain_loader(case: Case, found: dict, wanted: dict) -> str | None:
    """The cause, of the first thing that is not as it should be."""
    wrong = next((name for name, value in wanted.items() if found.get(name) != value), None)
    return None if wrong is None else _EXPLAIN[wrong](case, str(found.get(wrong)))


def _samples(case: Case, own: str) -> str:
    samples = case.options["samples"]
    if f"{samples} of {samples} do not come" in own:
        return ("No batch comes at all: an iterator (`iter(loader)`, a generator) is at its end after one epoch. Return the "
                "DataLoader itself, which begins anew in each `for`.")
    if "none come twice" in own:
        return ("Samples are lost: `drop_last` leaves out the last, smaller batch. Here all of them are wanted (a training "
                "whose step must not change its shape may want to drop it, and then not the same samples in each epoch).")
    return ("Each sample is to come once in an epoch: a sampler that draws with replacement, or workers that each go "
            "through the whole dataset, give some twice.")


def _workers(case: Case, own: str) -> str:
    workers = case.options["workers"]
    if own == "none":
        return f"The main process makes all batches itself, while the GPU waits: `num_workers={workers}`, as asked for."
    if AGAIN in own:
        return ("Starting a process takes longer than making a batch, and whatever a worker has opened or cached is gone. "
                "`persistent_workers=True` keeps them (where there are any: with `num_workers=0` PyTorch refuses it).")
    return f"`workers` says how many processes there are to be: {workers}."


def _augmentations(case: Case, own: str) -> str:
    return " ".join(words for words, cause in ((_FORKED, BY_WORKERS), (_REPEATED, BY_EPOCHS)) if cause in own)


_EXPLAIN = {
    "samples": _samples,
    "sizes of the batches": lambda case, own: (
        f"Batches of {case.options['batch_size']} are asked for, and one smaller at the end where the samples do not "
        "suffice."),
    "order": lambda case, own: "The same order each time lets a network learn it: `shuffle=True` draws a new one for each "
                               "epoch.",
    "workers": _workers,
    "augmentations": _augmentations,
    "memory": lambda case, own: (
        "A copy from pageable memory makes the host wait, whatever `non_blocking` says: `pin_memory=True` lets a thread of "
        "the loader put each batch into pinned memory."),
    "asked of a worker beforehand": lambda case, own: (
        "A worker of which one batch is asked at a time stands still from when it is done until the main process comes by. "
        "`prefetch_factor` is 2 unless you say otherwise: leave it, or raise it where a batch now and then takes long."),
}
