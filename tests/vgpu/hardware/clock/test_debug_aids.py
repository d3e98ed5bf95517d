"""What debug aids add to operators and launches, by hand."""

from gapless.vgpu.hardware.cards.specs import CARDS
from gapless.vgpu.hardware.clock.debug_aids import PROFILED_NS, RANGE_NS, DebugAids
from gapless.vgpu.hardware.clock.timeline import Timeline


def test_a_profiler_and_ranges_make_operators_longer():
    aids = DebugAids()
    timeline = Timeline(CARDS["a10g"], aids=aids)
    for wanted, added in (({}, 0), ({"profiled": True}, PROFILED_NS), ({"ranges": True}, PROFILED_NS + RANGE_NS),
                          ({"profiled": False}, RANGE_NS), ({"ranges": False}, 0)):
        aids.switch(**wanted)
        start = timeline.host_ns
        timeline.begin_op("aten::add", 5_000)
        timeline.end_op()
        assert timeline.host_ns - start == 5_000 + added


def test_a_blocking_launch_lasts_until_its_kernel_is_done():
    timeline = Timeline(CARDS["a10g"], aids=DebugAids(blocking=True))
    heard = []
    timeline.wait_hooks.append(heard.append)
    host = timeline.host
    timeline.launch("kernel", 7_000)
    assert timeline.host_ns == timeline.device_ready_ns + host.sync_ns == host.launch_ns + 7_000 + host.sync_ns
    wait, = heard
    assert (wait.name, wait.wait_ns) == ("cudaLaunchKernel", 7_000)
