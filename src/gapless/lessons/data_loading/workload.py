"""Lesson 04: the slow program."""

from __future__ import annotations

BATCH, CHANNELS, SIDE = 256, 3, 64
