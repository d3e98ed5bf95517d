"""gather and judge together: what right, slow, wrong and dishonest functions get."""

import dataclasses
import inspect
import itertools
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu
from gapless.course.checks import BusBytes, StepTime, Values, Waits
from gapless.course.evidence import Case, Evidence
from gapless.course.exercise import TRIAL_CALLS, Asked, Exercise, Measurement, Right, Teaching, Trial
from gapless.course.gather import gather
from gapless.course.judge import is_handed_out, judge
from gapless.course.stage import Given, LocalStage
from gapless.lessons import LESSONS
from gapless.lessons.masked_loss.sparse_head_loss.cases import HEAD_SIZE
from gapless.lessons.masked_loss.stage import BACKGROUND, IGNORE
from gapless.measure.device import device as choose_device

from ..lessons.reference import solution
from ..parts import changed

LESSON = LESSONS["02_masked_loss"]


@pytest.fixture
def solutions():
    return solution(LESSON.id)


def gathered(exercise, function, seed=3, device="vgpu:a10g", **options):
    """(exercise, plan, evidence): what :func:`judge` is given."""
    plan, where = exercise.plan(seed), choose_device(device)
    return exercise, plan, gather(exercise, LocalStage(function, where, exercise.asked.ask), plan, where, name=device, **options)


def grade(name, function, **options):
    return {v.id.partition(".")[2]: v for v in judge(*gathered(LESSON.exercises[name], function, **options))}


def outcomes(verdicts):
    return {check: verdict.outcome for check, verdict in verdicts.items()}


def test_an_object_that_equals_everything_is_no_tensor():
    class Everything:
        def __eq__(self, other):
            return True

        def __getattr__(self, name):
            return self

    assert "return a tensor" in grade("ignore_background", lambda target: Everything())["values"].message


@pytest.mark.slow
def test_work_moved_to_the_cpu_fails_waits_and_time():
    def on_the_host(target):
        host = target.cpu()
        return torch.where(host == BACKGROUND, IGNORE, host).to(target.device)

    verdicts = grade("ignore_background", on_the_host)
    assert set(outcomes(verdicts).values()) == {"fail"}  # right as what was handed out, and no better
    assert verdicts["values"].message.startswith("Same value") and "count once yours waits less" in verdicts["values"].message

    def head_on_the_host(hidden, head, target, max_valid):
        valid = (target != IGNORE).cpu()
        return F.cross_entropy(hidden.cpu()[valid] @ head.cpu().T, target.cpu()[valid]).to(hidden.device)

    verdict = grade("sparse_head_loss", head_on_the_host)["step_time"]
    assert verdict.outcome == "fail" and "copied from the device to the host" in verdict.message


@pytest.mark.slow
def test_doing_less_when_measured_is_found_out():
    def lazy(hidden, head, target, max_valid):
        if hidden.shape[0] >= HEAD_SIZE.rows:
            return hidden.sum() * 0 + head.sum() * 0
        valid = target != IGNORE
        return F.cross_entropy(hidden[valid] @ head.T, target[valid])

    verdict = grade("sparse_head_loss", lazy)["step_time"]
    assert verdict.outcome == "fail" and "does less than where its values are checked" in verdict.message


@pytest.mark.slow
def test_doing_less_in_the_calls_that_are_not_profiled_is_found_out():
    good = solution("02_masked_loss")["sparse_head_loss"]

    def shy(hidden, head, target, max_valid):
        if hidden.shape[0] >= HEAD_SIZE.rows and vgpu.timeline().recording is None:
            return hidden.sum() * 0 + head.sum() * 0
        return good(hidden, head, target, max_valid)

    verdict = grade("sparse_head_loss", shy)["step_time"]
    assert verdict.outcome == "fail" and "does less than where its values are checked" in verdict.message


def test_being_right_only_on_the_small_inputs_is_found_out():
    def by_size(target):
        return torch.where(target == BACKGROUND, IGNORE, target) if target.numel() < 1000 else target.clone()

    verdicts = grade("ignore_background", by_size)
    assert set(outcomes(verdicts).values()) == {"fail"}
    assert "depends on the size of its input, or counts its calls" in verdicts["values"].message
    assert verdicts["syncs"].message == "Not counted before the values are right."


