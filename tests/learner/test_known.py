import pickle

import numpy as np
import pytest

from gapless.course.truth import Truth
from gapless.learner.known import SEED, Known
from gapless.lessons import find_lesson
from gapless.measure.device import device

CARD = "vgpu:t4"


@pytest.mark.parametrize("lesson, name, functions", [
    ("02_masked_loss", "ignore_background", {"slow"}),
    pytest.param("10_capstone", "train", {"slow", "best"}, marks=pytest.mark.slow),
])
def test_found_out_in_another_process_or_in_this_one_it_is_the_same(lesson, name, functions):
    device(CARD)
    exercise = find_lesson(lesson).exercises[name]
    found = pickle.loads(pickle.dumps(Known.of(exercise, CARD).find_out()))
    known, plan, truth = Known.by(found, exercise, CARD), exercise.plan(SEED), Truth(exercise, CARD)
    for ours, other in zip((*known.plan.cases, *known.plan.trial), (*plan.cases, *plan.trial), strict=True):
        assert ours.name == other.name
        np.testing.assert_equal(vars(known.truth.of(ours)), vars(truth.of(other)))
        assert any(known.truth.of(ours) is each for each in found.answers)  # not found out again
    assert {key[:2] for key in known.runs} == {(kind, function) for kind in ("full", "trial") for function in functions}
