"""Lesson 00: what is right for ``predict_step_ms``."""

from __future__ import annotations

from .... import vgpu

LONG_RUN = 100  # steps


def right_step_ms(flops, bytes, launches, card):
    """The virtual GPU's clock for a step of kernels that reach the card's rates, in a long run. Who sets the pace, host or
    device, is the clock's finding: none of that is computed here."""
    modelled = vgpu.card() if vgpu.card().key == card.key else vgpu.find_card(card.key)
    timeline = vgpu.Timeline(modelled)
    durations = [max(modelled.kernel_floor_ns, round(1e9 * max(f / card.flops_per_s, b / card.bytes_per_s)))
                 for f, b in zip(flops, bytes)]

    def step():
        for duration_ns, count in zip(durations, launches):
            for _ in range(count):
                timeline.begin_op("operator")
                timeline.launch("kernel", duration_ns)
                timeline.end_op()

    step()
    timeline.synchronize_device()
    start_ns = timeline.host_ns
    for _ in range(LONG_RUN):
        step()
    timeline.synchronize_device()
    return (timeline.host_ns - start_ns) / LONG_RUN / 1e6
