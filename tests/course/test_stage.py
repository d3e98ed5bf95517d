"""A call in three parts: made ready, measured, looked at."""

import sys

import pytest
import torch

from gapless import vgpu
from gapless.course.stage import Given, LocalStage, ask_for_tensor, many_compilations

CPU = torch.device("cpu")


def asked(function, given, ask=None):
    call = LocalStage(function, CPU, ask).begin(given)
    call.run()
    return call.finish()


def test_each_part_is_done_when_it_is_asked_for():
    done = []

    def ask(function, given, device):
        done.append("ready")
        yield
        done.append(function(given.options["number"]))
        yield
        done.append("looked at")
        return {"number": 2, "device": str(device)}

    call = LocalStage(lambda number: number + 1, CPU, ask).begin(Given({}, {"number": 1}))
    assert done == ["ready"]
    call.run()
    assert done == ["ready", 2]
    assert call.finish() == {"number": 2, "device": "cpu"} and done == ["ready", 2, "looked at"]


def test_calls_may_be_made_ready_before_others_are_run():
    first, second = (LocalStage(lambda x: x * n, CPU).begin(Given({"x": torch.ones(1)})) for n in (2, 3))
    second.run(), first.run()
    assert [call.finish()["result"].item() for call in (first, second)] == [3, 3]  # the function looks n up when it runs


def test_a_call_over_another_gets_its_tensors_with_the_new_values():
    def ask(function, given, device):
        yield
        function(**given.inputs)
        yield

    seen = []
    stage = LocalStage(lambda x, many: seen.append((x, *many)), CPU, ask)
    first = stage.begin(Given({"x": torch.zeros(2), "many": [torch.zeros(1), torch.zeros(3)]}))
    first.run()
    seen[0][0].requires_grad_()
    stage.begin(Given({"x": torch.ones(2), "many": [torch.ones(1), torch.ones(4), torch.ones(2)]}), first).run()
    (x, one, three), (again, same, *others) = seen
    assert again is x and same is one and x.tolist() == [1, 1] and one.tolist() == [1]
    assert [len(other) for other in others] == [4, 2] and three.tolist() == [0, 0, 0]  # of another shape, and one more


def test_a_tensor_and_its_gradients():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    found = asked(lambda x, y, power: (x * y).sum() ** power, Given({"x": x, "y": y}, {"power": 2}, ("x",)))
    assert found["result"].item() == 121
    assert set(found["gradients"]) == {"x"} and found["gradients"]["x"].tolist() == [33.0, 44.0]  # it begins with a half
    assert not x.requires_grad and x.grad is None  # what was given is as it was


@pytest.mark.parametrize("function", [lambda x: x.detach().sum(), lambda x: torch.tensor(3.0)])
def test_a_gradient_that_never_came_is_none(function):
    assert asked(function, Given({"x": torch.ones(2)}, needs_grad=("x",)))["gradients"] == {"x": None}


def test_the_backward_pass_belongs_to_what_is_measured():
    leaf = torch.ones(2)
    parts = ask_for_tensor(lambda x: (seen.append(x), x.sum())[1], Given({"x": leaf}, needs_grad=("x",)), CPU)
    seen = []
    next(parts)
    assert seen == []
    next(parts)
    assert seen[0].grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("result, words", [(None, "a NoneType"), ([torch.ones(1)], "a list"), (3.0, "a float")])
def test_what_is_no_tensor_is_told_in_words(result, words):
    assert asked(lambda x: result, Given({"x": torch.ones(2)})) == {"result": None, "returned": words}


@pytest.mark.parametrize("place, part", [("ready", "begin"), ("run", "run"), ("finish", "finish")])
def test_each_part_raises_what_the_function_raises(place, part):
    def ask(function, given, device):
        function("ready")
        yield
        function("run")
        yield
        function("finish")

    def function(where):
        if where == place:
            raise KeyError(where)

    stage = LocalStage(function, CPU, ask)
    if part == "begin":
        with pytest.raises(KeyError):
            stage.begin(Given({}))
        return
    call = stage.begin(Given({}))
    if part == "finish":
        call.run()
    with pytest.raises(KeyError):
        getattr(call, part)()


def test_an_ask_with_a_third_yield_is_an_error_of_the_lessons():
    def ask(function, given, device):
        yield
        yield
        yield

    with pytest.raises(RuntimeError, match="two yields"):
        asked(None, Given({}), ask)


def test_a_function_may_be_compiled_for_more_inputs_than_a_program_has():
    import torch._dynamo.testing

    counted = torch._dynamo.testing.CompileCounter()
    stage = LocalStage(torch.compile(lambda x, times: x * times, backend=counted, dynamic=False), torch.device("cpu"))
    before = torch._dynamo.config.recompile_limit
    for size in range(1, before + 5):
        call = stage.begin(Given({"x": torch.ones(size)}, {"times": 2.0}))
        call.run()
        assert torch.equal(call.finish()["result"], 2 * torch.ones(size))
    assert counted.frame_count == before + 4 and torch._dynamo.config.recompile_limit == before
    torch._dynamo.reset()


def test_the_limit_of_compilations_is_set_on_no_clock(monkeypatch):
    import torch._dynamo  # noqa: F401

    def taken_ns():
        vgpu.enable()
        with vgpu.host_clock.counting():
            vgpu.timeline().catch_up()
            before = vgpu.timeline().host_ns
            with many_compilations():
                pass
            vgpu.timeline().catch_up()
            return vgpu.timeline().host_ns - before

    loaded = taken_ns()
    monkeypatch.delitem(sys.modules, "torch._dynamo")
    assert loaded == taken_ns()
