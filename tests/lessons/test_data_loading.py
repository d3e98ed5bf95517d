"""Lesson 04: what is right, against definitions written out; the programs; what goes wrong."""

import pytest
import torch

from gapless.evidence.trace import Trace
from gapless.lessons import find_lesson
from gapless.lessons.data_loading import cases
from gapless.lessons.data_loading.bound import blocks_of, right_input_bound, steps_time, work_of
from gapless.lessons.data_loading.functions import input_bound, prepare

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
