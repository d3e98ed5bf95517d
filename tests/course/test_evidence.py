"""Evidence survives the way through files, and only plain data does."""

import numpy as np
import pytest

from gapless.course.evidence import Answer, Case, Evidence, EvidenceError, Run, load_cases, save_cases
from gapless.evidence.trace import Trace


def sample():
    run = Run(1.5, 2.5, [2.4, 2.5], Trace([{"ph": "X", "name": "x", "ts": 0, "dur": 1}], {"a": 1}))
    answers = [
        Answer("a", device="vgpu", dtype="torch.float32", shape=(2,), value=np.array([1.0, np.nan], np.float32),
               grads={"x": np.ones((2, 3))}, kernels=4),
        Answer("b", error="ValueError: no"),
        Answer("c", value=np.array(3), shape=()),
    ]
    return Evidence("e", "vgpu", "NVIDIA A10G", answers=answers, before=run, learner=run, tampering=["t"])


def test_round_trip(tmp_path):
    sample().save(tmp_path)
    found = Evidence.load(tmp_path)
    assert found.exercise == "e" and found.tampering == ["t"] and found.after is None
    assert found.before.samples_ms == [2.4, 2.5] and found.before.trace.events[0]["name"] == "x"
    np.testing.assert_array_equal(found.answers[0].value, sample().answers[0].value)
    np.testing.assert_array_equal(found.answers[0].grads["x"], np.ones((2, 3)))
    assert found.answers[0].shape == (2,) and found.answers[0].kernels == 4
    assert found.answers[1].value is None and found.answers[1].error == "ValueError: no"
    assert found.answers[2].shape == () and found.answers[2].value.shape == ()


def test_raises_when_nothing_was_saved(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        Evidence.load(tmp_path)


def test_raises_when_an_array_is_a_pickle(tmp_path):
    sample().save(tmp_path)
    with open(tmp_path / "arrays.npz", "wb") as file:
        np.savez(file, **{"0.value": np.array([object()], dtype=object)})
    with pytest.raises(EvidenceError, match="pickle"):
        Evidence.load(tmp_path)


@pytest.mark.parametrize("damage", ["{", "[]", '{"answers": 3}', '{"exercise": "e", "answers": [], "before": null}'])
def test_raises_when_the_json_is_damaged(tmp_path, damage):
    sample().save(tmp_path)
    (tmp_path / "evidence.json").write_text(damage)
    with pytest.raises(EvidenceError):
        Evidence.load(tmp_path)


def test_cases_round_trip(tmp_path):
    cases = [Case("one", {"x": np.arange(6).reshape(2, 3), "y": np.array(1.5, np.float32)}, {"k": 3}, ("x",)),
             Case("two", {"x": np.zeros((0, 3))})]
    save_cases(cases, tmp_path / "cases.npz")
    found = load_cases(tmp_path / "cases.npz")
    assert [c.name for c in found] == ["one", "two"] and list(found[0].inputs) == ["x", "y"]
    assert found[0].options == {"k": 3} and found[0].needs_grad == ("x",)
    np.testing.assert_array_equal(found[0].inputs["x"], cases[0].inputs["x"])
    assert found[0].inputs["y"].shape == () and found[1].inputs["x"].shape == (0, 3)
