"""Lesson 04: the usual ways to measure the number of workers wrongly, and what to say of each."""

from __future__ import annotations

import statistics
from itertools import islice

from ....course.evidence import Case
from ....course.mistakes import Mistake
from ....measure.device import clock_ms
from .look import epochs_ms
from .right import WITHIN
from .slow import best_workers
from .stage import WORKERS, times_of

_EPOCHS = 6


def _smallest(times: dict[int, float]) -> int:
    return min(workers for workers, ms in times.items() if ms <= WITHIN * min(times.values()))


def _choosing(choose, figure=lambda epochs: statistics.median(epochs[1:])):
    """best_workers with ``choose(times)``, where times are ``figure(the epochs' times)``."""

    def best_workers(make_loader, candidates, device):
        return choose({workers: figure(epochs_ms(make_loader(workers), device, _EPOCHS)) for workers in candidates})

    return best_workers


def _until_it_gets_worse(times: dict[int, float]) -> int:
    candidates = sorted(times)
    for before, after in zip(candidates, candidates[1:]):
        if times[after] * WITHIN > times[before]:
            return before
    return candidates[-1]


def _in_the_middle(make_loader, candidates, device):
    """The time between batches, once the first few are there."""
    found = {}
    for workers in candidates:
        loader = make_loader(workers)
        for _ in loader:
            pass
        batches = iter(loader)
        skipped = len(list(islice(batches, min(len(loader) - 2, max(1, workers)))))
        start = clock_ms(device)
        rest = len(list(batches))
        found[workers] = (clock_ms(device) - start) / rest if skipped else 0.0
    return _smallest(found)


def _first_batch(make_loader, candidates, device):
    found = {}
    for workers in candidates:
        start = clock_ms(device)
        next(iter(make_loader(workers)))
        found[workers] = clock_ms(device) - start
    return _smallest(found)


def _a_few_batches(make_loader, candidates, device):
    """Of the first epoch, once the first few are there."""
    found = {}
    for workers in candidates:
        batches = iter(make_loader(workers))
        list(islice(batches, 5))
        start = clock_ms(device)
        count = len(list(islice(batches, 10)))
        found[workers] = (clock_ms(device) - start) / max(1, count)
    return _smallest(found)


def _but_for_none(make_loader, candidates, device):
    return _choosing(_smallest)(make_loader, [workers for workers in candidates if workers] or candidates, device)


_START = ("Your figure holds what happens once: workers that start, files that are read for the first time (which whoever "
          "is tried first pays for all). A training runs for hours. Let one whole epoch pass before you look at the clock.")
_ONE = ("One epoch in a few is slow because somebody else uses the host, and it was among those that you count. Time "
        "several, and take their median: a mean or a single epoch takes what it gets.")
_TIE = ("It is faster by one per cent, which is no difference: of all within 5 % of the fastest take the *smallest* "
        "number. Each worker takes memory, and a core from somebody.")
WORKERS_MISTAKES = (
    Mistake(best_workers, _START),
    Mistake(_choosing(_smallest, lambda epochs: epochs[0]), _START),
    Mistake(_choosing(_smallest, statistics.mean), _START),
    Mistake(_choosing(lambda times: min(times, key=times.get)), _TIE),
    Mistake(_choosing(_smallest, lambda epochs: epochs[1]), _ONE),
    Mistake(_choosing(_smallest, lambda epochs: statistics.mean(epochs[1:4])), _ONE),
    Mistake(_choosing(lambda times: next(n for n, ms in times.items() if ms <= WITHIN * min(times.values()))), (
        "That is the first of those within 5 % of the fastest, in the order that the candidates happen to be in. The "
        "smallest is wanted.")),
    Mistake(_choosing(lambda times: max(n for n, ms in times.items() if ms <= WITHIN * min(times.values()))), (
        "That is the largest of those within 5 % of the fastest. The smallest is wanted: each worker takes memory, and a "
        "core from somebody.")),
    Mistake(_choosing(_until_it_gets_worse), (
        "The search ends where the next number is no faster. One worker can be slower than none, as each batch has to be "
        "handed over, and four much faster: try all candidates.")),
    Mistake(lambda make_loader, candidates, device: max(candidates), (
        "That is the largest number. Beyond the host's cores more workers bring nothing, or take each other's time: "
        "measure.")),
    Mistake(lambda make_loader, candidates, device: min(candidates), (
        "That is the smallest number, however slow it is: those within 5 % of the fastest are asked for. (Did your clock "
        "move at all? A simulated GPU's host has a clock of its own: `clock_ms(device)`.)")),
    Mistake(_choosing(lambda times: max(times, key=times.get)), (
        "That is the slowest. (Or is your clock another than this host's? Read `clock_ms(device)`.)")),
    Mistake(_in_the_middle, (
        "That is the time between two batches in the middle of an epoch. Workers bring their batches in bursts, and after "
        "its first batches a short epoch has nothing left: time whole epochs, and compare what an *epoch* takes.")),
    Mistake(_a_few_batches, _START),
    Mistake(_but_for_none, (
        "No worker at all is a candidate too: where there is hardly any work, handing batches over costs more than it "
        "saves.")),
    Mistake(_first_batch, (
        "That is the time until the first batch. It holds the workers' start, and no worker is faster with one batch than "
        "another: time whole epochs.")),
)


def explain_workers(case: Case, found: dict, wanted: dict) -> str:
    """What is known of the case's loader: an epoch's time for each number."""
    times, candidates = times_of(case.options), sorted(case.options["candidates"])
    told = ", ".join(f"{workers}: {times.epoch_ms(workers)[-1]:.3g}" for workers in candidates)
    return ("Once its workers are there, and while nobody disturbs it, an epoch of this loader takes, in ms by the number "
            f"of workers, {told}. With {wanted[WORKERS]} it is within 5 % of the fastest, with no smaller number. Read the "
            "time with `clock_ms(device)`; a simulated GPU's host has a clock of its own.")
