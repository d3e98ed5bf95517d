"""The most that calls take of a device's memory."""

import gc

import pytest
import torch

from gapless import vgpu
from gapless.measure.device import device as choose_device
from gapless.measure.peak import PeakMeter, held_and_peak, least_held, requested_bytes

MIB = 2**20


@pytest.fixture
def device():
    gc.collect()  # what other tests left in cycles goes now, and not in a call
    return choose_device("vgpu:a10g")


def taken(device, megabytes):
    return torch.empty(megabytes * MIB, dtype=torch.uint8, device=device)


def test_the_largest_call_counts_above_what_was_there_before_the_first(device):
    there, meter = taken(device, 5), PeakMeter(device)
    for megabytes in (1, 3, 2):
        with meter.call():
            taken(device, megabytes)
    assert meter.peak_bytes == 3 * MIB
    del there


def test_what_calls_leave_behind_counts_in_later_ones(device):
    meter, kept = PeakMeter(device), []
    for _ in range(4):
        with meter.call():
            kept.append(taken(device, 1))
    assert meter.peak_bytes == 4 * MIB


def test_what_is_there_at_first_and_given_back_hides_nothing(device):
    kept, meter = [taken(device, 8)], PeakMeter(device)
    for _ in range(2):
        with meter.call():
            kept.clear()
            taken(device, 5)
    assert meter.peak_bytes == 8 * MIB  # above the second call's beginning


def test_ballast_that_is_thrown_out_bit_by_bit_saves_nothing(device):
    """Blocks from before make room for the call's own, and are put back before it ends."""
    kept, meter = [taken(device, 1) for _ in range(6)], PeakMeter(device)
    for _ in range(2):
        with meter.call():
            own = []
            for _ in range(6):
                kept.pop()
                own.append(taken(device, 1))
            while own:
                own.pop()
                kept.append(taken(device, 1))
    assert meter.peak_bytes == 6 * MIB


def test_a_leak_cannot_hide_behind_what_is_freed_of_before(device):
    kept, leak = [taken(device, 4)], []
    there, _ = held_and_peak(device)
    with PeakMeter(device).call():
        kept.clear()
        leak.append(taken(device, 3))
        assert held_and_peak(device)[0] == there + 3 * MIB


def test_a_peak_that_the_call_begins_anew_hides_nothing(device):
    meter = PeakMeter(device)
    with meter.call():
        taken(device, 7)
        torch.vgpu.reset_peak_memory_stats()
        taken(device, 2)
        torch.accelerator.reset_peak_memory_stats()
    assert meter.peak_bytes == 7 * MIB


def test_the_programs_own_peak_stays_what_it_was(device):
    vgpu.memory().reset_peak()
    taken(device, 6)
    before, meter = torch.vgpu.max_memory_allocated(), PeakMeter(device)
    with meter.call():
        taken(device, 2)
    assert torch.vgpu.max_memory_allocated() == before


def test_on_the_cpu_nothing_is_known():
    meter = PeakMeter(torch.device("cpu"))
    with meter.call():
        torch.ones(1000)
    assert meter.peak_bytes == 0


def test_in_the_midst_of_a_call_the_peak_so_far_is_told(device):
    with PeakMeter(device).call():
        before, _ = held_and_peak(device)
        kept = taken(device, 1)
        taken(device, 4)
        assert held_and_peak(device) == (before + kept.nbytes, before + 5 * MIB)
    assert held_and_peak(torch.device("cpu")) == (0, 0)


def test_a_call_that_raises_counts(device):
    meter = PeakMeter(device)
    with pytest.raises(ZeroDivisionError), meter.call():
        kept = taken(device, 3)
        1 / 0
    assert meter.peak_bytes == 3 * MIB and kept is not None


def test_requested_bytes_are_those_of_the_tensors_whatever_block_they_got(device):
    before, (held, _) = requested_bytes(device), held_and_peak(device)
    del [taken(device, 5)][0]
    small = torch.empty(9 * MIB // 2, dtype=torch.uint8, device=device)  # of the 5 MiB block half a MiB is not cut off
    assert requested_bytes(device) - before == small.nbytes <= held_and_peak(device)[0] - held


def test_the_least_that_is_held_is_that_of_any_moment_but_for_what_was_freed_of_before(device):
    kept = [taken(device, 8), taken(device, 3)]
    there, _ = held_and_peak(device)
    with least_held(device) as least_bytes:
        kept.append(taken(device, 5))
        assert least_bytes() == there
        del kept[0]
        kept.append(taken(device, 16))
    assert least_bytes() == there - 8 * MIB
    assert not vgpu.memory().listeners
    with least_held(torch.device("cpu")) as least_bytes:
        assert least_bytes() == 0


def test_what_was_made_ready_and_is_gone_makes_no_later_call_larger(device):
    meter = PeakMeter(device)
    with meter.aside():
        ready = [taken(device, 4) for _ in range(3)]
    while ready:
        with meter.call():
            taken(device, 1)
        del ready[0]
        meter.gone_bytes += 4 * MIB
    assert meter.peak_bytes == MIB and meter.aside_bytes == 12 * MIB
