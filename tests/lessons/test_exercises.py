"""Every exercise of every lesson: what right, slow and wrong functions get. ``answers/`` holds a module a lesson."""

import dataclasses
import importlib

import numpy as np
import pytest
import torch

from gapless.course.checks.waits import are_checked
from gapless.course.evidence import Plan
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import LocalStage
from gapless.course.variants import DTYPES
from gapless.lessons import LESSONS
from gapless.measure.device import device as choose_device

from .reference import inputs, runs, solution

EXERCISES = [(lesson.id, name) for lesson in LESSONS.values() for name in lesson.exercises]
ANSWERS = {lesson_id: importlib.import_module(f".answers.{lesson_id[3:]}", __package__) for lesson_id in LESSONS}
OTHER_ROUTES = [(lesson_id, name, function) for lesson_id, answers in ANSWERS.items()
                for name, functions in answers.OTHER_ROUTES.items() for function in functions]
WRONG = [(lesson_id, *wrong) for lesson_id, answers in ANSWERS.items() for wrong in answers.WRONG]


def grade(lesson_id, name, function, seed=3, device="vgpu:a10g", order=None):
    exercise, where = LESSONS[lesson_id].exercises[name], choose_device(device)
    plan, truth = inputs(lesson_id, name, seed, device)
    seen = gather(exercise, LocalStage(function, where, exercise.asked.ask), plan, where, name=device, order=order,
                  runs=runs(lesson_id, name, seed))
    verdicts = judge(exercise, plan, seen, truth)
    return {v.id.partition(".")[2]: v for v in verdicts}


def values(lesson_id, name, function, first=41):
    """The verdict on the values: on the ``first`` of the small inputs, on all of them, and on the larger ones too."""
    exercise = LESSONS[lesson_id].exercises[name]
    exercise = dataclasses.replace(exercise, measurement=None, checks=exercise.checks[:1])
    plan, truth = inputs(lesson_id, name)
    where = choose_device("vgpu:a10g")
    for count in (first, len(plan.cases)):  # most are found out early
        some = Plan(plan.cases[:count])
        seen = gather(exercise, LocalStage(function, where, exercise.asked.ask), some, where, name="vgpu:a10g")
        verdict, = judge(exercise, some, seen, truth)
        if verdict.outcome == "fail":
            return verdict
    return grade(lesson_id, name, function)["values"]


