"""What is switched on without a change of the script does what it would do in the script."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gapless
from gapless.audit.switches import SWITCHES, switched
from gapless.commands import audit as command
from gapless.vgpu import as_cuda


@pytest.fixture(autouse=True)
def cuda():
    with as_cuda.install("a100"):
        yield


def kernels(step):
    return {span.name for span in gapless.profile(step, device="vgpu:0", steps=1).spans if span.category == "kernel"}


def step(optimizer=torch.optim.AdamW, **arguments):
    torch.manual_seed(0)
    model = nn.Linear(256, 256).cuda()
    made, x = optimizer(model.parameters(), **arguments), torch.randn(256, 256, device="cuda")

    def run():
        made.zero_grad()
        model(x).pow(2).mean().backward()
        made.step()

    return run


def names(words, found):
    return any(words in name for name in found)


def test_the_command_knows_them():
    assert command._SWITCHES == tuple(SWITCHES)


def test_fused():
    assert not names("fused_adamw", kernels(step()))
    with switched("fused"):
        assert names("fused_adamw", kernels(step())) and names("fused_sgd", kernels(step(torch.optim.SGD, lr=0.1)))
        assert not names("fused", kernels(step(foreach=True))) and not names("fused", kernels(step(fused=False)))
        assert not names("fused", kernels(step(torch.optim.RMSprop)))
    assert not names("fused_adamw", kernels(step()))


def test_precisions():
    before = torch.backends.cuda.matmul.allow_tf32
    with switched("tf32"):
        assert names("tf32", kernels(step())) and torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before and not names("tf32", kernels(step()))
    with switched("amp"):
        assert names("bfloat16", kernels(step()))
    assert not names("bfloat16", kernels(step()))


def test_compile():
    def run():
        nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).cuda()(torch.randn(8, 64, device="cuda")).sum().backward()

    assert not names("triton", kernels(run))
    with switched("compile"):
        assert names("triton", kernels(run))
    assert not names("triton", kernels(run))


def test_benchmark():
    with switched("benchmark"):
        assert torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.benchmark


def test_loaders():
    data = TensorDataset(torch.zeros(8, 2))
    with switched("workers"):
        loaders = DataLoader(data, 4), DataLoader(data, 4, num_workers=2), DataLoader(data, 4, False, None, None, 1)
    assert [loader.num_workers for loader in loaders] == [4, 2, 1] and DataLoader(data).num_workers == 0

    def move():
        for (batch,) in loader:
            batch.to("cuda")

    def waits():
        return gapless.StepReport.from_trace(gapless.profile(move, device="vgpu:0")).syncs_per_step

    loader = DataLoader(data, 4)
    assert waits() == 2
    with switched("pinned"):
        loader = DataLoader(data, 4)
        assert waits() == 0
    assert waits() == 2
