"""What a function answers: its inputs, one call, and what is read of it."""

import numpy as np
import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.answers import answer, put, values_of
from gapless.course.checks import Values
from gapless.course.evidence import Case
from gapless.course.exercise import Exercise, Teaching
from gapless.course.stage import LocalStage

from ..parts import changed

VGPU = gapless.device("vgpu:a10g")
CASE = Case("one", {"x": np.array([1.0, -2.0, 3.0], np.float32)})
EXERCISE = Exercise("e", lambda x: 2 * x, lambda seed: [CASE], (Values(2),), Teaching(("a", "b", "c")))


@pytest.fixture(autouse=True)
def card():
    gapless.device("vgpu:a10g")


def answered(function, case=CASE, **changes):
    exercise = changed(EXERCISE, **changes)
    return answer(exercise, LocalStage(function, VGPU, exercise.asked.ask), case, VGPU)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_inputs_that_the_function_gets_on_the_host(memory):
    case = Case("images", {"x": np.arange(6, dtype=np.uint8).reshape(2, 3), "many": [np.ones(2), np.zeros(3)]},
                layouts={"x": "transposed"}, on_host={"x": memory, "many": "pageable"})
    given, notes = put(case, VGPU)
    x, many = given.inputs["x"], given.inputs["many"]
    assert x.device.type == "cpu" and x.is_pinned() == (memory == "pinned") and x.stride() == (1, 2)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and [each.tolist() for each in many] == [[1, 1], [0, 0, 0]]
    given.note("a note")
    assert notes[0].used == {}
    assert not put(case, torch.device("cpu"))[0].inputs["x"].is_pinned()


def test_a_list_in_an_answer_is_looked_into_for_what_is_not_on_the_device():
    def ask(function, given, device):
        yield
        x = function(given.inputs["x"])
        yield
        return {"words": "any text", "many": [x, x.cpu()]}

    found = answered(lambda x: x, asked__ask=ask, asked__on_device=True)
    assert "'many' is a tensor on the device cpu" in found.unusable


def test_an_answer_says_what_it_is():
    found = answered(lambda x: x.double())
    assert (found.device, found.dtype, found.shape, found.kernels) == ("vgpu", "torch.float64", (3,), 1)
    assert found.returned == "a tensor of shape (3,), torch.float64 on vgpu:0"
    assert answered(lambda x: x.cpu()).device == "cpu"
    assert answered(lambda x: [x]).returned == "a list" and answered(lambda x: [x]).value is None


def test_an_answer_without_its_memory_is_no_answer():
    found = answered(lambda x: (kept := 2 * x, kept.untyped_storage().resize_(0))[0])
    assert "has been freed" in found.unusable
    assert answered(lambda x: 2 * x).unusable is None


def test_reading_an_answer_is_on_no_clock():
    call = LocalStage(lambda x: x + 1, VGPU).begin(put(CASE, VGPU)[0])
    call.run()
    result, before = call.finish()["result"], vgpu.timeline().host_ns
    assert values_of(result).tolist() == [2, -1, 4] and vgpu.timeline().host_ns == before


def test_what_is_put_on_the_device_takes_no_time_and_is_a_copy():
    before = vgpu.timeline().host_ns
    given, notes = put(CASE, VGPU)
    assert vgpu.timeline().host_ns == before and notes == []
    given.inputs["x"].zero_()
    assert CASE.inputs["x"].tolist() == [1, -2, 3]


def test_inputs_that_were_overwritten_are_seen():
    assert answered(lambda x: x.mul_(2)).overwritten["x"].tolist() == [2, -4, 6]
    assert answered(lambda x: x * 2).overwritten == {}
    nan = Case("nan", {"x": np.array([np.nan, 1], np.float32)})
    assert answered(lambda x: x * 2, nan).overwritten == {}


def test_notes_tell_how_many_of_a_list_had_been_used():
    def ask(function, given, device):
        yield
        function(given.inputs["x"], given.note)
        yield
        return {}

    def see(case, plain, notes):
        return {"seen": [[note.text, note.used["x"]] for note in notes]}

    def function(x, note):
        note("none")
        x[0] + 1
        note("one")
        x[1] + x[2]
        note("three")

    case = Case("list", {"x": [np.ones(2), np.ones(2), np.ones(2)]})
    assert answered(function, case, asked__ask=ask, asked__see=see).plain == {"seen": [["none", 0], ["one", 1], ["three", 3]]}


def plain(function, given, device):
    yield
    found = function(given.inputs["x"])
    yield
    return found


def test_answers_of_an_own_kind_are_read_without_a_wait():
    found = answered(lambda x: {"mean": x.mean(), "n": 3, "all": (x[0], None)}, asked__ask=plain)
    assert found.plain == {"mean": pytest.approx(2 / 3), "n": 3, "all": [1.0, None]} and found.unusable is None


def test_what_the_host_counts_is_not_on_the_device():
    on_host = answered(lambda x: {"mean": x.mean().item()}, asked__ask=plain, asked__on_device=True)
    assert "'mean' is a float" in on_host.unusable
    assert "on the device cpu" in answered(lambda x: {"mean": x.mean().cpu()}, asked__ask=plain, asked__on_device=True).unusable
    assert answered(lambda x: {"mean": x.mean()}, asked__ask=plain, asked__on_device=True).unusable is None


def test_what_is_no_plain_data_cannot_be_compared():
    assert "a set" in answered(lambda x: {"kinds": {1, 2}}, asked__ask=plain).unusable


def test_where_a_function_is_asked():
    seen = []

    def function(x):
        seen.append((vgpu.is_shape_only(), vgpu.card().key, vgpu.card() == vgpu.CARDS["a10g"]))
        return x

    answered(function), answered(function, setting__valueless=True), answered(function, setting__behind=True)
    assert [each[0] for each in seen] == [False, True, False]
    assert [each[2] for each in seen] == [True, True, False]


def test_behind_the_device_is_slower_than_the_host():
    """Whoever reads without waiting reads what is not there yet: the device has work left when the host comes."""
    def late(x):
        for _ in range(50):
            x = x + 1
        host_ns = vgpu.timeline().host_ns
        gapless.synchronize(VGPU)
        waits.append(vgpu.timeline().host_ns - host_ns)
        return x

    waits = []
    answered(late), answered(late, setting__behind=True)
    assert waits[1] > 10 * waits[0]


def test_a_real_device_needs_no_virtual_one():
    cpu = torch.device("cpu")
    found = answer(EXERCISE, LocalStage(lambda x: 2 * x, cpu), CASE, cpu)
    assert found.value.tolist() == [2, -4, 6] and found.kernels is None
