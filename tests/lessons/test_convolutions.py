"""Lesson 05: what is handed out against plain Python."""

import math

import pytest
import torch

from gapless.lessons.convolutions.functions import scale_down


@pytest.mark.parametrize("values, limit", [([3.0, 4.0], 1.0), ([0.3, 0.4], 1.0), ([0.0, 0.0], 1.0)])
def test_slow_function_is_the_definition(values, limit):
    norm = math.hypot(*values)
    wanted = [value * limit / norm if norm > limit else value for value in values]
    assert scale_down(torch.tensor(values), limit).tolist() == pytest.approx(wanted)
