"""A small network on images of 28×28, from a loader in the main process; the loss is read at each step."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
steps = int(os.environ.get("STEPS", 1000))
model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.Adadelta(model.parameters())
data = TensorDataset(torch.rand(64 * steps, 1, 28, 28), torch.randint(10, (64 * steps,)))
for x, y in DataLoader(data, 64, shuffle=True):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    assert loss.item() < 100
