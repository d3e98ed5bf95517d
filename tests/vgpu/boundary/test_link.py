"""A program whose device is in another process computes what it computes here, in the same virtual time."""

import socket
import subprocess
import sys

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.plain import difference
from gapless.measure.compilations import compilations
from gapless.vgpu.boundary.served import Gone, Served
from gapless.vgpu.boundary.wire import Channel

from ... import ROOT
from ..across import PROGRAMS


@pytest.fixture(scope="module")
def served():
    own, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", "tests.vgpu.across", str(theirs.fileno())], cwd=ROOT,
                                   pass_fds=[theirs.fileno()])
    channel = Channel(own)
    yield Served(channel)
    channel.close()
    process.wait(30)


@pytest.fixture(autouse=True)
def a10g():
    vgpu.enable("a10g")
    vgpu.timeline().reset()
    vgpu.forget_plans()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_in_the_same_time(served, name):
    across = []
    with vgpu.races(across):
        said, blob = served.request({"do": name})
    there_ns = vgpu.timeline().host_ns
    assert "raise" not in said, said
    vgpu.timeline().reset()
    vgpu.forget_plans()
    here = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with vgpu.races(here):
            wanted = PROGRAMS[name](vgpu.enable())
    finally:
        torch.set_num_threads(threads)
    found = served.decoder(blob)(said["return"])
    # A CPU's vectorised kernels may round otherwise where a tensor begins elsewhere in memory.
    assert difference(_plain(found), _plain(wanted), 1e-6, 1e-9) is None
    assert there_ns == vgpu.timeline().host_ns
    assert len(across) == len(here)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trains", "attends", "recurs", "checkpoints", "keeps_random_states", "loads"])
def test_what_the_host_does_by_itself_takes_as_long_over_there(served, name):
    device = vgpu.enable()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def here():
        vgpu.timeline().reset()
        with vgpu.host_clock.counting():
            PROGRAMS[name](device)
            vgpu.timeline().catch_up()
            return vgpu.timeline().host_ns

    def there():
        vgpu.timeline().reset()
        with vgpu.host_clock.counting():
            served.request({"do": name})
            return vgpu.timeline().host_ns

    try:
        for _ in range(2):  # what is done once only
            PROGRAMS[name](device)
            served.request({"do": name})
        here(), there()
        assert there() == there() == pytest.approx(here(), rel=0.01)  # a fused operator's backward pass has its own wrapper
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("said", [-1, 10**14, 1.5, "1", True, None])
def test_a_time_that_is_none_ends_the_program(said):
    own, theirs = socket.socketpair()
    with own, theirs:
        Channel(theirs).send({"return": None, "host": said})
        with pytest.raises(Gone, match="the host's work is no time"):
            Served(Channel(own)).request({"do": "anything"})


def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_a_race_is_told_with_the_programs_lines(served):
    races = []
    with vgpu.races(races):
        served.request({"do": "overwrites"})
    (race,) = races
    assert "across.py, line" in str(race) and "in overwrites" in str(race)


def test_collectives_in_a_group_of_one(served):
    said, blob = served.request({"do": "group_of_one"})
    assert served.decoder(blob)(said["return"]) == [[1.0] * 3, [3.0] * 3, "No backend"]


def test_the_clock_cannot_be_set_back(served):
    before_ns = vgpu.timeline().host_ns
    said, _ = served.request({"do": "clock_back"})
    assert "goes forward only" in said["raise"] and vgpu.timeline().host_ns >= before_ns


def test_a_loaders_block_is_in_the_trace(served):
    trace = gapless.profile(lambda: served.request({"do": "loads"}), steps=1, warmup=0, device=vgpu.enable())
    blocks = [event for event in trace.events if "DataLoader" in event["name"]]
    assert len(blocks) == 8 and {block["cat"] for block in blocks} == {"user_annotation"}
    # The first worker starts and works 2 × 5 ms; the second was made 9 ms later, of which the first batch's receipt is a part.
    assert blocks[0]["dur"] > 18_000 > 10_000 > blocks[1]["dur"] > 5_000


@pytest.mark.parametrize("name, start", [
    ("ProfilerStep#1", 0), ("enumerate(DataLoader)#x.__next__", -1), ("enumerate(DataLoader)#x.__next__", 10**15),
    ("enumerate(DataLoader)#x.__next__", "0"), (7, 0)])
def test_no_other_block_can_be_claimed(name, start):
    own, theirs = socket.socketpair()
    with own, theirs:
        channel = Channel(theirs)
        channel.send({"ask": "loader_block", "args": [name, start]})
        channel.send({"return": None})
        Served(Channel(own)).request({"do": "anything"})
        channel.receive()
        reply, _ = channel.receive()
    assert reply["error"][0] == "ValueError"


def test_full_size_has_no_values_there_either(served):
    with vgpu.shape_only():
        said, blob = served.request({"do": "checkpoints"})
    assert served.decoder(blob)(said["return"])[0] == [0.0] * 4


def test_what_is_dropped_is_released(served):
    for _ in range(2):
        served.request({"do": "trains"})
    served.request({"do": "errors"})
    assert len(served._things) < 100


def test_the_other_side_may_be_gone():
    own, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(Gone):
        Served(Channel(own)).request({"do": "anything"})


@pytest.mark.slow
def test_a_compiled_graph_is_counted_whatever_ran_here(served):
    """Both processes number their runs from 0, and a run over there is not the rest of one here."""
    device = vgpu.enable()
    counts = []
    for _ in range(2):
        before = compilations(device)
        said, _ = served.request({"do": "compiles"})
        assert "raise" not in said, said
        counts.append(compilations(device) - before)
        for _ in range(3):  # more runs than there
            PROGRAMS["compiles"](device)
    assert counts[0] == counts[1] > 0