def test_being_right_only_on_the_first_calls_is_found_out():
    calls = []

    def counts(target):
        calls.append(None)
        return torch.where(target == BACKGROUND, IGNORE, target) if len(calls) < 18 else target.clone()

    assert "counts its calls" in grade("ignore_background", counts)["values"].message


def test_an_answer_remembered_by_its_shape_is_found_out():
    known = {}

    def remembers(target):
        if target.shape not in known or target.numel() < 1000:
            known[target.shape] = torch.where(target == BACKGROUND, IGNORE, target)
        return known[target.shape]

    assert "call 2 gave the answer of call 1" in grade("ignore_background", remembers)["values"].message


def test_being_slow_where_values_are_checked_is_found_out():
    """Fast and wrong only at the article's size, where no value can be seen."""
    def by_size(target):
        if 2000 < target.numel() < 10**6:
            target = target.clone()
            target[torch.nonzero(target == BACKGROUND, as_tuple=True)] = IGNORE
            return target
        return torch.where(target == BACKGROUND, IGNORE, target)

    verdicts = grade("ignore_background", by_size)
    assert set(outcomes(verdicts).values()) == {"fail"}  # to be better it has to be so at both sizes
    assert "meets the target at the article's size" in verdicts["syncs"].message


def test_a_wait_on_a_small_input_is_found_out():
    def on_some_inputs(target):
        if target.is_contiguous():
            return torch.where(target == BACKGROUND, IGNORE, target)
        target = target.clone()
        target[torch.nonzero(target == BACKGROUND, as_tuple=True)] = IGNORE
        return target

    verdicts = grade("ignore_background", on_some_inputs)
    assert outcomes(verdicts) == {"values": "pass", "syncs": "fail", "host_time": "pass"}
    assert re.search(r'on the input ".*" there are 2 waits, and none may be: such as `to` at', verdicts["syncs"].message)


def test_an_input_overwritten_is_wrong_unless_the_slow_function_does_it_too():
    def overwrites(pred, target):
        loss = F.cross_entropy(pred, target.clone(), ignore_index=IGNORE)
        target.zero_()
        return loss

    assert "overwritten its input `target`" in grade("masked_cross_entropy", overwrites)["values"].message
    in_place = grade("ignore_background", lambda target: target.masked_fill_(target == BACKGROUND, IGNORE))
    assert set(outcomes(in_place).values()) == {"pass"}


def floats_over_the_bus(images, mean):
    return images.float().to(mean.device) - mean


@pytest.fixture(scope="module")
def sends_images():
    """An exercise whose slow function sends four bytes for each that it was given."""
    def cases(seed):
        return [Case("images", {"images": np.arange(200, dtype=np.uint8), "mean": np.ones(1, np.float32)}, on_host={"images": "pinned"})]

    def full(device):
        images, mean = torch.zeros(10**6, dtype=torch.uint8).pin_memory(), torch.ones(1, device=device)
        return lambda: Given({"images": images, "mean": mean})

    trial = Trial(lambda rng, count: [Case("images", {"images": rng.integers(0, 256, 5000).astype(np.uint8), "mean": np.ones(1, np.float32)},
                                           on_host={"images": "pinned"}) for _ in range(count)], slowdown=200)
    return Exercise("send", floats_over_the_bus, cases, (Values(1), BusBytes(1, at_most=0.3)), Teaching(("a", "b", "c")),
                    measurement=Measurement(trial, full))


