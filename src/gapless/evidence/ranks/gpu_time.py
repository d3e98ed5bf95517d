"""How each rank's GPU spent its time, as Holistic Trace Analysis counts it.

The time is from the first work of the GPU in the trace to the end of the last, whatever the steps; copies and memsets are
work that is no computing. Numbers are those of ``get_temporal_breakdown`` and ``get_comm_comp_overlap`` (traceinsight 0.6.1,
``include_last_profiler_step=True``; the tests compare them); by default it leaves the last step out and rounds every event
to whole µs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..traces.communication import is_communication
from ..traces.intervals import intersection, length, union
from ..traces.steps import DEVICE_WORK
from ..traces.trace import TraceError
from .run import Traces, read_ranks


@dataclass(frozen=True)
class GpuTime:
    """One rank's GPU, in µs: ``computing`` kernels, ``other`` work (communication, copies) while none computed, ``idle``;
    ``overlap`` is the share of the communication during which the GPU computed too, None without communication."""

    rank: int
    computing_us: float
    other_us: float
    idle_us: float
    overlap: float | None

    @property
    def total_us(self) -> float:
        """From the first work to the end of the last."""
        return self.computing_us + self.other_us + self.idle_us


def gpu_time(traces: Traces, *, partial: bool = False) -> list[GpuTime]:
    """A row a rank. ``traces``, ``partial``: as :func:`gapless.views.read_ranks`. Raises TraceError as it does, and where a
    rank's GPU did nothing."""
    rows = []
    for rank, trace in read_ranks(traces, partial=partial).items():
        work = [span for span in trace.spans if span.category in DEVICE_WORK]
        if not work:
            raise TraceError(f"rank {rank} has no work of a GPU: record with ProfilerActivity.CUDA")
        everything = union((span.start_us, span.end_us) for span in work)
        computing = union((span.start_us, span.end_us) for span in work
                          if span.category == "kernel" and not is_communication(span))
        communication = union((span.start_us, span.end_us) for span in work if is_communication(span))
        busy_us, computing_us = length(everything), length(computing)
        overlap = length(intersection(computing, communication)) / length(communication) if len(communication) else None
        rows.append(GpuTime(rank, computing_us, busy_us - computing_us,
                            float(everything[-1, 1] - everything[0, 0]) - busy_us if len(everything) else 0.0, overlap))
    return rows
