"""Where the program is while it is long out of the device."""

import threading
import time

from gapless import vgpu
from gapless.vgpu.host.host_clock import clock, counting, measured, uncounted
from gapless.vgpu.host.line_sampler import LineSampler


def waits_for(seen: threading.Event) -> None:
    while not seen.is_set():
        time.sleep(0.001)


def test_a_long_gap_is_seen_at_its_line_and_what_is_put_aside_is_not():
    vgpu.enable("a10g")
    with measured(), counting():
        sampler = LineSampler(clock().work)
        seen, add = threading.Event(), sampler._found.__class__.__setitem__

        class Found(sampler._found.__class__):
            def __setitem__(self, line, ns):
                add(self, line, ns)
                seen.set()

        sampler._found = Found()
        sampler.start()
        with uncounted():
            time.sleep(0.05)
            assert not seen.is_set()
        waits_for(seen)
        found = sampler.stop()
    assert any("test_line_sampler.py" in line and "waits_for" in line for line in found) and min(found.values()) > 0
