"""gather and judge together: what right, slow, wrong and dishonest functions get."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from gapless.course.evidence import Case, Evidence
from gapless.course.exercise import Exercise
from gapless.course.gather import gather, measure_slow
from gapless.course.judge import judge
from gapless.lessons import LESSONS
from gapless.lessons.masked_loss.lesson import BACKGROUND, IGNORE

from ..lessons.reference import solution

LESSON = LESSONS["02_masked_loss"]


@pytest.fixture
def solutions():
    return solution(LESSON.id)


def grade(name, function, seed=3, device="vgpu:a10g"):
    exercise = LESSON.exercises[name]
    cases = exercise.cases(seed)
    verdicts = judge(exercise, cases, gather(exercise, function, cases, device))
    return {v.id.partition(".")[2]: v for v in verdicts}


def outcomes(verdicts):
    return {check: verdict.outcome for check, verdict in verdicts.items()}


def test_an_object_that_equals_everything_is_no_tensor():
    class Everything:
        def __eq__(self, other):
            return True

        def __getattr__(self, name):
            return self

    assert "a tensor is wanted" in grade("ignore_background", lambda target: Everything())["values"].message


def test_an_answer_cached_by_identity_is_found_out():
    known = {}

    def cached(target):
        if id(target) not in known:
            known[id(target)] = torch.where(target == BACKGROUND, IGNORE, target)
        return known[id(target)]

    assert grade("ignore_background", cached)["values"].outcome == "fail"


def test_work_moved_to_the_cpu_fails_waits_and_time():
    def on_the_host(target):
        host = target.cpu()
        return torch.where(host == BACKGROUND, IGNORE, host).to(target.device)

    found = outcomes(grade("ignore_background", on_the_host))
    assert found == {"values": "pass", "syncs": "fail", "host_time": "fail"}

    def head_on_the_host(hidden, head, target, max_valid):
        valid = (target != IGNORE).cpu()
        return F.cross_entropy(hidden.cpu()[valid] @ head.cpu().T, target.cpu()[valid]).to(hidden.device)

    verdict = grade("sparse_head_loss", head_on_the_host)["step_time"]
    assert verdict.outcome == "fail" and "copied from the device to the host" in verdict.message


def test_doing_less_when_measured_is_found_out():
    def lazy(hidden, head, target, max_valid):
        if hidden.shape[0] > 1000:
            return hidden.sum() * 0 + head.sum() * 0
        valid = target != IGNORE
        return F.cross_entropy(hidden[valid] @ head.T, target[valid])

    verdict = grade("sparse_head_loss", lazy)["step_time"]
    assert verdict.outcome == "fail" and "fewer than" in verdict.message


def test_a_wait_left_is_named_with_operator_and_line(tmp_path):
    from gapless.course.cells import load_function

    source = "# exercise: ignore_background\ndef ignore_background(target):\n    mask = target == BACKGROUND\n" \
             "    print(mask.sum().item())\n    return torch.where(mask, IGNORE, target)\n"
    verdict = grade("ignore_background", load_function(source, "ignore_background", LESSON.names()))["syncs"]
    assert verdict.outcome == "fail"
    assert '`item` at cell "ignore_background", line 4' in verdict.message
    assert "keep it a tensor" in verdict.message


def test_an_exercise_has_advice_of_its_own_for_an_operator():
    exercise = dataclasses.replace(LESSON.exercises["ignore_background"], advice={"nonzero": "because of this exercise"})
    cases = exercise.cases(3)
    by_name = {"nonzero": lambda target: target.index_fill(0, (target[:0] == 0).nonzero()[:, 0], 0),
               "item": lambda target: target + target.flatten()[:1].sum().item()}
    told = {}
    for name, waits in by_name.items():
        def function(target, waits=waits):
            waits(target)
            return torch.where(target == BACKGROUND, IGNORE, target)

        told[name] = judge(exercise, cases, gather(exercise, function, cases, "vgpu:a10g"))[1].message
    assert "Why: because of this exercise." in told["nonzero"]
    assert "Keep it a tensor" in told["item"] or "keep it a tensor" in told["item"]


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

    assert "run by itself" in grade("ignore_background", borrowing)["values"].message


def test_error_at_full_size_only():
    def fails_when_large(target):
        if target.numel() > 1e6:
            raise ValueError("too large for me")
        return torch.where(target == BACKGROUND, IGNORE, target)

    verdicts = grade("ignore_background", fails_when_large)
    assert outcomes(verdicts) == {"values": "pass", "syncs": "fail", "host_time": "fail"}
    assert "At full size it raised ValueError: too large for me" in verdicts["syncs"].message


def evidence_for(name, function):
    exercise = LESSON.exercises[name]
    cases = exercise.cases(3)
    return exercise, cases, gather(exercise, function, cases, "vgpu:a10g")


def test_a_clock_that_changed_voids_the_measurement(solutions):
    exercise, cases, evidence = evidence_for("ignore_background", solutions["ignore_background"])
    evidence.after.true_ms *= 0.9
    found = {v.id: v for v in judge(exercise, cases, evidence)}
    assert found["ignore_background.values"].outcome == "pass"
    assert found["ignore_background.syncs"].outcome == found["ignore_background.host_time"].outcome == "fail"
    assert "void" in found["ignore_background.syncs"].message


def test_a_slow_function_without_its_waits_voids_the_measurement(solutions):
    exercise, cases, evidence = evidence_for("ignore_background", solutions["ignore_background"])
    evidence.after = dataclasses.replace(evidence.after, trace=evidence.learner.trace)
    assert "void" in judge(exercise, cases, evidence)[1].message


def test_tampering_voids_the_measurement(solutions):
    exercise, cases, evidence = evidence_for("ignore_background", solutions["ignore_background"])
    evidence.tampering = ["torch.nonzero was replaced"]
    verdicts = judge(exercise, cases, evidence)
    assert [v.outcome for v in verdicts] == ["pass", "fail", "fail"]
    assert "torch.nonzero was replaced" in verdicts[1].message


def test_missing_answers_and_measurements_fail():
    exercise = LESSON.exercises["ignore_background"]
    cases = exercise.cases(0)
    verdicts = judge(exercise, cases, Evidence("ignore_background", "vgpu"))
    assert [v.outcome for v in verdicts] == ["fail"] * 3


def real_gpu(evidence, after=1.0, ratio=1.0):
    """The same evidence as if from a real GPU, with the slow function's second run ``after`` times the first."""
    evidence.simulated = False
    evidence.device = "vgpu"
    evidence.after.true_ms = evidence.before.true_ms * after
    evidence.learner.true_ms = evidence.before.true_ms * ratio
    return evidence


