"""Each rank's GPU time by hand; Holistic Trace Analysis is asked in test_distributed_tools.py."""

import pytest

from gapless.evidence.ranks.gpu_time import GpuTime, gpu_time
from gapless.evidence.traces.trace import TraceError

from ..kineto_events import kernel, memcpy, op
from ..rank_events import collective, rank


def test_copies_and_communication_are_work_that_is_no_computing():
    busy = rank(0, kernel(10, 40, 1), kernel(30, 40, 2, stream=24), memcpy("HtoD", 65, 15, 3), *collective(0, 50, 50, 4))
    quiet = rank(1, kernel(10, 20, 1), memcpy("HtoD", 50, 10, 2))
    # Rank 0: computes 10 … 70, communicates 50 … 100, copies 65 … 80.
    assert gpu_time([busy, quiet]) == [GpuTime(0, 60, 30, 0, 0.4), GpuTime(1, 20, 10, 20, None)]
    assert gpu_time([busy, quiet])[0].total_us == 90


def test_a_rank_without_a_gpu_is_said():
    with pytest.raises(TraceError, match="rank 1 has no work of a GPU"):
        gpu_time([rank(0, kernel(0, 1)), rank(1, op("aten::mm", 0, 1))])