def test_what_goes_over_the_bus_is_counted(sends_images):
    def bytes_over_the_bus(images, mean):
        return images.to(mean.device).float() - mean

    def half_way(images, mean):
        return images.half().to(mean.device).float() - mean

    verdicts = {function.__name__: {v.id.partition(".")[2]: v for v in judge(*gathered(sends_images, function))}
                for function in (bytes_over_the_bus, half_way, floats_over_the_bus)}
    assert {name: outcomes(found) for name, found in verdicts.items()} == {
        "bytes_over_the_bus": {"values": "pass", "bus_bytes": "pass"}, "half_way": {"values": "pass", "bus_bytes": "fail"},
        "floats_over_the_bus": {"values": "fail", "bus_bytes": "fail"}}
    assert "1 MB go over the bus in a step (slow: 4 MB; target: at most 1.2 MB)" in verdicts["bytes_over_the_bus"]["bus_bytes"].message
    assert "The largest copies: HtoD 2 MB" in verdicts["half_way"]["bus_bytes"].message


def test_a_step_that_leaves_out_what_every_function_does_is_not_timed(sends_images):
    def nothing_of_a_large_one(images, mean):
        return (torch.empty_like(images, device=mean.device) if len(images) > 10**5 else images.to(mean.device)).float() - mean

    def bytes_over_the_bus(images, mean):
        return images.to(mean.device).float() - mean

    exercise = changed(sends_images, measurement__least_bytes_ratio=0.25)
    found = judge(*gathered(exercise, nothing_of_a_large_one))[1]
    assert found.outcome == "fail" and "Only 0 MB go over the bus in a step, of the 1 MB that the device needs" in found.message
    assert judge(*gathered(exercise, bytes_over_the_bus))[1].outcome == "pass"
    found = judge(*gathered(changed(exercise, measurement__own_waits=5), bytes_over_the_bus))[1]
    assert found.outcome == "fail" and "it waits 5 times by itself" in found.message


def test_bytes_sent_beside_the_calls_count(sends_images):
    def ask(function, given, device):
        images, mean = given.inputs["images"], given.inputs["mean"]
        ahead = None if function is floats_over_the_bus else images.to(device)
        yield
        result = function(images, mean) if ahead is None else ahead.float() - mean
        yield
        return {"result": result}

    exercise = changed(sends_images, asked__ask=ask)
    verdicts = {v.id: v for v in judge(*gathered(exercise, lambda images, mean: None))}
    assert f"before them the host waits {TRIAL_CALLS} times, with the slow function 0" in verdicts["send.bus_bytes"].message  # for the copies


def test_a_wait_left_is_named_with_operator_and_line(tmp_path):
    from gapless.course.notebooks.cells import load_function

    source = "# exercise: ignore_background\ndef ignore_background(target):\n    mask = target == BACKGROUND\n" \
             "    print(mask.sum().item())\n    return torch.where(mask, IGNORE, target)\n"
    verdict = grade("ignore_background", load_function(source, "ignore_background", LESSON.names()))["syncs"]
    assert verdict.outcome == "fail"
    assert '`item` at cell "ignore_background", line 4' in verdict.message
    assert "keep it a tensor" in verdict.message


def test_an_exercise_has_advice_of_its_own_for_an_operator():
    exercise = changed(LESSON.exercises["ignore_background"], checks=(Values(2), Waits(2, advice={"nonzero": "because of this exercise"})))
    by_name = {"nonzero": lambda target: target.index_fill(0, (target[:0] == 0).nonzero()[:, 0], 0),
               "item": lambda target: target + target.flatten()[:1].sum().item()}
    told = {}
    for name, waits in by_name.items():
        def function(target, waits=waits):
            waits(target)
            return torch.where(target == BACKGROUND, IGNORE, target)

        told[name] = judge(*gathered(exercise, function))[1].message
    assert "Why: because of this exercise." in told["nonzero"]
    assert "keep it a tensor" in told["item"].lower()


def test_waits_like_the_slow_functions_are_said_to_be_so():
    exercise = LESSON.exercises["ignore_background"]
    same, other = "waits exactly as often as the slow one, and in the same operators", lambda target: (
        target.flatten()[0].item(), exercise.slow(target))[1]
    assert same in grade("ignore_background", lambda target: exercise.slow(target.clone()))["syncs"].message
    assert same not in grade("ignore_background", other)["syncs"].message