@pytest.mark.parametrize("after, ratio, outcome", [
    (1.0, 0.3, "pass"), (1.0, 0.9, "fail"), (1.0, 0.58, "inconclusive"), (1.0, 0.63, "inconclusive"),
    (1.3, 0.3, "inconclusive"), (0.7, 0.9, "inconclusive"),
])
def test_noise_on_a_real_gpu_fails_nobody(solutions, after, ratio, outcome):
    name = "masked_cross_entropy"
    exercise, cases, evidence = evidence_for(name, solutions[name])
    assert judge(exercise, cases, real_gpu(evidence, after, ratio))[2].outcome == outcome


def test_an_explanation_that_fails_stops_no_verdict():
    def explain(case, found, wanted):
        raise KeyError("unforeseen")

    def asked(function, case, device):
        return {"answer": float(function())}

    exercise = Exercise("odd", lambda: 1.0, lambda seed: [Case("one", {})], {"values": 1}, ("a", "b", "c"), ask=asked,
                        explain=explain)
    cases = exercise.cases(0)
    verdict, = judge(exercise, cases, gather(exercise, lambda: 2.0, cases, "vgpu:a10g"))
    assert verdict.outcome == "fail" and "it is 2 and should be 1" in verdict.message


def test_waits_are_not_judged_where_the_work_was_not_done(solutions):
    exercise, cases, evidence = evidence_for("ignore_background", solutions["ignore_background"])
    for answer in evidence.answers:
        answer.kernels = 10**6  # as if the answers had taken more work than a step at full size
    verdicts = judge(exercise, cases, evidence)
    assert [v.outcome for v in verdicts] == ["pass", "fail", "fail"] and "fewer than" in verdicts[1].message


def test_a_slow_function_made_slower_by_the_cell_voids_the_measurement(solutions):
    """Grading measures it first before the cell is loaded."""
    exercise = LESSON.exercises["ignore_background"]
    cases = exercise.cases(3)
    first = measure_slow(exercise, "vgpu:a10g")
    hook = torch.nn.modules.module.register_module_forward_hook(lambda module, given, result: result + 0.0)
    try:
        evidence = gather(exercise, solutions["ignore_background"], cases, "vgpu:a10g", before=first)
    finally:
        hook.remove()
    verdicts = judge(exercise, cases, evidence)
    assert [v.outcome for v in verdicts] == ["pass", "fail", "fail"] and "void" in verdicts[1].message
