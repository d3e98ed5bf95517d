"""A variational autoencoder with a loader of two workers."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
steps = int(os.environ.get("STEPS", 1000))
before = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40)).to(device)
after = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784)).to(device)
optimizer = torch.optim.Adam([*before.parameters(), *after.parameters()], lr=1e-3)
total = 0.0
for (x,) in DataLoader(TensorDataset(torch.rand(128 * steps, 784)), 128, num_workers=2, pin_memory=True):
    x = x.to(device, non_blocking=True)
    mean, log_variance = before(x).chunk(2, 1)
    again = after(mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance))
    loss = (F.binary_cross_entropy_with_logits(again, x, reduction="sum")
            - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
