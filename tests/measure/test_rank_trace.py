"""Traces of ranks, by steps of the optimizer."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gapless
from gapless import RankError


def train(rank, world):
    dist.init_process_group()
    model = DistributedDataParallel(torch.nn.Linear(256, 256).to("vgpu:0"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.randn(16, 256, device="vgpu:0")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


def test_the_steps_asked_for(tmp_path):
    results = gapless.on_gpus(2, train, traces=tmp_path / "log", trace_steps=(1, 2))
    for rank, result in enumerate(results):
        trace = result.read_trace()
        assert result.trace.name == f"rank{rank}.json.gz"
        assert trace.metadata["distributedInfo"] == {"backend": "nccl", "rank": rank, "world_size": 2}
        names = [event["name"] for event in trace.events if event.get("cat") == "user_annotation"]
        assert [name for name in names if name.startswith("ProfilerStep")] == ["ProfilerStep#1", "ProfilerStep#2"]
        assert names.count("nccl:all_reduce") == 2
        kernels = [event for event in trace.events if event["name"].startswith("ncclKernel_AllReduce_RING")]
        assert len(kernels) == 2 and kernels[0]["args"]["In msg nelems"] == 256 * 257
        assert kernels[0]["tid"] != 7  # a stream of their own


def test_without_an_optimizer_it_is_one_step(tmp_path):
    result, = gapless.on_gpus(1, lambda rank, world: torch.ones(3, device="vgpu:0").sum().item(), traces=tmp_path)
    assert [event["name"] for event in result.read_trace().events if "ProfilerStep" in event["name"]] == ["ProfilerStep#0"]


def test_steps_that_do_not_come_are_an_error(tmp_path):
    with pytest.raises(RankError, match="steps 4 to 5 should be traced, but the program has made only 4"):
        gapless.on_gpus(2, train, traces=tmp_path, trace_steps=(4, 5))
    assert not list(tmp_path.iterdir())


def test_none_were_asked_for():
    result, = gapless.on_gpus(1, lambda rank, world: None)
    with pytest.raises(ValueError, match="no traces were recorded"):
        result.read_trace()
