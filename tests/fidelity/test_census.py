"""The census: counting by timeline and by trace."""

import pytest

from gapless import vgpu
from gapless.fidelity import census
from gapless.fidelity.idioms import IDIOMS


@pytest.fixture
def device():
    return vgpu.enable("a10g")


@pytest.mark.slow
def test_the_trace_of_one_profile_gives_the_timelines_counts(device):
    """On CUDA the counts come from a trace, on the virtual GPU from its timeline: both read the same here."""
    idioms = list(IDIOMS.values())
    by_trace = {finding.idiom.name: finding.found for finding in census.in_trace(device, idioms)}
    by_timeline = {finding.idiom.name: finding.found for finding in census.count(device, idioms)}
    assert by_trace == by_timeline
