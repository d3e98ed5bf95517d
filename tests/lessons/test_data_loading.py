"""Lesson 04: what is right, against definitions written out; the programs; what goes wrong."""

import os
import re
import statistics

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader

from gapless import vgpu
from gapless.course.gather import answer
from gapless.course.stage import LocalStage
from gapless.evidence.trace import Trace
from gapless.lessons import find_lesson
from gapless.lessons.data_loading import cases, functions
from gapless.lessons.data_loading.augmenting import Augmented
from gapless.lessons.data_loading.bound import blocks_of, right_input_bound, steps_time, work_of
from gapless.lessons.data_loading.cases_workers import workers_cases
from gapless.lessons.data_loading.declared_loader import DeclaredLoader, Times
from gapless.lessons.data_loading.functions import input_bound, prepare
from gapless.lessons.data_loading.measuring_workers import Decoded, Maker, forking, times_of
from gapless.lessons.data_loading.repeats import augmentations
from gapless.lessons.data_loading.right import right_best_workers
from gapless.measure.device import clock_ms

from .answers import augmenting, prefetching
from .test_exercises import grade, outcomes

TRACES = {case.name: Trace(case.options["events"]) for case in cases.input_bound_cases(5)}


def by_moments(trace, count=20_000):
    """The share, by looking at many moments."""
    start, end = steps_time(trace)
    spans = [[(s.start_us, s.end_us) for s in found] for found in (blocks_of(trace), work_of(trace))]
    moments = start + (torch.arange(count, dtype=torch.float64) + 0.5) / count * (end - start)
    inside = [sum(((moments >= a) & (moments < b)).long() for a, b in found) if found else torch.zeros(count) for found in spans]
    return float(((inside[0] > 0) & (inside[1] == 0)).double().mean())


@pytest.mark.parametrize("name", TRACES)
def test_input_bound_is_the_share_of_moments_in_which_a_block_is_open_and_nothing_runs(name):
    assert right_input_bound(TRACES[name]) == pytest.approx(by_moments(TRACES[name]), abs=2e-3)


def test_input_bound_tells_its_cause_from_others():
    share = {name: right_input_bound(trace) for name, trace in TRACES.items()}
    assert share[cases.SLOW] > 0.5 and share[cases.NO_BLOCKS] == 0
    assert share[cases.LAUNCH_BOUND] < 0.1 and share[cases.WAIT_BOUND] < 0.25 and share[cases.HIDDEN] < 0.35
    assert input_bound(TRACES[cases.HIDDEN]) > share[cases.HIDDEN] + 0.1  # the host was in the loader all the same


def test_prepare_as_handed_out_is_torchvisions_normalisation():
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    images, mean, std = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8), torch.rand(3), torch.rand(3) + 0.1
    wanted = functional.normalize(functional.to_dtype(images, torch.float32, scale=True), mean.tolist(), std.tolist())
    torch.testing.assert_close(prepare(images, mean, std), wanted)


@pytest.mark.parametrize("name", ["to_device", "prepare"])
@pytest.mark.parametrize("card", ["t4", "a10g", "h200"])
def test_a_trial_keeps_the_device_about_as_busy_as_full_size(name, card):
    from gapless.course.gather import gather
    from gapless.course.stage import LocalStage
    from gapless.measure.device import device as find_device

    exercise, device = find_lesson("04_data_loading").exercises[name], find_device(f"vgpu:{card}")
    evidence = gather(exercise, LocalStage(exercise.slow, device, exercise.ask), exercise.plan(0), device)
    full, trial = (each.before.report.device_busy_ms - exercise.busy_ms for each in (evidence.full, evidence.trial))
    assert 0.5 < full / trial < 2


# -- loaders of declared times ------------------------------------------------------------------------


@pytest.fixture
def device():
    return vgpu.enable("a10g")


def epochs_ms(loader, device, count=3):
    found = []
    for _ in range(count):
        start = clock_ms(device)
        assert len(list(loader)) == len(loader)
        found.append(clock_ms(device) - start)
    return found


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_declared_loader_takes_what_pytorchs_takes_on_the_modelled_host(device, workers):
    rows, times = 4, Times(batches=7, work_ms=20.0, nbytes=4 * 8)
    with forking():
        real = DataLoader(Decoded(times.batches * rows, 5.0, device), rows, num_workers=workers, persistent_workers=workers > 0)
        found = epochs_ms(real, device)[1:]
        del real
    assert epochs_ms(DeclaredLoader(times, workers, device, set()), device)[1:] == pytest.approx(found, rel=0.05)


