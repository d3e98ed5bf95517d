"""Whole steps of transformers."""

import pytest

from gapless.fidelity import measured
from gapless.fidelity.measured import MeasuredError, Step
from gapless.fidelity.transformer_steps import predicted

pytest.importorskip("transformers")


def test_training_takes_about_three_times_as_long_and_batches_add_up():
    rows = [Step("a100_pcie", "bert_large", mode, 512, batch, 1.0) for mode, batch in (("inf", 8), ("inf", 16), ("train", 8))]
    one, two, train = (found.ms for found in predicted(rows))
    assert 1.8 < two / one < 2.1 and 2.5 < train / one < 3.5


def test_a_compiled_step_is_shorter():
    plain, compiled = (found.ms for found in predicted(Step("a100", "opt_13", "inf", 64, 1, 1.0, compiled)
                                                   for compiled in (False, True)))
    assert 0 < compiled < plain


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_measured_steps_are_predicted(compiled):
    rows = [row for row in measured.read(measured.FOLDER / "steps.csv") if row.compiled == compiled]
    errors = [abs(found.ms / row.ms - 1) for row, found in zip(rows, predicted(rows)) if found is not None]
    assert len(errors) >= 0.8 * len(rows) and sum(errors) / len(errors) < 0.08


def test_an_unknown_model_is_named():
    with pytest.raises(MeasuredError, match="'gpt5' is not in models.json, which has bert_large, "):
        list(predicted([Step("a100", "gpt5", "inf", 64, 1, 1.0)]))
