"""What is seen of a function, before anybody judges it."""

import dataclasses
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.checks import StepTime, Values
from gapless.course.evidence import Case
from gapless.course.exercise import TRIAL_CALLS, Asked, Exercise, Measurement, Teaching, Trial
from gapless.course.gather import MEASURED, gather
from gapless.course.plain import difference
from gapless.course.stage import Given, LocalStage
from gapless.lessons import LESSONS, find_lesson

from ..parts import changed

VGPU = gapless.device("vgpu:a10g")
CASE = Case("one", {"x": np.array([1.0, -2.0, 3.0], np.float32)})


def cases(seed):
    return [CASE, Case("two", {"x": np.zeros(2, np.float32)})]


def trial_cases(rng, count):
    return [Case("trial", {"x": rng.normal(size=50).astype(np.float32)}) for _ in range(count)]


def full(device):
    x = torch.empty(10**6, device=device)
    return lambda: Given({"x": x})


EXERCISE = Exercise("e", lambda x: 2 * x, cases, (Values(2), StepTime(1, at_most=0.5)), Teaching(("a", "b", "c")),
                    measurement=Measurement(Trial(trial_cases), full))


@pytest.fixture(autouse=True)
def card():
    gapless.device("vgpu:a10g")


def gathered(function, exercise=EXERCISE, **options):
    return gather(exercise, LocalStage(function, VGPU, exercise.asked.ask), exercise.plan(1), VGPU, name="vgpu:a10g", **options)


def test_everything_there_is_to_see():
    found = gathered(lambda x: x + x)
    assert (found.exercise, found.device, found.device_name, found.simulated) == ("e", "vgpu:a10g", "NVIDIA A10G", True)
    assert [a.value.tolist() for a in found.answers] == [[2, -4, 6], [0, 0]]
    assert len(found.trial_answers) == TRIAL_CALLS
    for case, got in zip(EXERCISE.plan(1).trial, found.trial_answers):
        np.testing.assert_array_equal(got.value, 2 * case.inputs["x"])
    for measured in (found.full, found.trial):
        assert set(measured.runs) == {"before", "learner"} and measured.error is None
        assert measured.learner.report.kernels == measured.before.report.kernels == 1


@pytest.mark.parametrize("key", [id, lambda x: x.data_ptr()])
def test_the_last_call_is_in_the_tensors_of_another(key):
    kept, (first, second) = {}, EXERCISE.plan(1).trial[:2]
    found = gathered(lambda x: kept.setdefault(key(x), (x, 2 * x))[1]).again
    np.testing.assert_array_equal(found.value, 2 * first.inputs["x"])
    np.testing.assert_array_equal(gathered(lambda x: x + x).again.value, 2 * second.inputs["x"])


def test_the_slow_function_is_measured_again_where_that_is_asked_for():
    found = gathered(lambda x: x + x, again=True)
    assert set(found.full.runs) == set(found.trial.runs) == {"before", "learner", "after"}
    assert found.full.after.true_ms == found.full.before.true_ms


def test_runs_of_the_slow_function_and_the_best_that_are_kept_change_nothing_that_is_seen():
    calls = []

    def slow(x):
        calls.append("slow")
        return 2 * x + 0

    def best(x):
        calls.append("best")
        return x + x

    exercise, plan, runs = changed(EXERCISE, slow=slow, measurement__best=best), EXERCISE.plan(1), {}

    def seen(device="vgpu:a10g", **options):
        calls.clear()
        where = gapless.device(device)
        found = gather(exercise, LocalStage(lambda x: x.mul(2), where), plan, where, name=device, **options)
        return [(size.before.true_ms, size.best.true_ms, size.learner.true_ms, size.learner.report.kernels)
                for size in (found.full, found.trial)]

    fresh = seen()
    assert seen(runs=runs) == fresh and {"slow", "best"} == set(calls)
    assert seen(runs=runs) == fresh and not calls
    assert seen("vgpu:h200", runs=runs) != fresh and {"slow", "best"} == set(calls)
    assert seen(runs=runs, again=True) == fresh and {"slow", "best"} == set(calls)  # a real clock drifts: nothing is kept


def test_nothing_that_the_function_does_wrong_is_raised():
    def fails(x):
        if len(x) != 2:
            raise ValueError("not this")
        return x

    found = gathered(fails)
    assert [a.error for a in found.answers] == ["ValueError: not this", None]
    assert found.full.error == found.trial.error == "ValueError: not this" and found.full.learner is None
    assert found.trial_answers == []