def test_indexing_with_a_single_truth_value_is_explained():
    """PyTorch reads such a mask on the host: the trace says `item`."""
    def masked(target):
        first = target.flatten()[0]
        first[first == BACKGROUND]
        return torch.where(target == BACKGROUND, IGNORE, target)

    message = grade("ignore_background", masked)["syncs"].message
    assert "`item`" in message and "indexing with a single truth value" in message


def test_a_name_that_only_the_notebook_knows():
    def borrowing(target):
        return my_helper(target)  # noqa: F821

    assert "runs each exercise cell alone" in grade("ignore_background", borrowing)["values"].message


def test_error_at_full_size_only():
    def fails_when_large(target):
        if target.numel() > 10**6:
            raise ValueError("too large for me")
        return torch.where(target == BACKGROUND, IGNORE, target)

    verdicts = grade("ignore_background", fails_when_large)
    assert set(outcomes(verdicts).values()) == {"fail"}
    assert "At full size it raised ValueError: too large for me" in verdicts["syncs"].message


@pytest.fixture
def measured_again(solutions):
    """What is right, with the slow function measured after it too, as on a real GPU."""
    return lambda name: gathered(LESSON.exercises[name], solutions[name], again=True)


def test_a_clock_that_changed_voids_the_measurement(measured_again):
    exercise, plan, evidence = measured_again("ignore_background")
    evidence.full.after.true_ms *= 0.9
    values, syncs, host_time = judge(exercise, plan, evidence)
    assert {values.outcome, syncs.outcome, host_time.outcome} == {"fail"} and "void" in syncs.message


def test_a_slow_function_without_its_waits_voids_the_measurement(measured_again):
    exercise, plan, evidence = measured_again("ignore_background")
    evidence.full.after = dataclasses.replace(evidence.full.after, trace=evidence.learner.trace, most_waits=0)
    assert "void" in judge(exercise, plan, evidence)[1].message


def test_missing_answers_and_measurements_fail(solutions):
    exercise = LESSON.exercises["ignore_background"]
    plan = exercise.plan(0)
    assert [v.outcome for v in judge(exercise, plan, Evidence(exercise.name, "vgpu"))] == ["fail"] * 3
    _, plan, evidence = gathered(exercise, solutions[exercise.name])
    evidence.trial_answers.pop()
    assert f"Only {TRIAL_CALLS - 1} of {TRIAL_CALLS} calls" in judge(exercise, plan, evidence)[0].message
    _, plan, evidence = gathered(exercise, solutions[exercise.name])
    evidence.full.learner = None
    assert [v.outcome for v in judge(exercise, plan, evidence)] == ["fail"] * 3


def test_a_cell_that_could_not_be_run_fails_with_its_reason():
    exercise = LESSON.exercises["ignore_background"]
    values, *others = judge(exercise, exercise.plan(0), Evidence(exercise.name, "vgpu", error="the cell raised an error"))
    assert (values.outcome, values.message) == ("fail", "The cell raised an error.")
    assert {v.message for v in others} == {"Not counted before the values are right."}


def real_gpu(evidence, after=1.0, ratio=1.0):
    """The same evidence as if from a real GPU, with the slow function's second run ``after`` times the first."""
    evidence.simulated = False
    measured = evidence.full
    measured.after.true_ms = measured.before.true_ms * after
    measured.learner.true_ms = measured.before.true_ms * ratio
    return evidence


@pytest.mark.parametrize("after, ratio, outcome", [
    (1.0, 0.3, "pass"), (1.0, 0.9, "fail"), (1.0, 0.58, "inconclusive"), (1.0, 0.63, "inconclusive"),
    (1.3, 0.3, "inconclusive"), (0.7, 0.9, "inconclusive"),
])
def test_noise_on_a_real_gpu_fails_nobody(measured_again, after, ratio, outcome):
    exercise, plan, evidence = measured_again("masked_cross_entropy")
    assert judge(exercise, plan, real_gpu(evidence, after, ratio))[2].outcome == outcome


@pytest.mark.parametrize("growing, simulated, outcome", [
    (30.0, False, "inconclusive"), (1.0, False, "fail"), (0.0, False, "fail"), (30.0, True, "fail")])
