"""Small training scripts of the kinds that people write."""

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
