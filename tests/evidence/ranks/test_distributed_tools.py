"""The distributed view against TensorBoard's plugin and Holistic Trace Analysis, on the same traces of several ranks."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist

import gapless
from gapless.evidence.ranks.distributed import distributed_view
from gapless.evidence.ranks.gpu_time import gpu_time
from gapless.evidence.ranks.run import read_ranks
from gapless.evidence.ranks.straggler import straggler
from gapless.evidence.traces.communication import find_collectives
from gapless.evidence.traces.tensorboard import name_in_tensorboard
from gapless.evidence.traces.trace import Trace
from gapless.lessons.data_parallel.find_straggler.traces import even_plan, simulate

from ..rank_events import REAL_RANK_0, REAL_RANK_1, real_rank_and_its_twin
from ..rank_runs import COMPUTE, INPUT, rank_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning:hta", "ignore::Warning:torch_tb_profiler")]

# Times reach the plugin in 1/1024 µs.
ROUNDING_US = 0.01


def uneven(seed, **more):
    """Ranks that differ in everything, by chance."""
    rng = np.random.default_rng(seed)
    world = int(rng.choice([2, 4, 6])) if more.get("grid", 1) > 1 else int(rng.integers(2, 6))
    plan = even_plan(rng, world, steps=int(rng.integers(2, 5)), **more)
    return replace(plan, kernel=plan.kernel * rng.uniform(0.7, 1.5, plan.kernel.shape), noise=0.1,
                   load=plan.load * rng.choice([1, 20], plan.load.shape), beside=rng.integers(0, 3, world),
                   parts=rng.integers(1, 3, world), skew=rng.uniform(0, 300, world))


PLANS = {"runs ahead": uneven(0), "waits": uneven(1, waits=True), "one bucket": uneven(2, buckets=1, waits=True),
         "older names": uneven(3, older=True), "two groups, waits": uneven(4, grid=2, waits=True)}


def uneven_training(rank, world):
    """Steps of DistributedDataParallel in which the last rank has eight times the others' samples."""
    dist.init_process_group("nccl")
    network = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(3))).to("vgpu:0")
    model = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.ones(256 if rank == world - 1 else 32, 1024, device="vgpu:0")
    for _ in range(4):
        optimizer.zero_grad()
        model(samples).square().mean().backward()
        optimizer.step()


@pytest.fixture(scope="module")
def virtual_gpus(tmp_path_factory):
    """The folder of their traces."""
    folder = tmp_path_factory.mktemp("ranks")
    gapless.on_gpus(3, uneven_training, device="t4", traces=folder)
    return folder


def without_steps(events):
    return [event for event in events if not event["name"].startswith("ProfilerStep#")]


def without_the_last_steps_work(events):
    """As where the profiler stops too early: the step is left out."""
    last = max(event["ts"] for event in events if event["name"].startswith("ProfilerStep#"))
    launched = {event["args"].get("correlation") for event in events if event["cat"] == "cuda_runtime" and event["ts"] > last}
    return [event for event in events if event["cat"] not in ("kernel", "gpu_memcpy") or event["args"]["correlation"] not in launched]


CHANGED = {"no steps": without_steps, "the last step's work is missed": without_the_last_steps_work}


@pytest.fixture(scope="module", params=[*PLANS, *CHANGED, "a real rank", "three virtual GPUs"])
def traces(request):
    if request.param in PLANS:
        return simulate(PLANS[request.param])
    if request.param in CHANGED:
        return [Trace(CHANGED[request.param](trace.events), trace.metadata) for trace in simulate(uneven(5, waits=True))]
    if request.param == "a real rank":
        return real_rank_and_its_twin()
    return list(read_ranks(request.getfixturevalue("virtual_gpus")).values())


@pytest.fixture(scope="module")
def groups(traces):
    """How many process groups there are."""
    return len({each.group for trace in traces for each in find_collectives(trace)})


@pytest.fixture(scope="module")
def page(traces, tmp_path_factory):
    """The plugin's data of all workers together; without its processes, which take seconds each to start."""
    pytest.importorskip("torch_tb_profiler", reason="needs torch-tb-profiler and tensorboard: pip install 'gapless[tools]'")
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData
    from torch_tb_profiler.profiler.loader import RunLoader
    from torch_tb_profiler.run import Run

    folder = tmp_path_factory.mktemp("log")
    run = Run("run", str(folder))
    for rank, trace in enumerate(traces):
        path = trace.write_tensorboard(folder, f"worker_{rank}")
        run.add_profile(DistributedRunProfileData(RunProfileData.parse(f"worker_{rank}", None, str(path), str(folder))))
    page, = RunLoader("run", str(folder), io.Cache(str(folder)))._process_spans(run)
    return page


@pytest.fixture(scope="module")
def view(traces):
    return distributed_view(traces)


def test_tensorboard_divides_the_steps_as_we_do(page, view):
    theirs = page.steps_to_overlap["data"]
    assert {row.step for row in view.step_times} == set(theirs) - {"all"}
    for row in view.step_times:
        assert theirs[row.step][f"worker_{row.rank}"] == pytest.approx(
            [row.computing_us, row.overlap_us, row.communication_us, row.other_us], abs=ROUNDING_US * 50)
    for row in view.times:
        # Whole µs, cut off after each step's sum.
        assert theirs["all"][f"worker_{row.rank}"] == pytest.approx(
            [row.computing_us, row.overlap_us, row.communication_us, row.other_us], abs=1.5)


