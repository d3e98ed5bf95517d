"""The virtual A10G with its clocks at zero, and a counter of waits."""

from contextlib import contextmanager

import pytest

from gapless import vgpu


@pytest.fixture(autouse=True)
def device():
    """``vgpu:0``, an A10G whatever the test before left behind."""
    vgpu.enable("a10g")
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
