"""Small training scripts of the kinds that people write, and one run of one in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8).cuda(), torch.randint(4, (16,)).cuda()
"""
WAITING = HEAD + """
for step in range(50):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() > 100:
        print("large")
raise SystemExit("never reached")
"""
FREE = WAITING.replace("if loss.item() > 100", "if step > 100")


def gapless(folder: Path, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess:
    """``gapless`` with these arguments, in this folder."""
    return subprocess.run([sys.executable, "-m", "gapless.commands.cli", *arguments], cwd=folder, text=True, timeout=timeout_s,
                          capture_output=True)
