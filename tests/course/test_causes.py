"""Why an answer is wrong: known mistakes, and what numbers tell."""

import numpy as np
import pytest
import torch

from gapless.course.causes import counts_of, of_numbers
from gapless.course.checks import Values
from gapless.course.evidence import Case
from gapless.course.exercise import Asked, Exercise, Teaching
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.mistakes import Mistake
from gapless.course.stage import LocalStage
from gapless.measure.device import device as choose_device

WANTED = np.array([2.5, -0.4, 7.25])
COUNTS = {"the 6 elements of `x`": 6}


@pytest.mark.parametrize("found, says", [
    (-WANTED, "The sign is wrong"), (1000 * WANTED, "1000 times too large"), (WANTED / 1000, "1000 times too small"),
    (100 * WANTED, "per cent"), (6 * WANTED, "6 times too large, and 6 is the 6 elements of `x`"), (WANTED / 6, "6 times too small"),
    (1 / WANTED, "upside down"), (np.trunc(WANTED), "fraction is cut off"), (0 * WANTED, "All of it is 0"),
    (np.array([np.nan, -0.4, 7.25]), "nan comes from"), (1.001 * WANTED, "It is close, but not equal"), (3.7 * WANTED, "3.7 times"),
])
def test_what_numbers_have_to_do_with_the_right_ones(found, says):
    assert says in of_numbers(found, WANTED, COUNTS)


def test_a_number_where_nan_is_right():
    assert "A nan is right here" in of_numbers(WANTED, np.array([2.5, np.nan, 7.25]), COUNTS)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_said_where_nothing_is_seen(seed):
    rng = np.random.default_rng(seed)
    assert of_numbers(rng.normal(size=5), rng.normal(size=5), COUNTS) is None


def test_counts_name_what_may_be_counted():
    case = Case("one", {"x": np.ones((2, 3)), "losses": [np.ones(4), np.ones(4), np.ones(4)]})
    assert counts_of(case) == {"the 6 elements of `x`": 6, "the 2 along dimension 0 of `x`": 2, "the 3 along dimension 1 of `x`": 3,
                               "the 3 of `losses`": 3, "the 12 elements of `losses`": 12, "the 4 along dimension 0 of `losses`": 4}


SUM, FIRST, NAN = "That is the sum.", "That is the first.", "That is nothing."


def exercise(mistakes):
    cases = [Case("one element", {"x": np.array([3.0], np.float32)}), Case("two", {"x": np.array([1.0, 4.0], np.float32)}),
             Case("three", {"x": np.array([1.0, 4.0, -2.0], np.float32)})]
    return Exercise("half_of_mean", lambda x: x.mean() / 2, lambda seed: cases, (Values(1),), Teaching(("a", "b", "c"), mistakes))


def said(function, *mistakes):
    asked, device = exercise(mistakes), choose_device("vgpu")
    plan = asked.plan(0)
    verdict, = judge(asked, plan, gather(asked, LocalStage(function, device), plan, device, name="vgpu"))
    assert verdict.outcome == "fail"
    return verdict.message


def test_of_several_mistakes_the_one_that_agrees_on_most_inputs_is_named():
    both = Mistake(lambda x: x[0], FIRST), Mistake(lambda x: x.sum(), SUM)  # alike on one element
    assert said(lambda x: x.sum(), *both).endswith(SUM)
    assert said(lambda x: x[0] * 1, *both).endswith(FIRST)


def test_a_mistake_that_fails_itself_is_passed_over():
    assert said(lambda x: x.sum(), Mistake(lambda x: x.no_such, FIRST), Mistake(lambda x: x.sum(), SUM)).endswith(SUM)


def test_a_nan_alone_is_no_evidence_for_a_mistake():
    nothing = Mistake(lambda x: x.sum() * torch.nan, NAN)
    assert said(lambda x: x.sum() * torch.nan, nothing).endswith(NAN)  # it agrees everywhere
    assert "nan comes from" in said(lambda x: x.sum() / (x.numel() - 1) * (torch.nan if x.numel() == 1 else 1), nothing)


def test_an_unknown_one_gets_what_its_numbers_say():
    assert "3 times too large" not in said(lambda x: x.mean() + 1, Mistake(lambda x: x.sum(), SUM))
    assert "The sign is wrong" in said(lambda x: -x.mean() / 2, Mistake(lambda x: x.sum(), SUM))


def remark(words):
    """A function from a number to one of ``words``, and how it is asked."""
    return lambda n: words[n]


def ask_remark(function, given, device):
    yield
    found = function(given.options["n"])
    yield
    return {"remark": found} if isinstance(found, str) else {"losses": [found]}


def said_of(answers, right, *mistakes):
    cases = [Case(f"number {n}", {}, {"n": n}) for n in range(len(right))]
    asked, device = Exercise("remark", remark(right), lambda seed: cases, (Values(1),), Teaching(("a", "b", "c"), mistakes),
                             asked=Asked(ask=ask_remark)), choose_device("vgpu")
    plan = asked.plan(0)
    verdict, = judge(asked, plan, gather(asked, LocalStage(remark(answers), device, ask_remark), plan, device, name="vgpu"))
    assert verdict.outcome == "fail"
    return verdict.message


def test_words_that_two_mistakes_give_name_one_only_where_it_gives_the_rest_too():
    one, other = Mistake(remark(["low", "fits", "high", "fits"]), FIRST), Mistake(remark(["low", "fits", "fits", "high"]), SUM)
    right = ["fits"] * 4
    assert said_of(["low", "fits", "high", "fits"], right, one, other).endswith(FIRST)
    assert said_of(["low", "fits", "high", "high"], right, one, other).endswith("should be 'fits'.")
    assert said_of(["low", "fits", "high", "high"], right, one).endswith(FIRST)


def test_a_nan_among_numbers_is_no_evidence_either():
    nothing = Mistake(remark([float("nan"), 3.0]), NAN)
    assert said_of([float("nan"), 3.0], [1.0, 2.0], nothing).endswith(NAN)
    assert NAN not in said_of([float("nan"), 2.0], [1.0, 2.0], nothing)
