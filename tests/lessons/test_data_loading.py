"""Lesson 04: what is right, against definitions written out; the programs; what goes wrong."""

import json
import multiprocessing
import os
import re
import signal
import statistics

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset

import gapless
from gapless import vgpu
from gapless.course.answers import answer
from gapless.course.stage import LocalStage
from gapless.evidence.traces.trace import Trace
from gapless.lessons import find_lesson, full_size
from gapless.lessons.data_loading import workload
from gapless.lessons.data_loading.best_workers.cases import workers_cases
from gapless.lessons.data_loading.best_workers.look import epochs_ms
from gapless.lessons.data_loading.best_workers.right import wanted_workers
from gapless.lessons.data_loading.best_workers.stage import WORKERS, Decoded, Times, declared_loader, loader_maker, times_of
from gapless.lessons.data_loading.input_bound import cases, look
from gapless.lessons.data_loading.input_bound.right import blocks_of, idle_share, right_input_bound, steps_time, work_of
from gapless.lessons.data_loading.input_bound.slow import input_bound
from gapless.lessons.data_loading.look import Watched, draw_epochs, draw_starts, watched
from gapless.lessons.data_loading.make_loader import slow
from gapless.lessons.data_loading.make_loader.look import augmentations
from gapless.lessons.data_loading.make_loader.stage import Augmented
from gapless.lessons.data_loading.prepare.slow import prepare

from .. import ROOT
from .answers import augmenting, prefetching
from .answers.data_loading import half_way
from .reference import solution
from .test_exercises import grade, outcomes

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

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
    evidence = gather(exercise, LocalStage(exercise.slow, device, exercise.asked.ask), exercise.plan(0), device)
    full, trial = (each.before.report.device_busy_ms - exercise.measurement.busy_ms for each in (evidence.full, evidence.trial))
    assert 0.5 < full / trial < 2


def test_four_programs_of_which_one_wants_batches():
    device = gapless.device("vgpu:a10g")
    idle, host, bound = ({number: share(trace) for number, trace in traces.items()} for traces in [
        {number: look.trace_of(number, device) for number in (1, 2, 3, 4)}] for share in (idle_share, input_bound, right_input_bound))
    assert all(idle[number] > 0.75 for number in (1, 3, 4)) and all(host[number] > 0.75 for number in (2, 3))
    assert [number for number in (1, 2, 3, 4) if bound[number] > 0.2] == [3]


def test_half_the_way_sends_half_the_bytes_and_is_told_so():
    verdicts = grade("04_data_loading", "prepare", half_way)
    assert verdicts["values"].outcome == "pass" and "The largest copies: HtoD 12.6 MB" in verdicts["bus_bytes"].message


class Broken(Dataset):
    def __init__(self, count, then):
        self.count, self.then = count, then

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.then(index)


def damaged(index):
    raise ValueError(f"file {index} is damaged")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("count, then, says", [
    (4, damaged, r"^the loader raised ValueError \(.*file 0 is damaged\): try the item by itself"),
    (0, damaged, "^the loader yields nothing: is the dataset empty"),
])
def test_a_loader_that_gives_nothing_says_so_in_one_line(workers, count, then, says):
    gapless.device("vgpu:a10g")
    with pytest.raises(workload.LoadingFailed, match=says) as raised:
        next(workload.endless(DataLoader(Broken(count, then), 2, num_workers=workers)))
    assert "\n" not in str(raised.value)


def killed(index):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_line_and_no_hang():
    gapless.device("vgpu:a10g")
    with pytest.raises(workload.LoadingFailed, match="a worker process has ended by itself"):
        next(workload.endless(DataLoader(Broken(4, killed), 2, num_workers=1)))


def test_an_epoch_is_drawn_beside_the_talks():
    figure = draw_epochs({workers: workload.Epoch(10.0 * workers, 400.0 / max(workers, 1)) for workers in (0, 1, 4)}, "an epoch")
    assert "4: 100 ms (40 before the first batch)" in figure.alt and "The talk's MNIST example, pinned: 1: 6.7 s, 4: 4.1 s" in figure.alt


def test_more_workers_are_not_better():
    device, epochs = gapless.device("vgpu:a10g"), {}
    for workers in (1, 4, 8):
        epochs[workers] = workload.epoch(device, workers, images=2048)
    assert epochs[4].ms < epochs[8].ms < epochs[1].ms
    assert epochs[4].first_ms < epochs[8].first_ms


def test_the_start_of_an_epoch_is_watched_without_taking_time():
    device = gapless.device("vgpu:a10g")
    seen, epoch = watched(device, workers=3, batches=4), workload.epoch(device, workers=3, images=4 * workload.BATCH)
    assert len(seen.starting) == 3 and [len(made) for made in seen.making] == [2, 1, 1]
    assert len(seen.waits) == len(seen.steps) == len(seen.gpu) == 4
    begins = [begin for begin, _ in seen.starting]
    assert begins == sorted(set(begins))  # one after another
    assert all(begin >= begins[-1] for made in seen.making for begin, _ in made)  # asked once all of them are made
    assert seen.waits[0][1] == pytest.approx(epoch.first_ms, abs=1)
    assert all(made[1] < come for (_, come), made in zip(seen.waits[::3], seen.making[0], strict=True))
    assert all(step[0] <= work[0] + 0.05 for step, work in zip(seen.steps, seen.gpu))
    assert all(before[1] <= after[0] for before, after in zip(seen.gpu, seen.gpu[1:]))


