"""Where the program is while it is long out of the device."""

import time

from gapless import vgpu
from gapless.vgpu.host.host_clock import counting, measured, uncounted
from gapless.vgpu.host.line_sampler import sampling

PATIENCE_S = 60


def waits_for(sampler) -> None:
    end = time.monotonic() + PATIENCE_S
    while not sampler.found() and time.monotonic() < end:
        time.sleep(0.001)


def test_a_long_gap_is_seen_at_its_line_and_what_is_put_aside_is_not():
    vgpu.enable("a10g")
    with measured(), counting():
        with uncounted():
            sampler = sampling()
            time.sleep(0.05)
            assert not sampler.found()
        waits_for(sampler)
        found = sampler.stop()
    assert any("test_line_sampler.py" in line and "waits_for" in line for line in found) and min(found.values()) > 0


def test_a_host_that_counts_has_none():
    vgpu.enable("a10g")
    with counting():
        assert sampling() is None
