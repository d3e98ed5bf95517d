"""What an exercise is made of: plans, trials on slower cards, the article's size."""

import gc
import re
import weakref

import nbformat
import numpy as np
import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.checks import StepTime, Values
from gapless.course.evidence import Case
from gapless.course.exercise import TRIAL_CALLS, Exercise, Lesson, Measurement, Teaching, Trial, full_size
from gapless.lessons import LESSONS

from .. import ROOT


def cases(seed):
    return [Case("one", {"x": np.random.default_rng(seed).normal(size=3)})]


def trial_cases(rng, count):
    length = int(rng.integers(3, 100))
    return [Case("trial", {"x": rng.normal(size=length)}) for _ in range(count)]


def exercise(**options):
    return Exercise("e", lambda x: x, cases, **{"checks": (Values(2), StepTime(1, at_most=0.5)), "teaching": Teaching(("a", "b", "c")),
                                                "measurement": Measurement(Trial(trial_cases)), **options})


def test_a_plan_repeats_with_its_seed_and_differs_without():
    def content(seed):
        plan = exercise().plan(seed)
        return [case.inputs["x"].tobytes() for case in (*plan.cases, *plan.trial)]

    assert content(1) == content(1) and not set(content(1)) & set(content(2))
    plan = exercise().plan(1)
    assert len(plan.trial) == TRIAL_CALLS and len({case.inputs["x"].shape for case in plan.trial}) == 1


@pytest.mark.parametrize("options", [{"measurement": None}, {"checks": (StepTime(1, at_most=0.5), Values(2))}])
def test_without_a_measurement_only_values_can_be_checked_and_they_come_first(options):
    with pytest.raises(ValueError, match="e: step_time can be checked with a measurement only, and after the values"):
        exercise(**options)
    assert exercise(measurement=None, checks=(Values(2),)).plan(0).trial == []


def test_raises_when_two_checks_have_one_name():
    with pytest.raises(ValueError, match="e: each check has a name of its own, not values, values"):
        exercise(checks=(Values(2), Values(1)))


def test_points_are_those_of_its_checks():
    assert exercise().max_points == 3
    assert Lesson("00_x", "X", {"e": exercise(), "f": exercise(checks=(Values(4),))}, dict).max_points == 7


@pytest.mark.parametrize("slowdown, times", [(10.0, 10), (lambda card: card.memory_bytes / 2**30, vgpu.CARDS["t4"].memory_bytes / 2**30)])
def test_a_trial_runs_on_a_slower_card(slowdown, times):
    card = vgpu.CARDS["t4"]
    slow = Trial(trial_cases, slowdown).card(card)
    assert slow.bandwidth_bytes_per_s == pytest.approx(card.bandwidth_bytes_per_s / times)
    assert slow.peak_flops["float32"] == pytest.approx(card.peak_flops["float32"] / times)


def test_tensors_at_full_size_have_no_values_on_the_virtual_gpu_only():
    device = gapless.device("vgpu")
    with full_size(device):
        assert vgpu.is_shape_only() and torch.ones(3, device=device).within.is_meta
    assert not vgpu.is_shape_only()
    with full_size(torch.device("cpu")):
        assert not vgpu.is_shape_only()


def test_an_error_at_full_size_lets_go_of_its_tensors():
    device, seen = gapless.device("vgpu"), []

    def step():
        x = torch.ones(3, device=device)
        seen.append(weakref.ref(x))
        try:
            x.nothing
        except AttributeError as error:
            raise ValueError("no") from error

    with pytest.raises(ValueError, match="no") as kept, full_size(device):
        step()
    gc.collect()
    assert kept.value.__cause__ is not None and seen[0]() is None


def test_a_missing_package_is_named_with_what_to_do():
    lesson = Lesson("00_x", "X", {}, dict, packages=("torch", "no_such_package"))
    with pytest.raises(ModuleNotFoundError, match="00_x needs no_such_package, missing here: pip install no_such_package"):
        lesson.require_packages()
    Lesson("00_x", "X", {}, dict, packages=("torch",)).require_packages()


@pytest.mark.parametrize("lesson_id, name", [(lesson.id, name) for lesson in LESSONS.values() for name in lesson.exercises])
def test_the_code_of_an_annotated_solution_is_that_of_the_source_notebook_and_remarks_follow(lesson_id, name):
    notebook = nbformat.read(ROOT / "solutions" / lesson_id / f"{lesson_id}.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if cell.id == name)
    solved, = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.S)
    text = LESSONS[lesson_id].exercises[name].annotated_solution()
    shown, = re.findall(r"```python\n(.*?)```", text, re.S)
    assert shown.strip() == solved.strip()
    assert 3 <= len(re.findall(r"^[-*] ", text.rpartition("```")[2], re.M)) <= 8