@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_the_judges_to_choose_and_changes_nothing_that_is_seen(seed):
    sizes = []
    found = gathered(lambda x: (sizes.append(len(x)), 2 * x)[1], order=np.random.default_rng(seed))
    assert [a.case for a in found.answers] == ["one", "two"] and len(found.trial_answers) == TRIAL_CALLS
    assert found.full.learner.true_ms == gathered(lambda x: ([].append(len(x)), 2 * x)[1]).full.learner.true_ms
    begins = [size for i, size in enumerate(sizes) if i == 0 or sizes[i - 1] != size]
    assert sorted(begins) == [2, 3, 50, 10**6]


def test_orders_differ():
    def order_of(seed):
        sizes = []
        gathered(lambda x: (sizes.append(len(x)), 2 * x)[1], order=np.random.default_rng(seed))
        return tuple(dict.fromkeys(sizes))

    assert order_of(0) == order_of(0) and len({order_of(seed) for seed in range(6)}) > 1


def test_a_trial_is_on_the_slower_card_and_leaves_the_card_as_it_was():
    slow = changed(EXERCISE, measurement__trial=Trial(trial_cases, 10**6))
    before = vgpu.card()
    found, other = gathered(lambda x: 2 * x), gathered(lambda x: 2 * x, slow)
    assert other.trial.learner.true_ms > 2 * found.trial.learner.true_ms
    assert other.full.learner.true_ms == found.full.learner.true_ms
    assert vgpu.card() == before and vgpu.timeline().host_ns == 0


def later(function, given, device):
    """An ask that lets the function work once more when its answer is looked at."""
    yield
    found = function(given.inputs["x"])
    yield
    return {"mean": found() if callable(found) else found}


def test_what_is_put_off_until_the_answer_is_looked_at_is_timed_all_the_same():
    """Unless the slow function works there too."""
    quiet = changed(EXERCISE, slow=lambda x: x.mean(), asked__ask=later, measurement__full=None)
    now, put_off = gathered(lambda x: x.mean(), quiet), gathered(lambda x: lambda: x.mean(), quiet)
    assert now.trial.learner.report.kernels == put_off.trial.learner.report.kernels == 1
    call_ms = vgpu.card().host.python_call_ns / 1e6  # a function in a function is a call more
    assert now.trial.learner.true_ms <= put_off.trial.learner.true_ms <= now.trial.learner.true_ms + 2 * call_ms
    loud = dataclasses.replace(quiet, slow=lambda x: lambda: x.mean())
    found = gathered(lambda x: (x + 1, lambda: x.mean())[1], loud)
    assert found.trial.learner.report.kernels == 1 and len(found.trial_answers) == TRIAL_CALLS


def test_a_later_call_that_changes_an_earlier_answer_is_found_and_repairs_nothing():
    made = []

    def one_call_too_late(x):
        for earlier in made:
            earlier.copy_(2 * earlier)
        made[:] = [x.clone()]
        return made[0]

    case, (first, second, *_) = EXERCISE.plan(1).trial[1], gathered(one_call_too_late).trial_answers
    assert "a later call has overwritten" in first.unusable
    np.testing.assert_array_equal(second.value, case.inputs["x"])


def multiply(x):
    return torch.outer(x, x) @ torch.outer(x, x)


def multiply_in_tf32(x):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    return multiply(x)


@pytest.mark.parametrize("allowed", [False, True])
def test_tf32_is_faster_only_where_the_exercise_allows_it(allowed):
    exercise = changed(EXERCISE, slow=multiply, setting__precision=allowed, measurement__full=lambda device: lambda: Given({"x": torch.empty(2000, device=device)}))
    before = torch.backends.cuda.matmul.fp32_precision
    gapless.device("vgpu:a100")  # TF32 is no faster on an A10G
    try:
        measured = gathered(multiply_in_tf32, exercise).full
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert (measured.learner.true_ms < measured.before.true_ms) == allowed


def test_a_limit_on_memory_that_a_cell_has_set_is_its_own():
    def limited(x):
        torch.vgpu.set_per_process_memory_fraction(0.0)
        torch.empty(2**30, device=x.device)
        return 2 * x

    try:
        measured = gathered(limited, again=True).full
    finally:
        torch.vgpu.set_per_process_memory_fraction(1.0)
    assert "OutOfMemoryError" in measured.error and measured.before.true_ms == measured.after.true_ms > 0


def test_what_is_copied_before_the_calls_is_no_work():
    def prepares(work):
        def ask(function, given, device):
            for _ in range(3):
                work(given.inputs["x"])
            yield
            result = function(given.inputs["x"])
            yield
            return {"result": result}

        exercise = dataclasses.replace(EXERCISE, asked=Asked(ask=ask), measurement=Measurement(Trial(trial_cases)))
        plan = exercise.plan(1)
        return gather(exercise, LocalStage(exercise.slow, VGPU, ask), plan, VGPU).trial.learner.aside.kernels

    assert prepares(lambda x: x.clone()) == 0 < prepares(lambda x: x + 1)