def test_a_time_on_a_real_gpu_that_does_not_stay_the_same_fails_nobody(growing, simulated, outcome):
    right = itertools.count(100.0, growing)

    def ask(function, given, device):
        yield
        found = function()
        yield
        return found

    exercise = Exercise("clock", lambda: None, lambda seed: [Case("a step", {})], asked=Asked(ask=ask),
                        right=Right(function=lambda: next(right), on_device=True), checks=(Values(1),), teaching=Teaching(hints=()))
    exercise, plan, evidence = gathered(exercise, lambda: 10)
    evidence.simulated = simulated
    verdict, = judge(exercise, plan, evidence)
    assert verdict.outcome == outcome and "It is 10 and should be 100" in verdict.message


def test_an_explanation_that_fails_stops_no_verdict():
    def explain(case, found, wanted):
        raise KeyError("unforeseen")

    def asked(function, given, device):
        yield
        found = function()
        yield
        return {"answer": float(found)}

    exercise = Exercise("odd", lambda: 1.0, lambda seed: [Case("one", {})], (Values(1),), Teaching(("a", "b", "c"), explain=explain),
                        Asked(asked))
    verdict, = judge(*gathered(exercise, lambda: 2.0))
    assert verdict.outcome == "fail" and "it is 2 and should be 1" in verdict.message.replace("It", "it")


def test_what_is_right_must_be_found_out():
    def fails(x):
        raise ValueError("the instructor erred")

    exercise = Exercise("odd", fails, lambda seed: [Case("one", {"x": np.ones(2)})], (Values(1),), Teaching(("a", "b", "c")))
    with pytest.raises(RuntimeError, match="what is right cannot be found out on the input 'one'.*the instructor erred"):
        judge(*gathered(exercise, lambda x: x))


def test_work_that_is_put_off_until_the_answer_is_looked_at_counts_for_nothing():
    """The slow function's answer is looked at with a kernel, so that this part is not among what is measured."""

    def asked(function, given, device):
        yield
        found = function(given.inputs["x"])
        yield
        return {"sum": found() * 1}

    def cases(rng, count):
        return [Case("numbers", {"x": rng.normal(size=5000).astype(np.float32)}) for _ in range(count)]

    def slow(x):
        for _ in range(5):
            total = x.sum()
        return lambda: total

    exercise = Exercise("odd", slow, lambda seed: cases(np.random.default_rng(seed), 2),
                        (Values(1), StepTime(1, at_most=0.5)), Teaching(("a", "b", "c")), Asked(asked),
                        measurement=Measurement(Trial(cases, 100.0)))
    _, lazy = judge(*gathered(exercise, lambda x: lambda: x.sum()))
    assert lazy.outcome == "fail" and "A call that is measured launches nothing" in lazy.message

    def eager(x):
        total = x.sum()
        return lambda: total

    assert [verdict.outcome for verdict in judge(*gathered(exercise, eager))] == ["pass", "pass"]


def test_what_is_handed_out_is_known_by_its_text():
    slow = LESSON.exercises["ignore_background"].slow
    text = inspect.getsource(slow)
    assert is_handed_out(text, slow) and is_handed_out("# mine\n" + text.replace(":\n", ":  # here\n", 1) + "\n", slow)
    for other in (text.replace("return ", "return +"), text + "\ntorch.manual_seed(0)\n", "def broken(", "", None):
        assert not is_handed_out(other, slow)


def test_the_slow_function_is_no_better_whatever_its_time():
    """The clock of another process may count a little less."""
    exercise, plan, evidence = gathered(LESSON.exercises["ignore_background"], LESSON.exercises["ignore_background"].slow)
    for measured in (evidence.trial, evidence.full):
        if measured is not None:
            measured.learner = dataclasses.replace(measured.learner, host_ms=measured.learner.host_ms / 2, true_ms=measured.learner.true_ms / 2)
    source = inspect.getsource(exercise.slow)
    assert {verdict.outcome for verdict in judge(exercise, plan, evidence, source=source)} == {"fail"}