@pytest.mark.parametrize("known", [True, False])
def test_the_start_of_an_epoch_is_drawn_with_a_row_for_all_who_are_known(known):
    seen = Watched([(9, 27), (18, 36)] if known else [], [[(36, 95)], [(36, 96)]] if known else [],
                   [(0, 100), (101, 102)], [(100, 101), (102, 103)], [(100, 114), (114, 128)])
    figure = draw_starts({2: seen}, "an epoch")
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == (["worker 0", "worker 1"] if known else []) + ["main process", "GPU"]
    assert ("starts them one after another, until 18 ms; the last is ready at 36 ms" in figure.alt) is known
    assert "The first batch is there after 100 ms" in figure.alt and "2 steps are done after 128 ms" in figure.alt
    hatches = {bars.get_label(): bars.get_hatch() for bars in figure.axes[0].collections}
    told = [hatch for hatch in hatches.values() if hatch]
    assert len(hatches) == (6 if known else 3) and len(set(told)) == len(told) == len(hatches) - 2


def test_kept_records_are_what_is_simulated_today():
    lesson = find_lesson("04_data_loading")
    kept = {row["name"]: row for row in json.loads((ROOT / "records" / "simulated_a10g.json").read_text())["lessons"][lesson.id]}
    device = gapless.device("vgpu:a10g")
    programs = {program.name: program for program in lesson.programs(solution(lesson.id))}
    assert list(programs) == list(kept)
    for name in ("unoptimised", "bytes to the device"):
        with full_size(device):
            took = gapless.time_step(programs[name].make_step(device), steps=8, device=device)
        assert took.true_ms == pytest.approx(kept[name]["true_step_ms"], rel=0.02)


# -- loaders of declared times ------------------------------------------------------------------------


@pytest.fixture
def device():
    return vgpu.enable("a10g")


@pytest.fixture
def another_start():
    """A system whose processes are not forked unless one says so: Linux since Python 3.14."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("forkserver", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_declared_loader_takes_what_pytorchs_takes_on_the_modelled_host(device, workers):
    rows, times = 4, Times(batches=7, work_ms=20.0, nbytes=4 * 8)
    real = DataLoader(Decoded(times.batches * rows, 5.0, device), rows, num_workers=workers, persistent_workers=workers > 0)
    found = epochs_ms(real, device)[1:]
    del real
    assert epochs_ms(declared_loader(times, workers, device, set(), set()), device)[1:] == pytest.approx(found, rel=0.05)


def test_a_declared_loader_starts_its_workers_once_and_reads_files_once(device):
    times, read = Times(batches=4, work_ms=1.0, start_ms=10.0, cold_ms=2.0), set()
    first, second = (epochs_ms(declared_loader(times, 0, device, read, set()), device, 2) for _ in range(2))
    assert first == [4 + 8, 4] and second == [4, 4]
    started, later = epochs_ms(declared_loader(times, 2, device, read, set()), device, 2)
    assert started - later == pytest.approx(2 * 10)


def test_slow_epochs_come_as_declared(device):
    times = Times(batches=2, work_ms=1.0, disturbed=((0, 3.0),))
    assert epochs_ms(declared_loader(times, 0, device, set(), set()), device, 8) == [2, 6, 2, 2, 2, 6, 2, 2]


def test_candidates_differ_by_nothing_or_by_enough():
    """5 % is the border, and none is at it."""
    for seed in range(30):
        for case in workers_cases(seed):
            times = times_of(case.options)
            found = [times.epoch_ms(workers)[-1] for workers in case.options["candidates"]]
            ratios = [ms / min(found) for ms in found]
            assert all(ratio < 1.048 or ratio > 1.054 for ratio in ratios), (seed, case.name, ratios)


def test_on_the_clock_the_best_number_is_the_declared_one(device):
    for case in workers_cases(11):
        if "rows" not in case.options:
            maker, candidates = loader_maker(case.options, device, set()), case.options["candidates"]
            measured = {workers: statistics.median(epochs_ms(maker(workers), device, 6)[1:]) for workers in candidates}
            smallest = min(workers for workers, ms in measured.items() if ms <= 1.05 * min(measured.values()))
            assert smallest == wanted_workers(case)[WORKERS], case.name


def test_workers_are_forked_whatever_the_systems_default(device, another_start):
    """So a notebook's own functions may be the workers', and times are the same on every system."""
    loader = augmenting.loader()(Augmented(4, device), 2, 1)
    assert len(epochs_ms(loader, device, 1)) == 1 and workload.epoch(device, 1, images=256).first_ms < 100
    assert multiprocessing.get_start_method() == "forkserver"


# -- random numbers of workers ------------------------------------------------------------------------


def test_letters_tell_which_augmentations_are_alike(device):
    handed_out = augmentations(slow.make_loader(Augmented(8, device), 2, 2))
    assert handed_out.splitlines() == [f"epoch {epoch}, process {number}: A B C D" for epoch in (1, 2) for number in (1, 2)]
    letters = re.findall(r" ([A-Z])\b", augmentations(augmenting.loader()(Augmented(8, device), 2, 2)))
    assert sorted(letters) == list("ABCDEFGHIJKLMNOP")


def test_pytorch_seeds_numpys_own_generator_in_each_worker(device):
    """What the lesson says of it: only what a dataset holds repeats."""

    class Drawing(Augmented):
        def __getitem__(self, place):
            return torch.from_numpy(np.random.normal(size=(1, 2, 2))), place, os.getpid()

    letters = re.findall(r" ([A-Z])\b", augmentations(slow.make_loader(Drawing(8, device), 2, 2)))
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
    assert "only for this batch's copy" in verdicts["step_time"].message


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
    found = answer(exercise, LocalStage(all_first, device, exercise.asked.ask), case, device)
    assert "Hold one batch ready" in found.unusable
