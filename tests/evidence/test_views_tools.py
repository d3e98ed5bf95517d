"""Our views against TensorBoard's own, of the same traces. The plugin is in the extra ``tools``."""

import pytest
import torch

from gapless import vgpu
from gapless.evidence import views
from gapless.lessons.profiler_tour.workload import record, simulated, training_step
from gapless.measure import profiler
from gapless.measure.device import device as choose_device

pytest.importorskip("torch_tb_profiler", reason="needs torch-tb-profiler and tensorboard: pip install 'gapless[tools]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning:torch_tb_profiler")]

# Times reach the plugin in 1/1024 µs.
ROUNDING_US = 0.002


def convolutions(device):
    """A step on two streams, whose work is done long after the host has gone on."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                  torch.nn.Flatten(), torch.nn.Linear(32 * 31 * 31, 10)).to(device)
    optimizer = torch.optim.Adam(network.parameters())
    beside, other = torch.vgpu.Stream(), torch.ones(3_000, 3_000, device=device)
    beside.wait_stream(torch.vgpu.current_stream())

    def step():
        optimizer.zero_grad()
        with torch.vgpu.stream(beside):
            (other @ other).softmax(-1)
        network(torch.randn(8, 3, 64, 64, device=device)).logsumexp(1).sum().backward()
        optimizer.step()

    return step


def waiting(device):
    """A step of small kernels that reads its result back."""
    x = torch.ones(100, 100, device=device, requires_grad=True)

    def step():
        with torch.profiler.record_function("forward"):
            y = torch.nn.functional.layer_norm(x @ x, (100,)).sort().values
        y[y > 0].sum().backward()
        y.sum().item()

    return step


def resnet50(device):
    """A large step, whose tables lesson 01 shows beside the plugin's: hundreds of frees between two operators."""
    pytest.importorskip("torchvision")
    return training_step(4, device)


@pytest.fixture(scope="module", params=[convolutions, waiting, resnet50], ids=lambda step: step.__name__)
def trace(request):
    if request.param is resnet50:
        with simulated("h100") as device:
            return record(resnet50(device), device)
    device = choose_device("vgpu:a100")
    vgpu.timeline().reset()
    torch.manual_seed(0)
    step = request.param(device)
    with profiler.profile(device=device, schedule=profiler.schedule(wait=1, warmup=2, active=3, repeat=1), record_shapes=True,
                          profile_memory=True, with_stack=True) as prof:
        for _ in range(6):
            step()
            prof.step()
    return prof.trace


@pytest.fixture(scope="module")
def page(trace, tmp_path_factory):
    """The plugin's data of a run's folder."""
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader

    folder = tmp_path_factory.mktemp("log")
    trace.write_tensorboard(folder / "run")
    page, = RunLoader("run", str(folder / "run"), io.Cache(str(folder))).load().profiles.values()
    return page


def test_the_overview(page, trace):
    summary = {row["title"]: row["value"] for row in page.gpu_summary}
    for title, share in [("GPU Utilization", views.gpu_utilization(trace)), ("Est. SM Efficiency", views.sm_efficiency(trace)),
                         ("Est. Achieved Occupancy", views.achieved_occupancy(trace))]:
        assert float(summary[title].rstrip(" %")) == pytest.approx(100 * share, abs=0.006), title
        assert 0 < share < 1


def test_the_kernel_view(page, trace):
    columns = [column["name"] for column in page.kernel_table["data"]["columns"]]
    rows = {row[0]: dict(zip(columns, row)) for row in page.kernel_table["data"]["rows"]}
    ours = views.kernel_view(trace)
    assert {row.name for row in ours} == set(rows)
    assert ours == sorted(ours, key=lambda row: -row.total_us)
    for row in ours:
        theirs = rows[row.name]
        assert theirs["Calls"] == row.calls
        for name, value in [("Total Duration (us)", row.total_us), ("Mean Duration (us)", row.mean_us),
                            ("Max Duration (us)", row.max_us), ("Min Duration (us)", row.min_us)]:
            assert theirs[name] == pytest.approx(value, abs=0.51), name  # whole µs
        assert theirs["Mean Blocks Per SM"] == pytest.approx(row.blocks_per_sm, rel=3e-4, abs=0.006)
        assert theirs["Mean Est. Achieved Occupancy (%)"] == pytest.approx(100 * row.occupancy, abs=0.006)


def test_the_operator_view(page, trace):
    rows = {row["name"]: row for row in page.operation_table_by_name["data"]}
    ours = views.top_operators(trace, None)
    assert {row.name for row in ours} == set(rows)
    for row in ours:
        theirs = rows[row.name]
        assert theirs["calls"] == row.calls
        for name, value in [("device_self_duration", row.device_self_us), ("device_total_duration", row.device_total_us),
                            ("host_self_duration", row.host_self_us), ("host_total_duration", row.host_total_us)]:
            assert theirs[name] == pytest.approx(value, abs=0.51), (row.name, name)  # whole µs


def test_the_memory_view(page, trace):
    stats = page.get_memory_stats(memory_metric="B")
    rows = {row[0]: row[1:] for row in stats["rows"]["GPU0"]}
    ours = {row.name: row for row in views.memory_by_operator(trace)}
    assert set(ours) == set(rows)
    for name, (calls, increase, self_increase, allocations, self_allocations, allocated, self_allocated) in rows.items():
        row = ours[name]
        assert (row.calls, row.allocations, row.self_allocations) == (calls, allocations, self_allocations), name
        assert (row.allocation_bytes, row.self_allocation_bytes) == (allocated, self_allocated), name
        assert (row.size_increase_bytes, row.self_size_increase_bytes) == (increase, self_increase), name


def test_the_timeline(trace):
    buckets = views.utilization_timeline(trace, 50)
    assert len(buckets) == 50 and all(0 <= b.gpu_utilization <= 1.0000001 and b.sm_efficiency <= b.gpu_utilization + 1e-9
                                      for b in buckets)
