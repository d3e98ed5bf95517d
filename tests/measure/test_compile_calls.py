"""Calls of ``torch.compile`` are counted, and it is put back."""

import pytest
import torch

from gapless.measure.compile_calls import CompileCalls


def test_calls_are_counted_also_a_module_s_own():
    original = torch.compile
    with CompileCalls() as calls:
        torch.compile(torch.sin)
        torch.nn.ReLU().compile()
    assert calls.count == 2 and torch.compile is original


def test_it_is_put_back_where_something_raises():
    original = torch.compile
    with pytest.raises(KeyError), CompileCalls():
        raise KeyError
    assert torch.compile is original
