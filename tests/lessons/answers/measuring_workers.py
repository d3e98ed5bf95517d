"""Lesson 04, `best_workers`: right answers by other routes, and wrong ones."""

import statistics
import time
from itertools import islice

from gapless.measure.device import clock_ms


def epoch_ms(loader, device):
    start = clock_ms(device)
    for _ in loader:
        pass
    return clock_ms(device) - start


def smallest(times, share=1.05):
    return min(workers for workers, ms in times.items() if ms <= share * min(times.values()))


# -- right --------------------------------------------------------------------------------------------


def in_turns(make_loader, candidates, device):
    """All loaders beside each other, an epoch of each in turn."""
    loaders = {workers: make_loader(workers) for workers in candidates}
    rounds = [{workers: epoch_ms(loader, device) for workers, loader in loaders.items()} for _ in range(6)]
    return smallest({workers: statistics.median(each[workers] for each in rounds[1:]) for workers in candidates})


def shortest(make_loader, candidates, device):
    times = {}
    for workers in candidates:
        loader = make_loader(workers)
        times[workers] = min(epoch_ms(loader, device) for _ in range(4))
    return smallest(times)


def lower_medians(make_loader, candidates, device):
    """Lower medians of as many epochs as make 40 batches; the first in order that is near the best."""
    times = {}
    for workers in sorted(candidates):
        loader = make_loader(workers)
        epoch_ms(loader, device)
        count = max(5, -(-40 // len(loader)))
        times[workers] = statistics.median_low(epoch_ms(loader, device) for _ in range(count))
    return next(workers for workers, ms in times.items() if ms <= 1.05 * min(times.values()))


# -- wrong --------------------------------------------------------------------------------------------


def measured(choose=smallest, figure=lambda epochs: statistics.median(epochs[1:]), epochs=5):
    def best_workers(make_loader, candidates, device):
        times = {}
        for workers in candidates:
            loader = make_loader(workers)
            times[workers] = figure([epoch_ms(loader, device) for _ in range(epochs)])
        return choose(times)

    return best_workers


def without_zero(make_loader, candidates, device):
    return measured()(make_loader, [workers for workers in candidates if workers] or candidates, device)


def some_batches(make_loader, candidates, device):
    """Ten batches, after five to warm up: all in the first epoch."""
    times = {}
    for workers in candidates:
        batches = iter(make_loader(workers))
        list(islice(batches, 5))
        start = clock_ms(device)
        count = len(list(islice(batches, 10)))
        times[workers] = (clock_ms(device) - start) / max(count, 1)
    return smallest(times)


def another_clock(make_loader, candidates, device):
    times = {}
    for workers in sorted(candidates):
        loader = make_loader(workers)
        start = time.process_time()
        for _ in loader:
            pass
        times[workers] = (time.process_time() - start) // 3600
    return smallest(times)


def read_from_the_maker(make_loader, candidates, device):
    """Hostile: measures nothing."""
    return smallest({workers: make_loader.times.epoch_ms(workers)[-1] for workers in candidates})


def guessed(make_loader, candidates, device):
    """Right of some, by luck."""
    return sorted(candidates)[len(candidates) // 2]


def best_so_far(times):
    """A larger number has to beat the best before it by 5 %."""
    best = None
    for workers in sorted(times):
        if best is None or 1.05 * times[workers] < times[best]:
            best = workers
    return best


OTHER_ROUTES = {"best_workers": [in_turns, shortest, lower_medians]}

WRONG = [
    ("best_workers", measured(best_so_far), "with the fastest of all"),
    ("best_workers", measured(figure=lambda epochs: epochs[0]), "Let one whole epoch pass"),
    ("best_workers", measured(figure=statistics.mean), "Let one whole epoch pass"),
    ("best_workers", some_batches, "by whole epochs: a few batches"),
    ("best_workers", measured(choose=lambda times: min(times, key=times.get)), "means nothing"),
    ("best_workers", measured(figure=lambda epochs: epochs[1]), "take their median"),
    ("best_workers", measured(figure=lambda epochs: statistics.mean(epochs[1:4])), "take their median"),
    ("best_workers", measured(choose=lambda times: next(n for n, ms in times.items() if ms <= 1.05 * min(times.values()))),
     "in the order of the candidates"),
    ("best_workers", measured(epochs=10, figure=lambda epochs: statistics.mean(epochs[1:])), "take their median"),
    ("best_workers", measured(figure=lambda epochs: max(epochs[1:])), "take their median"),
    ("best_workers", lambda make_loader, candidates, device: max(candidates), "has taken no whole epoch"),
    ("best_workers", lambda make_loader, candidates, device: min(candidates), "has taken no whole epoch"),
    ("best_workers", lambda make_loader, candidates, device: 4, "has taken no whole epoch"),
    ("best_workers", without_zero, "from the loader with 0 workers"),
    ("best_workers", measured(choose=lambda times: min(times.values())), "One of the candidates"),
    ("best_workers", measured(choose=lambda times: None), "is there a `return`?"),
    ("best_workers", another_clock, "Did your clock move at all?"),
    ("best_workers", read_from_the_maker, "has no attribute 'times'"),
    ("best_workers", guessed, "has taken no whole epoch"),
    ("best_workers", lambda make_loader, candidates, device: make_loader(99), "none of the candidates"),
    ("best_workers", measured(figure=statistics.median, epochs=3), "Leave out the first"),
]
