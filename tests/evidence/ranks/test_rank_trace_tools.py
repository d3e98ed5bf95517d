"""What the field's tools read in the traces of ranks: HTA's overlap, breakdown and stragglers, TensorBoard's distributed view."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gapless
from gapless import vgpu
from gapless.evidence.report import union_ms

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning:hta", "ignore::Warning:torch_tb_profiler")]
SLOW = 1


def train(rank, world, bucket_mb):
    """Rank :data:`SLOW` has batches of twice the size."""
    dist.init_process_group()
    device = torch.device("vgpu:0")
    with vgpu.shape_only():
        model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(6)]).to(device),
                                        bucket_cap_mb=bucket_mb)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            model(torch.randn(1024 * (1 + (rank == SLOW)), 2048, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.vgpu.synchronize()
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[25, 1000], ids=["several buckets", "one bucket"])
def results(request, tmp_path_factory):
    return gapless.on_gpus(2, train, request.param, device="a10g", traces=tmp_path_factory.mktemp("ranks"), trace_steps=(1, 4))


def kernels(result):
    """(of collectives, others), of all that was traced."""
    spans = [span for span in result.read_trace().spans if span.category == "kernel"]
    return ([span for span in spans if span.name.startswith("nccl")], [span for span in spans if not span.name.startswith("nccl")])


def test_hta_reads_them(results, request):
    pytest.importorskip("hta", reason="needs traceinsight: pip install 'gapless[tools]'")
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_dir=str(results[0].trace.parent), include_last_profiler_step=True)
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    for result in results:
        communication, others = kernels(result)
        both_ms = union_ms(communication) + union_ms(others) - union_ms(sorted(communication + others, key=lambda span: span.start_us))
        assert overlap[result.rank] == pytest.approx(100 * both_ms / union_ms(communication), abs=0.5)
        rounding_us = 2 * (len(communication) + len(others))  # it rounds each to whole µs
        assert breakdown["compute_time(us)"][result.rank] == pytest.approx(1e3 * union_ms(others), abs=rounding_us)
    if "one bucket" in request.node.name:
        # It compares where the last long collectives begin: of several buckets that is where the one before has ended, for all.
        assert analysis.get_potential_stragglers(num_candidates=1) == [SLOW]
    else:
        assert 10 < overlap[SLOW] < 100


def test_tensorboard_reads_them(results, tmp_path):
    pytest.importorskip("torch_tb_profiler", reason="needs torch-tb-profiler: pip install 'gapless[tools]'")
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader

    (tmp_path / "run").mkdir()
    for result in results:
        result.read_trace().write(tmp_path / "run" / f"host_{result.rank}.1700000000000.pt.trace.json.gz")
    pages = RunLoader("run", str(tmp_path / "run"), io.Cache(str(tmp_path))).load().profiles
    view = next(page for (worker, _), page in pages.items() if worker == "All")
    waits = view.steps_to_wait["data"]["all"]
    transfer = {worker: times[0] for worker, times in waits.items()}
    waited = {worker: times[1] for worker, times in waits.items()}
    assert len(set(transfer.values())) == 1 and min(transfer.values()) > 0
    slow, fast = (next(worker for worker in waits if worker.startswith(f"host_{rank}")) for rank in (SLOW, 1 - SLOW))
    assert waited[fast] > 1000 > waited[slow]