def outcomes(verdicts):
    return {check: verdict.outcome for check, verdict in verdicts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_solution_passes_every_check(lesson_id, name):
    verdicts = grade(lesson_id, name, solution(lesson_id)[name])
    assert set(outcomes(verdicts).values()) == {"pass"}, verdicts
    assert sum(v.earned for v in verdicts.values()) == LESSONS[lesson_id].exercises[name].max_points


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name, card", [(*each, ("t4", "h200")[i % 2]) for i, each in enumerate(EXERCISES)])
def test_solution_passes_on_other_cards(lesson_id, name, card):
    verdicts = grade(lesson_id, name, solution(lesson_id)[name], device=f"vgpu:{card}")
    assert set(outcomes(verdicts).values()) == {"pass"}, verdicts


@pytest.mark.parametrize("lesson_id, name", [
    pytest.param(*each, marks=pytest.mark.slow) if LESSONS[each[0]].exercises[each[1]].is_whole_run else each for each in EXERCISES])
def test_what_is_handed_out_runs_and_scores_nothing(lesson_id, name):
    exercise = LESSONS[lesson_id].exercises[name]
    verdicts = grade(lesson_id, name, exercise.slow)
    message = verdicts["values"].message
    assert "raised" not in message and ("The function that you were given has them right too" in message) == (exercise.right.function is None)
    assert set(outcomes(verdicts).values()) == {"fail"}


# Measured, with no check of waits, and a slow function that has none.
WITHOUT_WAITS = [(lesson.id, name) for lesson in LESSONS.values() for name, exercise in lesson.exercises.items()
                 if exercise.measurement is not None and not are_checked(exercise) and not exercise.is_whole_run
                 and name != "batches_of_few_shapes"]


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name", WITHOUT_WAITS)
def test_a_wait_costs_the_last_check_where_none_is_of_waits(lesson_id, name):
    def waiting(*arguments, **options):
        for _ in range(8):  # some are right: a scaler looks, a mask selects
            torch.ones((), device="vgpu").item()
        return whole(*arguments, **options)

    whole = solution(lesson_id)[name]
    *_, last = grade(lesson_id, name, waiting).values()
    assert last.outcome == "fail"
    assert "waits" in last.message or "before them" in last.message  # where it is called in what makes ready


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_verdicts_are_the_same_twice(lesson_id, name):
    slow = LESSONS[lesson_id].exercises[name].slow
    assert grade(lesson_id, name, slow) == grade(lesson_id, name, slow)


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name, function", OTHER_ROUTES, ids=lambda x: getattr(x, "__name__", x))
def test_right_answers_by_other_routes_score_full_marks(lesson_id, name, function):
    verdicts = grade(lesson_id, name, function)
    assert set(outcomes(verdicts).values()) == {"pass"}, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name, function, says", WRONG, ids=[f"{w[0]}-{w[1]}-{i}" for i, w in enumerate(WRONG)])
def test_wrong_answers_get_no_points_for_values_and_a_reason(lesson_id, name, function, says):
    verdict = values(lesson_id, name, function)
    assert verdict.outcome == "fail" and verdict.earned == 0
    assert says in verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_every_known_mistake_is_wrong_and_gets_the_cause_of_one_that_gives_the_same(lesson_id, name):
    exercise, unnamed = LESSONS[lesson_id].exercises[name], []
    for mistake in exercise.teaching.mistakes[::max(1, len(exercise.teaching.mistakes) // 20)]:  # of a hundred, some
        verdict = values(lesson_id, name, mistake.function, first=6)
        if "which tells no mistake from another" in verdict.message:
            continue  # it does not apply to every input, and says so
        if verdict.outcome != "fail" or not any(other.why in verdict.message for other in exercise.teaching.mistakes):
            unnamed.append((mistake.why, verdict.message))
    assert not unnamed


TENSOR_EXERCISES = [(lesson.id, name) for lesson in LESSONS.values() for name, exercise in lesson.exercises.items()
                    if exercise.asked.ask is None]


@pytest.mark.parametrize("lesson_id, name", TENSOR_EXERCISES)
def test_cases_hold_every_layout_and_dtype(lesson_id, name):
    cases = LESSONS[lesson_id].exercises[name].cases(0)
    assert {layout for case in cases for layout in case.layouts.values()} >= {"transposed", "strided"}
    kinds = {str(array.dtype) for case in cases for array in case.inputs.values() if array.dtype.kind == "f"}
    assert kinds in (set(), set(DTYPES)) or (name == "prepare" and kinds == {"float32", "float64"})


@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_every_exercise_has_wrong_answers_to_try(lesson_id, name):
    assert any(wrong[:2] == (lesson_id, name) for wrong in WRONG)


@pytest.mark.slow
@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_cases_differ_by_seed_and_repeat_with_it(lesson_id, name):
    def told(value):
        if isinstance(value, list):
            return [array.tobytes() for array in value]
        array = np.asarray(value)
        return repr(array.tolist()) if array.dtype == object else (array.dtype, array.shape, array.tobytes())

    def content(seed):
        plan = LESSONS[lesson_id].exercises[name].plan(seed)
        return [(case.name, {key: told(value) for key, value in case.inputs.items()}, repr(case.options))
                for case in (*plan.cases, *plan.trial)]

    assert content(5) == content(5) != content(6)


@pytest.mark.parametrize("lesson_id, name", EXERCISES)
def test_hints_come_in_three_stages_and_points_are_whole(lesson_id, name):
    exercise = LESSONS[lesson_id].exercises[name]
    assert exercise.name == name and len(exercise.teaching.hints) == 3 and all(hint.strip() for hint in exercise.teaching.hints)
    assert exercise.max_points == int(exercise.max_points) > 0
