"""Lesson 09: quick questions."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from ...course.quick import COLLECTIVES, Quick, QuickQuestions

_OURS: list[bool] = []  # whether the process group is the questions' own


def _setup(device: torch.device) -> dict:
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "vccl", store=dist.HashStore(), rank=0, world_size=1)
        _OURS.append(True)
    net = nn.Linear(8, 4).to(device)
    with_norm = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).to(device)
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    x = torch.ones(16, 8, device=device)
    ddp(x).sum().backward()
    return {"x": x, "net": net, "ddp": ddp, "optimizer": optimizer, "with_norm": DistributedDataParallel(with_norm),
            "dist": dist, "DistributedDataParallel": DistributedDataParallel, "DistributedSampler": DistributedSampler}


def _put_away() -> None:
    if _OURS:
        _OURS.clear()
        dist.destroy_process_group()


QUICK = QuickQuestions(
    question=("Does this line send anything from GPU to GPU (a collective)? (`net` is a linear layer, `ddp = "
              "DistributedDataParallel(net)`. `with_norm` is another, with a BatchNorm in it. Here the group has one "
              "rank, but each of its collectives counts.)"),
    counts=COLLECTIVES,
    setup=_setup,
    questions=(
        Quick("y = DistributedDataParallel(net)", "All ranks compare their parameters' shapes, and take rank 0's values."),
        Quick("y = ddp(x)", "Each rank computes with its own samples. The weights are already equal, and there are no "
                            "buffers."),
        Quick("ddp(x).sum().backward()", "It sends the gradients' mean, a bucket at a time, during the backward pass."),
        Quick("optimizer.step()", "All ranks have the same gradients, and take the same step."),
        Quick("with ddp.no_sync(): ddp(x).sum().backward()",
                "The gradients stay on their rank until a backward pass without `no_sync`."),
        Quick("ddp.module(x).sum().backward()", "The module inside knows nothing about DDP. Nothing is averaged, and "
                                                "from here on the ranks' weights drift apart."),
        Quick("y = with_norm(x)", "The norm's running statistics are rank 0's: DDP broadcasts them before each forward "
                                  "pass."),
        Quick("state = ddp.state_dict()", "A rank reads its own weights without the others. All ranks may do so, and one "
                                          "is enough."),
        Quick("order = list(DistributedSampler(range(64), 4, 0))",
                "Each rank computes the same order from the same seed, and takes its share. No message is sent."),
        Quick("dist.barrier()", "It carries no data, and all wait for the last."),
    ),
    put_away=_put_away,
)
