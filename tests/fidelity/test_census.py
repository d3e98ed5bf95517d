"""The census: counting by timeline and by trace."""

import json

import pytest

from gapless import vgpu
from gapless.fidelity import census
from gapless.fidelity.idioms import IDIOMS, NOT_IN_2_11

from .. import ROOT


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


def test_the_table_is_what_an_h100_showed():
    record = json.loads((ROOT / "records" / "measured" / "h100_census.json").read_text(encoding="utf-8"))
    assert record["versions"]["torch"].startswith("2.11.")
    found = {name: waits for name, waits in record["found"].items() if name not in NOT_IN_2_11}
    assert len(found) > 340 and None not in found.values()
    assert {name: waits for name, waits in found.items() if name in IDIOMS and not IDIOMS[name].agrees(waits)} == {}
    assert not set(found) - set(IDIOMS)
