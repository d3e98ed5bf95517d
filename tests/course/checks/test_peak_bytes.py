"""The check of what a step takes of the memory at most."""


import numpy as np
import pytest
import torch

from gapless.course.checks import PeakBytes, Values
from gapless.course.checks.peak_bytes import size_in_words
from gapless.course.evidence import Case, Evidence
from gapless.course.exercise import Exercise, Measurement, Teaching, Trial
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import Given, LocalStage
from gapless.measure.device import device as choose_device

from ...parts import changed


def slow(x):
    parts = [x.exp(), x.cos(), x.sin(), x.abs()]
    return torch.stack(parts).sum(0)


def one_after_the_other(x):
    total = x.exp()
    for function in (torch.cos, torch.sin, torch.abs):
        total = total + function(x)
    return total


def in_one_place(x):
    return x.exp().add_(x.cos()).add_(x.sin()).add_(x.abs())


def beginning_anew(x):
    result = slow(x)
    torch.vgpu.reset_peak_memory_stats()
    return result


def cases(rng, count):
    return [Case("x", {"x": rng.normal(size=20_000).astype(np.float32)}) for _ in range(count)]


EXERCISE = Exercise("add", slow, lambda seed: cases(np.random.default_rng(seed), 2), (Values(1), PeakBytes(1, at_most=0.4)),
                    Teaching(("a", "b", "c")), measurement=Measurement(
                        Trial(cases, slowdown=100), full=lambda device: lambda: Given({"x": torch.zeros(10**7, device=device)})))


def gathered(function):
    plan, device = EXERCISE.plan(3), choose_device("vgpu:a10g")
    return plan, gather(EXERCISE, LocalStage(function, device), plan, device, name="vgpu:a10g")


@pytest.mark.parametrize("function, outcomes, says", [
    (in_one_place, ["pass", "pass"], "A step takes 76.3 MiB of the device's memory at most (slow: 343 MiB; target: at most"),
    (one_after_the_other, ["pass", "pass"], "114 MiB"),
    (slow, ["fail", "fail"], "checks/test_peak_bytes.py:21: `parts = [x.exp(), x.cos(), x.sin(), x.abs()]`"),
    (beginning_anew, ["fail", "fail"], "343 MiB of the device's memory at most"),
])
def test_what_a_call_takes_is_held_against_the_slow_function(function, outcomes, says):
    verdicts = judge(EXERCISE, *gathered(function))
    assert [verdict.outcome for verdict in verdicts] == outcomes
    assert says in verdicts[1].message


def test_small_at_full_size_alone_is_not_enough():
    def by_size(x):
        return in_one_place(x) if x.numel() > 10**6 else slow(x)

    verdict = judge(EXERCISE, *gathered(by_size))[1]
    assert verdict.outcome == "fail" and "It meets the target at the article's size" in verdict.message


def test_a_peak_survives_the_way_to_the_judge(tmp_path):
    _, evidence = gathered(in_one_place)
    evidence.save(tmp_path)
    assert Evidence.load(tmp_path).full.learner.peak_bytes == evidence.full.learner.peak_bytes > 0


def test_an_exercise_may_say_what_to_try():
    exercise = changed(EXERCISE, checks=(Values(1), PeakBytes(1, at_most=0.4, advice="Add as you go.")))
    plan, evidence = gathered(slow)
    assert judge(exercise, plan, evidence)[1].message.endswith("Add as you go.")


@pytest.mark.parametrize("nbytes, words", [(0, "0 bytes"), (1536, "1.5 KiB"), (5 * 2**20, "5 MiB"), (2.5 * 2**30, "2.5 GiB")])
def test_sizes_in_words(nbytes, words):
    assert size_in_words(nbytes) == words
