"""Lesson 04: quick questions."""

from __future__ import annotations

import torch

from ...course.quick import WAITS, Quick, QuickQuestions


def _setup(device: torch.device) -> dict:
    return {"x": torch.ones(1000, device=device)}


QUICK = QuickQuestions("Does the host wait at this line?", WAITS, _setup, (
    Quick("norm = x.norm()", "The norm stays on the device."),
    Quick("if x.norm() > 1: pass", "Python needs a yes or a no."),
    Quick("y = x * (1 / x.norm()).clamp(max=1.0)", "Nothing asks for a number."),
    Quick("print(x.norm())", "Text needs digits."),
    Quick("x.shape", "The host knows the shape."),
    Quick("x.norm().item()", "A Python number is read from the device."),
    Quick("torch.where(x.norm() > 1, x, 2 * x)", "The device chooses."),
    Quick("float(x.sum())", "A Python number is read from the device."),
    Quick("torch.zeros(10, device=device)", "It is filled on the device."),
    Quick("x[x > 0.5]", "The size of the result depends on the values."),
))
