"""The virtual A10G with its clocks at zero, and a counter of waits."""

import gc
from contextlib import contextmanager

import pytest

from gapless import vgpu
from gapless.vgpu.hardware.clock.timeline import Recording


@pytest.fixture(autouse=True)
def device():
    """``vgpu:0``, an A10G whatever the test before left behind."""
    vgpu.enable("a10g")
    vgpu.timeline().reset()
    if vgpu.timeline().concurrent:  # an error's frames, of a test before, hold a stream in a cycle
        gc.collect()
        vgpu.timeline().reset()
    yield vgpu.enable("a10g")
    assert vgpu.timeline().recording is None
    assert not vgpu.is_shape_only()


@pytest.fixture
def waits():
    """``with waits() as found``: the waits of the block."""

    @contextmanager
    def collect():
        found = []
        hooks = vgpu.timeline().wait_hooks
        hooks.append(found.append)
        try:
            yield found
        finally:
            hooks.remove(found.append)

    return collect


@pytest.fixture
def recorded():
    """A function that calls another and gives what it gave and the names of the kernels that ran."""

    def call(function, *args):
        timeline = vgpu.timeline()
        timeline.recording = recording = Recording(lines=False)
        try:
            out = function(*args)
            timeline.synchronize_device()
        finally:
            timeline.recording = None
        return out, [record for record in recording.records if record.category in ("kernel", "gpu_memset")]

    return call
