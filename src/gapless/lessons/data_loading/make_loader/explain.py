"""Lesson 04: why what comes out of a learner's loader is wrong."""

from __future__ import annotations

from ....course.evidence import Case
from .cases import AGAIN, BY_EPOCHS, BY_WORKERS

_FORKED = ("Each worker begins with a copy of the dataset, and with it a copy of `dataset.rng` in the same state. PyTorch "
           "gives each worker's `torch`, `random` and `np.random` its own seed. It does not know the generator in your "
           "dataset. Replace it in `worker_init_fn` by a new one, made from `get_worker_info().seed`. A fixed number, "
           "the time, or a number drawn from that copy is the same in all workers.")
_REPEATED = ("The same numbers come in every epoch. New workers begin with the main process's dataset, whose generator "
             "nobody has used. Keep the workers, or make their seed from one that changes with the epoch "
             "(`get_worker_info().seed` does). And do not set a seed for each sample.")


def explain_loader(case: Case, found: dict, wanted: dict) -> str | None:
    """The cause, of the first thing that is not as it should be."""
    wrong = next((name for name, value in wanted.items() if found.get(name) != value), None)
    return None if wrong is None else _EXPLAIN[wrong](case, str(found.get(wrong)))


def _samples(case: Case, own: str) -> str:
    samples = case.options["samples"]
    if f"{samples} of {samples} do not come" in own:
        return ("No batch comes at all: an iterator (`iter(loader)`, a generator) ends after one epoch. Return the "
                "DataLoader itself, which starts again in each `for`.")
    if "none come twice" in own:
        return ("Samples are lost: `drop_last` leaves out the last, smaller batch. Here every sample must come. (A "
                "training whose step must keep its shape may drop it, but not the same samples in each epoch.)")
    return ("Each sample must come once in an epoch. A sampler that draws with replacement gives some twice, and so do "
            "workers that each go through the whole dataset.")


def _workers(case: Case, own: str) -> str:
    workers = case.options["workers"]
    if own == "none":
        return f"The main process makes all batches itself, while the GPU waits: `num_workers={workers}`, as asked for."
    if AGAIN in own:
        return ("Starting a process takes longer than making a batch, and whatever a worker has opened or cached is gone. "
                "`persistent_workers=True` keeps them (where there are any: with `num_workers=0` PyTorch refuses it).")
    return f"`workers` is the number of processes: {workers}."


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
    "dtypes of the images": lambda case, own: (
        "The samples' dtype is float32, and so is a batch's: leave `collate_fn` alone."),
    "memory": lambda case, own: (
        "A copy from pageable memory makes the host wait, whatever `non_blocking` says: with `pin_memory=True` a thread "
        "of the loader puts each batch into pinned memory."),
    "asked of a worker beforehand": lambda case, own: (
        "With a `prefetch_factor` of 1, a worker is idle from the end of its batch until the main process asks for the "
        "next. The default is 2: leave it, or raise it if some batches take long."),
}
