"""Lesson 04: what is right, against definitions written out; the programs; what goes wrong."""

import json
import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import gapless
from gapless.evidence.trace import Trace
from gapless.lessons import find_lesson, full_size
from gapless.lessons.data_loading import cases, idle_programs, workload
from gapless.lessons.data_loading.bound import blocks_of, idle_share, right_input_bound, steps_time, work_of
from gapless.lessons.data_loading.functions import input_bound, prepare
from gapless.lessons.data_loading.picture import draw_epochs

from .. import ROOT

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


def test_four_programs_of_which_one_wants_batches():
    device = gapless.device("vgpu:a10g")
    idle, host, bound = ({number: share(trace) for number, trace in traces.items()} for traces in [
        {number: idle_programs.trace_of(number, device) for number in (1, 2, 3, 4)}] for share in (idle_share, input_bound, right_input_bound))
    assert all(idle[number] > 0.75 for number in (1, 3, 4)) and all(host[number] > 0.75 for number in (2, 3))
    assert [number for number in (1, 2, 3, 4) if bound[number] > 0.2] == [3]


def test_half_the_way_sends_half_the_bytes_and_is_told_so():
    from .answers.data_loading import half_way
    from .test_exercises import grade

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


def test_kept_records_are_what_is_simulated_today():
    from .reference import solution

    lesson = find_lesson("04_data_loading")
    kept = {row["name"]: row for row in json.loads((ROOT / "records" / "simulated_a10g.json").read_text())["lessons"][lesson.id]}
    device = gapless.device("vgpu:a10g")
    programs = {program.name: program for program in lesson.programs(solution(lesson.id))}
    assert list(programs) == list(kept)
    for name in ("as first written", "bytes to the device"):
        with full_size(device):
            took = gapless.time_step(programs[name].make_step(device), steps=8, device=device)
        assert took.true_ms == pytest.approx(kept[name]["true_step_ms"], rel=0.02)
