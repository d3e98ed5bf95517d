"""Plain answers: what crosses, and how a difference is told."""

import math

import numpy as np
import pytest
import torch

from gapless.course.plain import Unusable, as_plain, difference, hooks_on, same_objects


def test_tensors_arrays_and_tuples_become_lists_and_numbers():
    value = {"a": (1, 2.5, None, True, "x"), "b": torch.tensor([1, 2]), "c": np.float32(0.5), "d": torch.tensor(3.0)}
    assert as_plain(value) == {"a": [1, 2.5, None, True, "x"], "b": [1, 2], "c": 0.5, "d": 3.0}


def test_tensors_are_kept_where_they_shall_be():
    x = torch.ones(2)
    assert as_plain({"a": [x, (1, x)]}, keep_tensors=True) == {"a": [x, [1, x]]}


class Sly(float):
    def __eq__(self, other):
        return True


@pytest.mark.parametrize("value, says", [
    (object(), "a object"), ([1, {2, 3}], "a set at [1]"), ({1: 2}, "keys"), ({"k": [Sly(3)]}, "a Sly at ['k'][0]"),
    ({"k": lambda: 0}, "a function at ['k']"),
])
def test_raises_when_it_is_not_plain(value, says):
    with pytest.raises(Unusable) as raised:
        as_plain(value)
    assert says in str(raised.value)


@pytest.mark.parametrize("found, wanted", [
    (1.00001, 1.0), (1, 1.0), (math.nan, math.nan), ([1, "a"], [1, "a"]), ({"a": None}, {"a": None}), (0.0, 1e-9),
    (math.inf, math.inf), ([], []), ({}, {}),
])
def test_same(found, wanted):
    assert difference(found, wanted, 1e-4, 1e-6) is None


@pytest.mark.parametrize("found, wanted, says", [
    (1.1, 1.0, "it is 1.1 and should be 1"),
    (None, 1.0, "it returned nothing: is there a `return`?"),
    (True, 1.0, "it is True and should be 1.0"),
    (1, True, "it is 1 and should be True"),
    (2.0, 2, "it is 2.0 and should be 2"),
    (math.nan, 1.0, "it is nan and should be 1"),
    ({"a": 1}, {"a": 1, "b": 2}, "'b' is missing"),
    ({"a": 1, "b": 2}, {"a": 1}, "'b' should not be there"),
    ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a['b'][1]: it is 2 and should be 3"),
    ([1], [1, 2], "it has 1 entry; return 2"),
    ([1, 2, 3], [1, 2], "it has 3 entries; return 2"),
    ("x", [1], "it is 'x'; a list of 1 is wanted"),
    ([1], {"a": 1}, "a dict with 'a' is wanted"),
])
def test_different(found, wanted, says):
    assert says in difference(found, wanted, 1e-4, 1e-6)


def test_a_whole_number_beyond_floats_is_wrong_and_no_error():
    assert "too large" in difference(10**400, 1.0, 1e-4, 1e-6)


def test_lists_of_floats_are_compared_as_single_floats_are():
    some = [0.0, -0.0, 1.0, 1.00009, 1.0002, -1.0, 1e-7, 3e-6, 1e300, math.inf, -math.inf, math.nan]
    for wanted in some:
        alone = [difference(found, wanted, 1e-4, 1e-6) for found in some]
        for found, fault in zip(some, alone):
            assert difference([0.0, found], [0.0, wanted], 1e-4, 1e-6) == (None if fault is None else f"[1]: {fault}")
    assert difference({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}, 0.0, 0.0, slack={"a": 0.2}) is None


def test_a_list_of_the_caller_holds_the_same_tensors_in_the_same_order():
    one, other = torch.ones(2), torch.ones(2)
    same_objects("parameters", [one, other], (one, other))
    for now in ([other, one], [one], [one, one.clone()]):
        with pytest.raises(Unusable, match="`parameters`, which belongs to the caller"):
            same_objects("parameters", now, [one, other])


@pytest.mark.parametrize("put", [
    lambda model: model[0].register_forward_hook(lambda *given: None),
    lambda model: model.register_full_backward_hook(lambda *given: None),
    lambda model: model[1].register_state_dict_pre_hook(lambda *given: None),
    lambda model: model[0].weight.register_hook(lambda gradient: None),
    lambda model: model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None),
])
def test_hooks_of_any_kind_are_counted_and_none_once_they_are_removed(put):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert hooks_on(model) == 0
    handle = put(model)
    assert hooks_on(model) > 0
    handle.remove()
    assert hooks_on(model) == 0
