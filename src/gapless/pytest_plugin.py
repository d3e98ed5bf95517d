"""pytest: ``@pytest.mark.no_syncs`` fails a test at its first wait; the fixture ``vgpu`` is the virtual GPU.

Loaded by pytest where gapless is installed. A training step is kept free of waits in a CI without GPUs by::

    @pytest.mark.no_syncs
    def test_step_does_not_wait(vgpu):
        step = make_step(device=vgpu)
        step()
"""

from __future__ import annotations

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "no_syncs: fail at the first line that makes the host wait for the device")


@pytest.fixture
def vgpu():
    """The device ``vgpu:0``, its clocks at zero."""
    from . import vgpu as backend

    device = backend.enable()
    backend.timeline().reset()
    return device


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    if item.get_closest_marker("no_syncs") is None:
        yield
        return
    from .measure.no_syncs import no_syncs

    with no_syncs():
        outcome = yield
        # Raised here, the error passes through no_syncs, which knows CUDA's own words for a wait.
        outcome.get_result()
