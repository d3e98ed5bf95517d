"""How near is near enough: by dtype, and by what float32 loses on the very inputs."""

import numpy as np
import pytest
import torch

from gapless.course.checks import Values
from gapless.course.evidence import Case
from gapless.course.exercise import Asked, Exercise, Right, Teaching
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import LocalStage
from gapless.course.tolerance import VALUE, close, gradient_of, tolerances
from gapless.course.truth import Truth
from gapless.measure.device import device as choose_device

EXERCISE = Exercise("odd", abs, lambda seed: [], (Values(1),), Teaching(("a", "b", "c")))
NUMBERS = np.random.default_rng(0).normal(size=1000).astype(np.float32)


@pytest.mark.parametrize("dtype, apart, near", [("float32", 5e-5, True), ("float32", 5e-3, False), ("float64", 5e-3, False),
                                                ("float16", 5e-3, True), ("float16", 5e-2, False)])
def test_half_precision_may_differ_more(dtype, apart, near):
    assert close(EXERCISE, np.array([2.0 * (1 + apart)]), np.array([2.0], dtype=dtype)).all() == near


def test_an_exercise_may_ask_for_less():
    wide = Exercise("odd", abs, lambda seed: [], (Values(1),), Teaching(("a", "b", "c")), right=Right(relative_tolerance=0.5))
    assert tolerances(wide, "float16") == (0.5, 1e-3) and tolerances(EXERCISE) == (1e-4, 1e-5)


def test_nan_equals_nan():
    assert close(EXERCISE, np.array([np.nan, 1.0]), np.array([np.nan, np.nan])).tolist() == [True, False]


def exercise(right, ask=None, **case):
    cases = [Case("numbers", {"x": NUMBERS}, **case)]
    return Exercise("e", lambda x: x, lambda seed: cases, (Values(1),), Teaching(("a", "b", "c")), right=Right(right), asked=Asked(ask))


def slack(right, **options):
    asked = exercise(right, **options)
    return Truth(asked, "vgpu").slack(asked.plan(0).cases[0])


def far(x):
    """The mean of numbers far from zero, less where they lie: four digits are lost."""
    return (x + 1000).mean() - 1000


def outcome(asked, function):
    plan, device = asked.plan(0), choose_device("vgpu")
    verdict, = judge(asked, plan, gather(asked, LocalStage(function, device, asked.asked.ask), plan, device, name="vgpu"))
    return verdict.outcome


def test_slack_is_what_float32_loses():
    error = abs(float(far(torch.from_numpy(NUMBERS))) - NUMBERS.astype(np.float64).mean())
    assert error > 0 and error <= slack(far)[VALUE] < 1e-3
    assert slack(lambda x: x * 2)[VALUE] < 1e-5


def test_of_gradients_too():
    found = slack(lambda x: ((x + 1000) ** 2).sum() - 1000, needs_grad=("x",))
    assert found[gradient_of("x")] > 1e-5


def test_of_each_list_of_an_answer_in_plain_data():
    def ask(function, given, device):
        yield
        yield
        x = given.inputs["x"]
        return {"far": function(x), "near": [x * 2, {"a": (x * 3)[:2]}], "count": len(x), "name": str(x.dtype)}

    found = slack(far, ask=ask)
    assert set(found) == {"far", "near", "near['a']"}
    assert found["far"] > found["near"] > 0


@pytest.mark.parametrize("decides", [lambda x: 100.0 * (x.dtype == torch.float64) + x.sum() * 0 + 100,
                                     lambda x: (x.double().sum() * 1e6).floor() % 7 + 1])
def test_what_hangs_on_a_decision_is_no_rounding(decides):
    right = float(decides(torch.from_numpy(NUMBERS)))
    assert slack(decides)[VALUE] <= 0.05 * abs(right)


def test_an_answer_as_near_as_float32_can_be_is_right_and_a_wrong_one_is_not():
    asked = exercise(far)
    assert outcome(asked, lambda x: (x + 1000).flip(0).cumsum(0)[-1] / len(x) - 1000) == "pass"  # summed in another order
    assert outcome(asked, lambda x: (x + 1000).sum() / (len(x) - 1) - 1000) == "fail"
    assert outcome(asked, lambda x: far(x) * 1.1) == "fail"


def test_nothing_where_what_is_right_is_no_computation():
    asked = exercise(None)
    known = Exercise("e", asked.slow, asked.cases, asked.checks, asked.teaching, right=Right(wanted=lambda case: 1.0))
    assert Truth(known, "vgpu").slack(asked.plan(0).cases[0]) == {}


def test_a_halfs_last_bit_is_no_rounding_error():
    asked = exercise(lambda x: x.float() * 2)
    case = Case("halves", {"x": NUMBERS.astype(np.float16)})
    assert Truth(asked, "vgpu").slack(case)[VALUE] == 0