def test_tensorboard_tells_waiting_from_transfer_as_we_do(page, view, groups):
    if groups > 1:
        pytest.skip("the plugin knows no process groups: it compares the i-th collective of all ranks")
    theirs = page.steps_to_wait["data"]
    assert {(row.step or None, row.rank) for row in view.step_waiting} == {
        (step, int(worker.removeprefix("worker_"))) for step, found in theirs.items() if step != "all" for worker in found}
    for row in view.step_waiting:
        assert theirs[row.step or None][f"worker_{row.rank}"] == pytest.approx([row.transfer_us, row.waiting_us],
                                                                               abs=ROUNDING_US * 50)
    for row in view.waiting:
        steps = len({each.step for each in view.step_waiting if each.rank == row.rank})
        of_run = sum(each.rank == row.rank for each in view.step_times)
        theirs_us = [us * steps for us in theirs["all"][f"worker_{row.rank}"]]  # they divide by the steps that have any
        assert theirs_us == pytest.approx([row.transfer_us * of_run, row.waiting_us * of_run], abs=1.5 * steps)


def test_tensorboards_table_of_collectives_is_ours(page, view, groups, traces):
    theirs = {(worker, row[0]): row[1:] for worker, table in page.comm_ops["data"].items() for row in table["rows"]}
    assert set(theirs) == {(f"worker_{row.rank}", name_in_tensorboard(row.name)) for row in view.collectives}
    for row in view.collectives:
        calls, size, mean, latency_us, _, transfer_us, _ = theirs[f"worker_{row.rank}", name_in_tensorboard(row.name)]
        assert calls == row.calls
        if traces[0].simulated:
            assert (size, mean) == (row.total_bytes, round(row.mean_bytes))
        else:  # recorded without shapes: the plugin knows no sizes, the operators around the calls do
            assert size == 0 < row.total_bytes
        assert latency_us == pytest.approx(row.latency_us, abs=ROUNDING_US * 50)
        if groups == 1:  # as above
            assert transfer_us == pytest.approx(row.transfer_us, abs=ROUNDING_US * 50)


# -- Holistic Trace Analysis ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact():
    """HTA rounds every event inwards to whole µs unless told not to."""
    env_options = pytest.importorskip("hta.configs.env_options", reason="needs traceinsight: pip install 'gapless[tools]'")
    options = env_options.HTAEnvOptions.instance()
    before = options.disable_ns_rounding()
    options.set_disable_ns_rounding(True)
    yield
    options.set_disable_ns_rounding(before)


def analysis(folder):
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)


def same_gpu_time(found, overlap, rows):
    assert list(found["rank"]) == list(overlap["rank"]) == [row.rank for row in rows]
    for row, theirs, theirs_overlap in zip(rows, found.to_dict("records"), overlap["comp_comm_overlap_pctg"]):
        for name, us in [("compute_time(us)", row.computing_us), ("non_compute_time(us)", row.other_us),
                         ("idle_time(us)", row.idle_us), ("kernel_time(us)", row.total_us)]:
            assert theirs[name] == pytest.approx(us, abs=0.2), (row.rank, name)  # the sums of moments of 4e12 µs
        assert theirs_overlap == pytest.approx(100 * row.overlap, abs=0.0051)


def test_hta_divides_each_gpus_time_as_we_do(traces, exact, tmp_path):
    for rank, trace in enumerate(traces):
        trace.write(tmp_path / f"rank{rank}.json.gz")
    hta = analysis(tmp_path)
    rows = gpu_time(tmp_path)
    assert len(rows) == len(traces)
    same_gpu_time(hta.get_temporal_breakdown(visualize=False), hta.get_comm_comp_overlap(visualize=False), rows)


def test_hta_and_we_read_two_real_ranks_alike(exact, tmp_path):
    for path in (REAL_RANK_0, REAL_RANK_1):
        shutil.copy(path, tmp_path)
    hta = analysis(tmp_path)
    rows = gpu_time(tmp_path, partial=True)
    same_gpu_time(hta.get_temporal_breakdown(visualize=False), hta.get_comm_comp_overlap(visualize=False), rows)


@pytest.mark.parametrize("cause, waits", [(COMPUTE, True), (COMPUTE, False), (INPUT, True), (INPUT, False)])
def test_hta_suspects_the_rank_that_we_find(cause, waits, exact, tmp_path):
    """It goes by the last start, by the clocks, of collectives that take at least a hundredth of a step, and knows the older
    names alone: with smaller collectives the late rank's own are no candidates."""
    run = rank_run(np.random.default_rng(4), cause, waits=waits, grid=1, world=4, distracted=False, older=True,
                   elements=2_000_000)
    for trace in run.traces:
        trace.write(tmp_path / f"rank{trace.metadata['distributedInfo']['rank']}.json.gz")
    found = straggler(tmp_path)
    assert (found.rank, found.cause) == (run.rank, cause)
    assert analysis(tmp_path).get_potential_stragglers(num_candidates=1) == [found.rank]


def test_hta_suspects_the_virtual_gpu_that_has_more_samples(virtual_gpus, exact):
    """With smaller buckets the last one queues behind another on every rank: HTA then sees all start at once."""
    found = straggler(virtual_gpus)
    assert (found.rank, found.cause) == (2, COMPUTE)
    assert analysis(virtual_gpus).get_potential_stragglers(num_candidates=1) == [2]
