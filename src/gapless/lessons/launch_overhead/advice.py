"""Lesson 06: the exercises on gradients, averages and the optimizer."""

from __future__ import annotations

LISTS = ("A `_foreach_` function of a list takes one kernel for dozens of tensors, if all of them, and a number on "
          "the device, have one dtype, and the tensors of a pair one shape. Else it goes from tensor to tensor.")
