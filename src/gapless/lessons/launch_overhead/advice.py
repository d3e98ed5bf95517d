"""Lesson 06: the exercises on gradients, averages and the optimizer."""

from __future__ import annotations

LISTS = ("A `_foreach_` function uses one kernel for dozens of tensors if all of them, and a number on the device, have "
         "one dtype, and the tensors of each pair have one shape. Otherwise it goes from tensor to tensor.")
