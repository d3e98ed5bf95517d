"""pytest: the fixture ``vgpu`` is the virtual GPU; ``@pytest.mark.no_syncs`` fails a test at its first wait.

Loaded by pytest where gapless is installed. A training step is kept free of waits in a CI without GPUs by::

    def test_step_does_not_wait(vgpu):
        step = make_step(device=vgpu)  # the set-up may wait
        with gapless.no_syncs():
            step()

The mark holds for all of a test, except for its fixtures.
"""

from __future__ import annotations

import linecache

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if item.get_closest_marker("no_syncs") is None:
        return (yield)
    from .measure.no_syncs import no_syncs

    with no_syncs():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Of a test that waits its report shows the line and what to do, without the frames in between."""
    report = yield
    error = call.excinfo and call.excinfo.value
    if type(error).__name__ == "SyncError" and type(error).__module__ == "gapless.measure.no_syncs":
        report.longrepr = _in_short(error)
    return report


def _in_short(error) -> str:
    from .audit.advice import advice_for_wait
    from .vgpu.process.location import split

    file, number = split(error.location)
    line = linecache.getline(file, number).strip()
    found = advice_for_wait(error.op, error.location, line)
    said = f"SyncError: {error}", line and f"    {line}", f"Why: {found.why}", f"What to do: {found.what}"
    return "\n".join(filter(None, said))
