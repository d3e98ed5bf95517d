"""Lesson 04, `make_loader`: right answers by other routes, and wrong ones."""

import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info


def by_info(worker):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)


def loader(seed=by_info, **changed):
    """The reference with other settings."""

    def make_loader(dataset, batch_size, workers):
        settings = {"batch_size": batch_size, "shuffle": True, "num_workers": workers, "pin_memory": True,
                    "persistent_workers": workers > 0, "worker_init_fn": seed}
        return DataLoader(dataset, **{name: value for name, value in {**settings, **changed}.items() if value is not ...})

    return make_loader


# -- right --------------------------------------------------------------------------------------------


def spawned_generators(dataset, batch_size, workers):
    """A child of the dataset's own generator for each worker."""
    children = dataset.rng.spawn(workers)

    def seed(worker):
        dataset.rng = children[worker]

    return loader(seed)(dataset, batch_size, workers)


class Reseeded(Dataset):
    """Makes its generator where it is used first, from PyTorch's own seed of that process."""

    def __init__(self, dataset):
        self.dataset, self.seeded = dataset, False

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, place):
        if not self.seeded:
            self.dataset.rng, self.seeded = np.random.default_rng(torch.initial_seed() % 2**63), True
        return self.dataset[place]


def wrapped(dataset, batch_size, workers):
    return loader(None)(Reseeded(dataset), batch_size, workers)


def from_numpys_own(dataset, batch_size, workers):
    """`np.random` has a seed of its own in each worker: one may be drawn from it. Longer prefetch."""

    def seed(worker):
        get_worker_info().dataset.rng = np.random.default_rng(np.random.randint(2**31))

    return loader(seed, prefetch_factor=4 if workers else None)(dataset, batch_size, workers)


# -- wrong --------------------------------------------------------------------------------------------


def constant(worker):
    get_worker_info().dataset.rng = np.random.default_rng(1234)


def by_number(worker):
    get_worker_info().dataset.rng = np.random.default_rng(worker)


def from_the_time(worker):
    get_worker_info().dataset.rng = np.random.default_rng(int(time.time()) // 3600)


def drops_a_last_one(dataset, batch_size, workers):
    return loader(drop_last=len(dataset) % batch_size == 1)(dataset, batch_size, workers)


class EveryWorkerAll(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter([self.dataset[place] for place in torch.randperm(len(self.dataset)).tolist()])


def each_all(dataset, batch_size, workers):
    return loader(None, shuffle=...)(EveryWorkerAll(dataset), batch_size, workers)


def with_replacement(dataset, batch_size, workers):
    return loader(shuffle=..., sampler=RandomSampler(dataset, replacement=True))(dataset, batch_size, workers)


OTHER_ROUTES = {"make_loader": [spawned_generators, wrapped, from_numpys_own]}

WRONG = [
    ("make_loader", loader(None, persistent_workers=False), "the same state"),
    ("make_loader", loader(persistent_workers=False), "`persistent_workers=True` keeps them"),
    ("make_loader", loader(persistent_workers=True), "persistent_workers option needs num_workers > 0"),
    ("make_loader", loader(None), "the same state"),
    ("make_loader", loader(lambda worker: np.random.seed(worker)), "the same state"),
    ("make_loader", loader(constant), "the same state"),
    ("make_loader", loader(by_number, persistent_workers=False), "make their seed from one that changes"),
    ("make_loader", loader(pin_memory=False), "A copy from pageable memory makes the host wait"),
    ("make_loader", loader(shuffle=False), "draws a new one for each epoch"),
    ("make_loader", loader(drop_last=True), "Samples are lost"),
    ("make_loader", loader(num_workers=0, persistent_workers=False), "The main process makes all batches itself"),
    ("make_loader", loader(num_workers=1), "number of processes"),
    ("make_loader", loader(batch_size=2), "are asked for"),
    ("make_loader", loader(prefetch_factor=1), "one batch"),
    ("make_loader", with_replacement, "with replacement"),
    ("make_loader", each_all, "workers that each go through the whole dataset"),
    ("make_loader", loader(collate_fn=lambda samples: samples[0]), "leave `collate_fn` alone"),
    ("make_loader", lambda *asked: iter(loader()(*asked)), "ends after one epoch"),
    ("make_loader", lambda dataset, batch_size, workers: None, "TypeError"),
    ("make_loader", drops_a_last_one, "Samples are lost"),
    ("make_loader", loader(from_the_time), "the time, or a number drawn from that copy"),
]
