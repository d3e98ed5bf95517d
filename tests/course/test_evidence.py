"""Evidence and plans survive the way through files, and only plain data does."""

import json

import numpy as np
import pytest

from gapless.course.evidence import Answer, Case, Evidence, EvidenceError, Measured, Plan, Run, load_plan, save_plan
from gapless.evidence.traces.trace import Trace


def run():
    return Run(1.5, 2.5, [2.4, 2.5], Trace([{"ph": "X", "name": "x", "ts": 0, "dur": 1}], {"a": 1}))


def sample():
    answers = [
        Answer("a", device="vgpu", dtype="torch.float32", shape=(2,), value=np.array([1.0, np.nan], np.float32),
               grads={"x": np.ones((2, 3))}, overwritten={"y": np.arange(3)}, kernels=4),
        Answer("b", error="ValueError: no"),
        Answer("c", value=np.array(3), shape=()),
    ]
    trial = [Answer("t", plain={"mean": 0.5, "lines": ["x"]}), Answer("u", unusable="it returned a set.")]
    return Evidence("e", "vgpu", "NVIDIA A10G", answers=answers, trial_answers=trial, again=answers[0], full=Measured(run(), run()),
                    trial=Measured(run(), error="it raised"))


def saved(evidence, folder):
    folder.mkdir()
    evidence.save(folder)
    return folder


def test_round_trip(tmp_path):
    sample().save(tmp_path)
    found = Evidence.load(tmp_path)
    assert (found.exercise, found.device_name, found.simulated, found.error) == ("e", "NVIDIA A10G", True, None)
    a, b, c = found.answers
    np.testing.assert_array_equal(a.value, sample().answers[0].value)
    np.testing.assert_array_equal(a.grads["x"], np.ones((2, 3)))
    np.testing.assert_array_equal(a.overwritten["y"], np.arange(3))
    assert a.value.dtype == np.float32 and (a.shape, a.kernels) == ((2,), 4)
    assert (b.value, b.error, b.grads) == (None, "ValueError: no", {})
    assert c.shape == () and c.value.shape == ()
    assert [answer.plain for answer in found.trial_answers] == [{"mean": 0.5, "lines": ["x"]}, None]
    assert found.trial_answers[1].unusable == "it returned a set."
    np.testing.assert_array_equal(found.again.grads["x"], np.ones((2, 3)))
    assert Evidence.load(saved(Evidence("e", "vgpu"), tmp_path / "other")).again is None


def test_what_was_measured_makes_the_round_trip(tmp_path):
    sample().save(tmp_path)
    found = Evidence.load(tmp_path)
    assert set(found.full.runs) == {"before", "learner"} and set(found.trial.runs) == {"before"}
    assert (found.full.error, found.trial.error) == (None, "it raised")
    assert found.full.before.samples_ms == [2.4, 2.5] and found.full.before.trace.events[0]["name"] == "x"
    assert found.main is found.full and found.learner is found.full.learner
    found.full = None
    assert found.main is found.trial and found.learner is None


def test_raises_when_nothing_was_saved(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        Evidence.load(tmp_path)


def test_raises_when_an_array_is_a_pickle(tmp_path):
    sample().save(tmp_path)
    with open(tmp_path / "arrays.npz", "wb") as file:
        np.savez(file, **{"answers.0.value": np.array([object()], dtype=object)})
    with pytest.raises(EvidenceError, match="not one of numbers"):
        Evidence.load(tmp_path)


@pytest.mark.parametrize("damage", ["{", "[]", '{"answers": 3}', '{"exercise": "e", "answers": [], "full": 3}'])
def test_raises_when_the_json_is_damaged(tmp_path, damage):
    sample().save(tmp_path)
    (tmp_path / "evidence.json").write_text(damage)
    with pytest.raises(EvidenceError):
        Evidence.load(tmp_path)


@pytest.mark.parametrize("change", [
    {"answers": [{"case": "a", "extra": 1}]}, {"answers": [{}]}, {"full": {"error": None, "before": {"host_ms": "x"}}},
    {"trial": {"error": None}}, {"answers": [{"case": "a", "shape": "wide"}]},
])
def test_raises_when_a_part_is_not_of_the_agreed_form(tmp_path, change):
    sample().save(tmp_path)
    plain = json.loads((tmp_path / "evidence.json").read_text())
    (tmp_path / "evidence.json").write_text(json.dumps(plain | change))
    with pytest.raises(EvidenceError):
        Evidence.load(tmp_path)


def test_a_plan_makes_the_round_trip(tmp_path):
    plan = Plan([Case("one", {"x": np.arange(6).reshape(2, 3), "y": np.array(1.5, np.float32)}, {"k": 3}, ("x",),
                      {"x": "strided"}, {"y": "pinned"}), Case("two", {"x": np.zeros((0, 3))})],
                [Case("lists", {"x": [np.ones(2), np.zeros(3, np.int64)], "none": []})])
    save_plan(plan, tmp_path / "plan.npz")
    found = load_plan(tmp_path / "plan.npz")
    one, two = found.cases
    assert [one.name, two.name] == ["one", "two"] and list(one.inputs) == ["x", "y"]
    assert (one.layouts, one.on_host, two.on_host) == ({"x": "strided"}, {"y": "pinned"}, {})
    assert (one.options, one.needs_grad, two.options, two.needs_grad) == ({"k": 3}, ("x",), {}, ())
    np.testing.assert_array_equal(one.inputs["x"], plan.cases[0].inputs["x"])
    assert one.inputs["y"].shape == () and two.inputs["x"].shape == (0, 3)
    lists, = found.trial
    assert [each.tolist() for each in lists.inputs["x"]] == [[1, 1], [0, 0, 0]] and lists.inputs["none"] == []
    assert lists.inputs["x"][1].dtype == np.int64
