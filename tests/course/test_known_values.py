"""Values beside a network without: read and written on no clock."""

import torch
from gapless.course.known_values import peek, unnoticed, values_of, with_values, write

import gapless
from gapless.lessons import full_size


def test_what_is_looked_at_beside_the_step_is_on_no_clock():
    device = gapless.device("vgpu")
    x = torch.arange(3.0, device=device)

    def step():
        x.add(1)
        with unnoticed(device):
            assert x.sum().item() > 0
        write(x, [1, 2, 3])

    report = gapless.StepReport.from_trace(gapless.profile(step, steps=2, device=device))
    assert (report.kernels, report.syncs_per_step) == (1, 0)
    assert x.tolist() == [1, 2, 3]


def test_tensors_have_values_at_full_size_and_are_looked_at_on_no_clock():
    device = gapless.device("vgpu")
    with full_size(device):
        with with_values(device):
            x = torch.tensor(2.5, device=device)
        before = gapless.vgpu.timeline().host_ns
        assert values_of(x).device.type == "cpu" and peek(x) == 2.5
        write(x, 3)
        assert peek(x) == 3 and gapless.vgpu.timeline().host_ns == before
    assert values_of(7) == 7 and peek(torch.tensor(0.5)) == 0.5
