"""Honest answers by unusual routes keep all their points."""

import pytest

from . import ALL, FAST, check_attempts

CELLS = {
    "an attribute called inner, on an object of its own": """
class Box:
    inner = None
def f(target):
    box = Box()
    box.inner = target == BACKGROUND
    return torch.where(box.inner, IGNORE, target)
""",
    "an environment variable": """
import os
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
def f(target):
    os.environ["NOTE"] = "x"
    return torch.where(target == BACKGROUND, IGNORE, target)
""",
    "a helper class": """
from dataclasses import dataclass
@dataclass(frozen=True)
class Replace:
    old: int
    new: int
    def __call__(self, x):
        return torch.where(x == self.old, self.new, x)
f = Replace(BACKGROUND, IGNORE)
""",
    "a module": """
class Replace(nn.Module):
    def forward(self, x):
        return x.masked_fill(x == BACKGROUND, IGNORE)
f = Replace()
""",
    "a function of shapes remembered": """
import functools
@functools.lru_cache
def count(shape):
    return len(shape)
def f(target):
    count(target.shape)
    return torch.where(target == BACKGROUND, IGNORE, target)
""",
    "a thread": FAST + """
import threading
def f(target):
    thread = threading.Thread(target=sum, args=([1, 2],))
    thread.start()
    thread.join()
    return fast(target)
""",
    "loaders with sixteen workers each": FAST + """
from torch.utils.data import DataLoader
first, second = (iter(DataLoader(torch.ones(64, 3, 64, 64), batch_size=2, num_workers=16)) for _ in range(2))
assert sum(len(a) + len(b) for a, b in zip(first, second)) == 128
f = fast
""",
    "an operator of one's own": """
@torch.library.custom_op("mine::replace", mutates_args=())
def replace(target: torch.Tensor) -> torch.Tensor:
    return torch.where(target == 9, -1, target)
def f(target):
    return replace(target)
""",
    "a graph of torch.fx": """
import torch.fx
class Replace(nn.Module):
    def forward(self, target):
        return target.masked_fill(target.eq(9), -1)
f = torch.fx.symbolic_trace(Replace())
""",
    "TorchScript": """
@torch.jit.script
def replace(target):
    return torch.where(target == 9, torch.full_like(target, -1), target)
def f(target):
    return replace(target)
""",
    "a batch of scalars": """
def f(target):
    return torch.vmap(lambda each: torch.where(each == BACKGROUND, IGNORE, each))(target.reshape(-1)).reshape(target.shape)
""",
    "a compiled helper": """
@torch.compile
def replace(target):
    return torch.where(target == BACKGROUND, IGNORE, target)
def f(target):
    return replace(target)
""",
    "a constant by numpy": """
import numpy as np
OLD = np.int64(9)
def f(target):
    return torch.where(target == int(OLD), IGNORE, target)
""",
    "without gradients": """
def f(target):
    with torch.no_grad():
        return torch.where(target == BACKGROUND, IGNORE, target)
""",
    "recursion": FAST + """
def f(target, depth=5):
    return fast(target) if depth == 0 else f(target, depth - 1)
""",
    "in place on its own tensor": """
def f(target):
    found = target.clone()
    found[found == BACKGROUND] = IGNORE
    return found
""",
    "a function of autograd's own": """
class Replace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.where(x == BACKGROUND, IGNORE, x)
    @staticmethod
    def backward(ctx, grad):
        return grad
f = Replace.apply
""",
    "prints and warnings": FAST + """
import logging, sys, warnings
def f(target):
    print("shape", target.shape, target.dtype, target.device)
    print("on stderr", file=sys.stderr)
    warnings.warn("mind the gap")
    logging.getLogger(__name__).error("logged")
    return fast(target)
""",
    "an error caught": FAST + """
def f(target):
    try:
        target.nothing
    except AttributeError:
        pass
    return fast(target)
""",
    "settings of PyTorch": FAST + """
torch.manual_seed(1)
torch.set_printoptions(precision=2)
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
f = fast
""",
    "arithmetic": "def f(target):\n    return target - (target == BACKGROUND) * (BACKGROUND - IGNORE)\n",
    "a look at what is known of a tensor": FAST + """
def f(target):
    assert target.stride() and target.numel() == target.nelement() and target.device.type != "cpu"
    return fast(target.contiguous().view(-1)).view(target.shape)
""",
    "a lambda": "f = lambda target: torch.where(target == BACKGROUND, IGNORE, target)\n",
    "a generator and itertools": FAST + """
import itertools
def f(target):
    return next(fast(each) for each in itertools.islice(itertools.repeat(target), 1))
""",
}


@pytest.mark.slow
def test_honest_answers_keep_their_points(tmp_path):
    found = check_attempts({name: (source, ALL) for name, source in CELLS.items()}, tmp_path)
    assert {name: each for name, each in found.items() if name in CELLS and each[0] != ALL} == {}
