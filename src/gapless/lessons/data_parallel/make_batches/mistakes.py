"""Lesson 09: the usual wrong versions of ``make_batches``, and what to say of each."""

from __future__ import annotations

import math
import random

import torch

from ....course.mistakes import Mistake
from . import slow


def _version(*, own_draw=True, by_epoch=True, sort=True, blur=0.1, cut="even", deal="in turn", shuffle="steps", few="error"):
    """Right as it stands."""

    def make_batches(lengths, world, batch_size, epoch):
        if len(lengths) < world and few == "error":
            raise ValueError("fewer samples than ranks")
        draw = random.Random(epoch if by_epoch else 0) if own_draw else random
        order = list(range(len(lengths)))
        draw.shuffle(order)
        if sort:
            blurred = [length * draw.uniform(1 - blur, 1 + blur) for length in lengths]
            order = sorted(order if blur else range(len(lengths)), key=blurred.__getitem__)
        full = world * batch_size
        if cut == "dropped":
            order = order[:len(order) // full * full]
        elif cut == "padded":
            missing = math.ceil(len(order) / full) * full - len(order)
            order = (order + (order * math.ceil(missing / len(order)))[:missing]) if missing else order
        elif cut == "padded to the world":
            order = order + order[:-len(order) % world]
        elif cut == "dropped to the world":
            order = order[:len(order) // world * world]
        if cut == "even":
            count = math.ceil(len(order) / full)
            cuts = [len(order) * step // count for step in range(count + 1)]
            steps = [order[start:end] for start, end in zip(cuts, cuts[1:])]
        else:
            steps = [order[start:start + full] for start in range(0, len(order), full)]
        if shuffle == "steps":
            draw.shuffle(steps)
        if deal == "in turn":
            return [[step[rank::world] for step in steps] for rank in range(world)]
        if deal == "in runs":
            parts = [[len(step) * rank // world for rank in range(world + 1)] for step in steps]
            return [[step[cuts[rank]:cuts[rank + 1]] for step, cuts in zip(steps, parts)] for rank in range(world)]
        size = math.ceil(len(order) / world)  # a part of the whole for each rank
        ranks = [order[rank * size:(rank + 1) * size] for rank in range(world)] if deal == "shards" else [
            order[rank::world] for rank in range(world)]
        batches = [[of_rank[i:i + batch_size] for i in range(0, len(of_rank), batch_size)] for of_rank in ranks]
        for of_rank in batches if shuffle == "ranks" else ():
            draw.shuffle(of_rank)
        return batches

    return make_batches


def _batches_dealt(lengths, world, batch_size, epoch):
    """Whole batches of like length, dealt out."""
    draw = random.Random(epoch)
    blurred = [length * draw.uniform(0.9, 1.1) for length in lengths]
    order = sorted(range(len(lengths)), key=blurred.__getitem__)
    batches = [order[start:start + batch_size] for start in range(0, len(order), batch_size)]
    draw.shuffle(batches)
    return [batches[rank::world] for rank in range(world)]


def _seeded(lengths, world, batch_size, epoch):
    random.seed(epoch)
    return _version(own_draw=False)(lengths, world, batch_size, epoch)


def _torch_seeded(lengths, world, batch_size, epoch):
    torch.manual_seed(epoch)
    order = torch.randperm(len(lengths)).tolist()
    blurred = [length * random.Random(place).uniform(0.9, 1.1) for place, length in zip(order, lengths)]
    shuffled = sorted(range(len(lengths)), key=blurred.__getitem__)
    count = math.ceil(len(order) / (world * batch_size))
    cuts = [len(order) * step // count for step in range(count + 1)]
    steps = [shuffled[start:end] for start, end in zip(cuts, cuts[1:])]
    random.Random(epoch).shuffle(steps)
    return [[step[rank::world] for step in steps] for rank in range(world)]


_LOST = ("What fills no step is dropped. Nothing may be lost: cut the samples into steps of nearly one size, somewhat "
         "smaller "
         "than they may be.")
_TWICE = ("What is missing to whole steps is filled up with samples that come once more, as DistributedSampler does: they "
          "count "
          "twice. Cut the samples into steps of nearly one size instead.")
_GLOBAL_SEED = ("The process's own random numbers were seeded: dropout and augmentation draw from them too, and would be "
                "the "
                "same on all ranks, or in every epoch. Use a generator of your own: `random.Random(epoch)`, "
                "`torch.Generator().manual_seed(epoch)`.")
DEALING_MISTAKES = (
    Mistake(slow.make_batches, (
        "Batches are dealt out whole and in file order: the last round does not reach all ranks, long and short samples lie "
        "in one batch, and each epoch is as the one before. Think in steps: each has a batch for each rank.")),
    Mistake(_version(sort=False, cut="padded to the world", deal="in turn of all"), (
        "So does DistributedSampler deal: at random, whatever the lengths, filled up with samples that come twice. Sort by "
        "length, cut into steps of nearly one size, and share each step out.")),
    Mistake(_version(cut="dropped"), _LOST),
    Mistake(_version(cut="dropped to the world"), _LOST),
    Mistake(_version(cut="padded"), _TWICE),
    Mistake(_version(cut="padded to the world"), _TWICE),
    Mistake(_version(cut="last"), (
        "The last step has what is left over, down to a single sample: some rank has none, or much less than another. Cut "
        "the "
        "samples into steps of nearly one size.")),
    Mistake(_batches_dealt, (
        "Each batch is of one length, and in one step a rank has long samples while another has short ones: all wait for "
        "the "
        "slowest. First the steps, of like length over *all* ranks, then share each step out.")),
    Mistake(_version(sort=False), (
        "The samples are dealt out at random: each batch is padded to a long one, and in each step all wait for the rank "
        "whose "
        "is the longest. Put samples of like length into one step.")),
    Mistake(_version(deal="shards"), (
        "Each rank has a run of the sorted samples: one has all the short ones, another all the long ones. Share out each "
        "step, "
        "not the whole.")),
    Mistake(_version(shuffle=""), (
        "The steps come sorted by length in every epoch. Shuffle them, in the same way on all ranks.")),
    Mistake(_version(shuffle="ranks", deal="in turn of all"), (
        "Each rank's batches are shuffled by themselves: in one step a rank has long samples while another has short ones. "
        "Shuffle whole steps, in the same way on all ranks.")),
    Mistake(_version(blur=0.0), (
        "Each batch holds the same samples in every epoch; only the order of the steps changes. Blur the lengths a little "
        "before you sort, by another draw in each epoch.")),
    Mistake(_version(by_epoch=False), (
        "The same batches in the same order, epoch after epoch: the epoch has to be in the seed (what `set_epoch` is "
        "for).")),
    Mistake(_version(own_draw=False), (
        "The ranks do not draw the same numbers: each calls the function in a process of its own. Seed a generator of "
        "your own "
        "with the epoch, or some samples come twice and others never.")),
    Mistake(_seeded, _GLOBAL_SEED),
    Mistake(_torch_seeded, _GLOBAL_SEED),
    Mistake(_version(few="nothing"), (
        "With fewer samples than ranks some rank has no batch, and nothing may be doubled: raise a ValueError that says "
        "so.")),
)