@pytest.mark.parametrize("lesson, name", [
    ("04_data_loading", "to_device"),
    ("05_convolutions", "without_bias"), ("06_launch_overhead", "update_average"), ("07_kernel_fusion", "gelu"),
    ("08_memory", "train_epoch")])
def test_a_real_device_is_measured_with_a_stopwatch_and_pytorchs_profiler(lesson, name):
    """Here the CPU, which has the same way as CUDA. At full size it would take minutes."""
    cpu, exercise = torch.device("cpu"), find_lesson(lesson).exercises[name]
    exercise = dataclasses.replace(exercise, measurement=dataclasses.replace(exercise.measurement, full=None))
    stage = LocalStage(exercise.measurement.best or exercise.slow, cpu, exercise.asked.ask)
    evidence = gather(exercise, stage, exercise.plan(3), cpu, name="cpu")
    assert evidence.error is None and not any(answer.error for answer in [*evidence.answers, *evidence.trial_answers])
    found = evidence.trial.learner
    assert len(found.samples_ms) == MEASURED["blocks"] and found.true_ms > 0
    assert any(span.category == "python" for span in found.trace.spans)


def test_on_a_real_device_the_model_solution_is_measured_and_only_answers_that_are_read_are_kept():
    """A result that was kept would be memory that later calls take."""
    cpu, alive, most = torch.device("cpu"), weakref.WeakSet(), []

    def ask(function, given, device):
        yield
        result = function(given.inputs["x"])
        alive.add(result)
        most.append(len(alive))
        yield
        return {"result": result}

    exercise = dataclasses.replace(EXERCISE, asked=Asked(ask=ask), measurement=Measurement(Trial(trial_cases)))
    evidence = gather(exercise, LocalStage(exercise.slow, cpu, ask), exercise.plan(1), cpu, name="cpu", model=exercise.slow)
    assert sorted(evidence.trial.runs) == ["before", "learner", "model"]
    assert len(evidence.trial_answers) == len(exercise.plan(1).trial)
    assert most == [1] * (len(most) - 1) + [2]  # at last it is asked again, beside what it has answered before
    simulated = gather(exercise, LocalStage(exercise.slow, VGPU, ask), exercise.plan(1), VGPU, model=exercise.slow)
    assert simulated.trial.model is None


def test_all_of_a_call_whose_answer_is_read_is_exact_on_a_real_device(monkeypatch):
    """Its preparation too: a model may already compute there."""
    inside, seen = [], []

    @contextmanager
    def exact(device):
        inside.append(device)
        yield
        inside.pop()

    def ask(function, given, device):
        parts = [bool(inside)]
        yield
        result = function(given.inputs["x"])
        parts.append(bool(inside))
        yield
        seen.append([*parts, bool(inside)])
        return {"result": result}

    for module in ("answers", "gather"):
        monkeypatch.setattr(f"gapless.course.{module}.like_the_cpu", exact)
    exercise = dataclasses.replace(EXERCISE, asked=Asked(ask=ask), measurement=Measurement(Trial(trial_cases)))
    cpu, plan = torch.device("cpu"), exercise.plan(1)
    evidence = gather(exercise, LocalStage(exercise.slow, cpu, ask), plan, cpu, name="cpu")
    assert len(evidence.trial_answers) == len(plan.trial) and len(seen) > 2 * len(plan.trial)
    assert all(parts == [True] * 3 for parts in seen)


def test_every_measured_exercise_has_a_model_solution_and_it_is_measured_where_it_can_be():
    for lesson in LESSONS.values():
        for exercise in lesson.exercises.values():
            if exercise.measurement is not None:
                assert callable(exercise.model_solution(lesson.names())), exercise.name
    exercise, cpu = find_lesson("06_launch_overhead").exercises["update_average"], torch.device("cpu")
    model = exercise.model_solution(find_lesson("06_launch_overhead").names())
    assert model is exercise.model_solution({})  # made once
    evidence = gather(exercise, LocalStage(model, cpu, exercise.asked.ask), exercise.plan(1), cpu, name="cpu")
    expected = gather(exercise, LocalStage(exercise.slow, cpu, exercise.asked.ask), exercise.plan(1), cpu, name="cpu")
    for found, wanted in zip(evidence.answers, expected.answers):
        assert difference(found.plain, wanted.plain, 1e-4, 1e-5) is None

    def broken(*args):
        raise RuntimeError("no compiler")

    evidence = gather(exercise, LocalStage(exercise.slow, cpu, exercise.asked.ask), exercise.plan(1), cpu, name="cpu", model=broken)
    assert evidence.trial.model is None and evidence.trial.learner is not None
