"""Lesson 03: what is said of a wait in several exercises."""

from __future__ import annotations

MADE_ON_THE_HOST = ("TorchMetrics makes a tensor of a Python number on the host and copies it to the metric's device, as "
                    "`torch.tensor(…, device=…)` and `new_tensor` do")
