"""Lesson 09, make_batches: right answers that are not what the reference solution does, and wrong ones."""

import math
import random

import numpy as np
import torch


def moved_by_less_than_a_step(lengths, world, batch_size, epoch):
    """Sorted exactly; then each sample moves by less than a step, up or down."""
    if len(lengths) < world:
        raise ValueError("not enough samples")
    draw = random.Random(f"make_batches {epoch}")
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    steps = math.ceil(len(order) / (world * batch_size))
    most = 0.9 * len(order) / steps
    moved = [place + draw.uniform(-most, most) for place in range(len(order))]
    order = [order[place] for place in sorted(range(len(order)), key=moved.__getitem__)]
    found = []
    for step in range(steps):
        found.append(order[len(order) * step // steps:len(order) * (step + 1) // steps])
        found[-1].sort(key=lambda place: lengths[place])
    draw.shuffle(found)
    return [[step[rank::world] for step in found] for rank in range(world)]


def by_torch(lengths, world, batch_size, epoch):
    generator = torch.Generator().manual_seed(1234 + epoch)
    if len(lengths) < world:
        raise ValueError("a rank would have nothing")
    blurred = torch.tensor(lengths, dtype=torch.float64) * (1 + 0.2 * torch.rand(len(lengths), generator=generator))
    steps = math.ceil(len(lengths) / (world * batch_size))
    parts = torch.tensor_split(blurred.argsort(), steps)
    order = torch.randperm(steps, generator=generator).tolist()
    return [[parts[step][rank::world] for step in order] for rank in range(world)]


def back_and_forth(lengths, world, batch_size, epoch):
    """NumPy's; dealt to and fro, so that no rank always has the longer one."""
    if len(lengths) < world:
        raise ValueError("a rank would have nothing")
    draw = np.random.default_rng([epoch, 7])
    order = np.argsort(np.asarray(lengths) * draw.uniform(0.92, 1.08, len(lengths)))
    ranks = [[] for _ in range(world)]
    steps = np.array_split(order, math.ceil(len(order) / (world * batch_size)))
    draw.shuffle(turns := list(range(len(steps))))
    for turn in turns:
        step = steps[turn]
        batches = [[] for _ in range(world)]
        for number, place in enumerate(step[::-1]):
            lap, rank = divmod(number, world)
            batches[world - 1 - rank if lap % 2 else rank].append(place)
        for rank in range(world):
            ranks[rank].append(tuple(batches[rank]))
    return ranks


DEALING_ROUTES = [moved_by_less_than_a_step, by_torch, back_and_forth]


# -- wrong ones -------------------------------------------------------------------------------------


def distributed_sampler(lengths, world, batch_size, epoch):
    from torch.utils.data import DistributedSampler

    found = []
    for rank in range(world):
        sampler = DistributedSampler(lengths, world, rank, shuffle=True)
        sampler.set_epoch(epoch)
        places = list(sampler)
        found.append([places[i:i + batch_size] for i in range(0, len(places), batch_size)])
    return found


def longest_first(lengths, world, batch_size, epoch):
    return groups_of_one_order(lengths, world, batch_size, sorted(range(len(lengths)), key=lambda i: -lengths[i]))


def groups_of_one_order(lengths, world, batch_size, order):
    if len(lengths) < world:
        raise ValueError("not enough")
    steps = np.array_split(order, math.ceil(len(order) / (world * batch_size)))
    return [[step[rank::world].tolist() for step in steps] for rank in range(world)]


def only_one_rank(lengths, world, batch_size, epoch):
    return [by_torch(lengths, world, batch_size, epoch)[0]]


def values_for_places(lengths, world, batch_size, epoch):
    return [[[lengths[i] for i in batch.tolist()] for batch in batches] for batches in by_torch(lengths, world, batch_size, epoch)]


def in_runs(lengths, world, batch_size, epoch):
    """Each step is shared out in runs, so that the last rank has the longest; a long tail makes it slow."""
    draw = random.Random(epoch)
    order = draw.sample(range(len(lengths)), len(lengths))
    return groups_of_one_order(lengths, world, batch_size, order)


def nothing(lengths, world, batch_size, epoch):
    pass


def numbers_as_text(lengths, world, batch_size, epoch):
    return [[[str(i) for i in batch.tolist()] for batch in batches] for batches in by_torch(lengths, world, batch_size, epoch)]


def smaller_steps(lengths, world, batch_size, epoch):
    return by_torch(lengths, world, max(1, batch_size // 2), epoch)


def by_hash(lengths, world, batch_size, epoch):
    """Draws from the process's own numbers, and puts them back as they were: the ranks get different batches all the same."""
    state = random.getstate()
    own = random.random()
    random.setstate(state)
    return by_torch(lengths, world, batch_size, int(own * 1e6))


def asserts(lengths, world, batch_size, epoch):
    assert len(lengths) >= world
    return by_torch(lengths, world, batch_size, epoch)


def every_three_epochs(lengths, world, batch_size, epoch):
    return by_torch(lengths, world, batch_size, epoch % 3)


_drawn, _orders = random.Random(0), {}


def drawn_from_one_generator(lengths, world, batch_size, epoch):
    return by_torch(lengths, world, batch_size, _drawn.randrange(10 ** 9))


def remembered(lengths, world, batch_size, epoch):
    """For other lengths the order is the one of the first."""
    key = epoch, len(lengths), world, batch_size
    if key not in _orders:
        _orders[key] = by_torch(lengths, world, batch_size, epoch)
    return _orders[key]


def short_ones_first(lengths, world, batch_size, epoch):
    """The steps are shuffled within two halves: the shorter samples, then the longer ones."""
    ranks = by_torch(lengths, world, batch_size, epoch)
    turn = sorted(range(len(ranks[0])), key=lambda step: lengths[ranks[0][step][0]] > sorted(lengths)[len(lengths) // 2])
    return [[batches[step] for step in turn] for batches in ranks]


DEALING_WRONG = [
    (drawn_from_one_generator, "depends on earlier calls"),
    (remembered, "the same batches for other lengths"),
    (short_ones_first, "Shuffle *all* steps together"),
    (every_three_epochs, "again in a later epoch"),
    (asserts, "'raised AssertionError' and should be 'raised ValueError'"),
    (distributed_sampler, "similar length"),
    (longest_first, "Blur"),
    (only_one_rank, "a list of batches for each rank"),
    (values_for_places, "more than once"),
    (in_runs, "similar length"),
    (nothing, "not a list"),
    (numbers_as_text, "integers (int)"),
    (smaller_steps, "are enough"),
    (by_hash, "your own generator"),
]