def test_a_declared_loader_starts_its_workers_once_and_reads_files_once(device):
    times, read = Times(batches=4, work_ms=1.0, start_ms=10.0, cold_ms=2.0), set()
    first, second = (epochs_ms(DeclaredLoader(times, 0, device, read), device, 2) for _ in range(2))
    assert first == [4 + 8, 4] and second == [4, 4]
    started, later = epochs_ms(DeclaredLoader(times, 2, device, read), device, 2)
    assert started - later == pytest.approx(2 * 10)


def test_slow_epochs_come_as_declared(device):
    times = Times(batches=2, work_ms=1.0, slow_every=4, slow=3.0, slow_first=((0, 1),))
    assert epochs_ms(DeclaredLoader(times, 0, device, set()), device, 8) == [2, 2, 6, 2, 2, 2, 6, 2]


def test_candidates_differ_by_nothing_or_by_enough():
    """5 % is the border: who takes 4 or 7 % is right as well."""
    for seed in range(30):
        for case in workers_cases(seed):
            times = times_of(case.options)
            found = [times.epoch_ms(workers)[-1] for workers in case.options["candidates"]]
            ratios = [ms / min(found) for ms in found]
            assert all(ratio < 1.03 or ratio > 1.08 for ratio in ratios), (seed, case.name, ratios)


def test_on_the_clock_the_best_number_is_the_declared_one(device):
    for case in workers_cases(11):
        if "rows" not in case.options:
            maker, candidates = Maker(case.options, device), case.options["candidates"]
            measured = {workers: statistics.median(epochs_ms(maker(workers), device, 6)[1:]) for workers in candidates}
            smallest = min(workers for workers, ms in measured.items() if ms <= 1.05 * min(measured.values()))
            assert smallest == right_best_workers(maker, candidates, device), case.name


# -- random numbers of workers ------------------------------------------------------------------------


def test_letters_tell_which_augmentations_are_alike(device):
    handed_out = augmentations(functions.make_loader(Augmented(8, device), 2, 2))
    assert handed_out.splitlines() == [f"epoch {epoch}, process {number}: A B C D" for epoch in (1, 2) for number in (1, 2)]
    letters = re.findall(r" ([A-Z])\b", augmentations(augmenting.loader()(Augmented(8, device), 2, 2)))
    assert sorted(letters) == list("ABCDEFGHIJKLMNOP")


def test_pytorch_seeds_numpys_own_generator_in_each_worker(device):
    """What the lesson says of it: only what a dataset holds repeats."""

    class Drawing(Augmented):
        def __getitem__(self, place):
            return torch.from_numpy(np.random.normal(size=(1, 2, 2))), place, os.getpid()

    letters = re.findall(r" ([A-Z])\b", augmentations(functions.make_loader(Drawing(8, device), 2, 2)))
    assert len(set(letters)) == 16


# -- prefetch -----------------------------------------------------------------------------------------


def on_the_same_stream(loader, device):
    for batch in loader:
        yield prefetching.copied(batch, device)


def only_when_asked(loader, device):
    """On a stream of its own, and too late for a loop that reads its loss."""
    side = torch.Stream(device)
    for batch in loader:
        with side:
            batch = prefetching.copied(batch, device)
        prefetching.current().wait_stream(side)
        prefetching.kept(batch, prefetching.current())
        yield batch


@pytest.mark.parametrize("function", [on_the_same_stream, only_when_asked, prefetching.wrong(event=False)])
def test_copies_that_do_not_run_beside_the_kernels_cost_the_points_for_time_and_no_others(function):
    verdicts = grade("04_data_loading", "prefetch", function)
    assert outcomes(verdicts) == {"values": "pass", "syncs": "pass", "step_time": "fail"}
    assert "this batch's copy alone" in verdicts["step_time"].message


def test_a_batch_that_is_not_pinned_is_named_as_the_cause_of_waits():
    def without_pinning(loader, device):
        for batch in loader:
            yield tree_map(lambda value: value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) else value, batch)

    verdicts = grade("04_data_loading", "prefetch", without_pinning)
    assert verdicts["syncs"].outcome == "fail" and "`is_pinned`" in verdicts["syncs"].message


def test_an_endless_loader_is_no_hang():
    def all_first(loader, device):
        yield from [prefetching.copied(batch, device) for batch in loader]

    exercise = find_lesson("04_data_loading").exercises["prefetch"]
    case, = (case for case in exercise.cases(0) if case.options.get("endless"))
    device = vgpu.enable("a10g")
    found = answer(exercise, LocalStage(all_first, device, exercise.ask), case, device)
    assert "Hold one batch ready" in found.unusable
