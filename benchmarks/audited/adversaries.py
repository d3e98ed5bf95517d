"""A generator of images and its critic, an optimizer each."""

import os

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def up(inside, outside, *arguments):
    return nn.ConvTranspose2d(inside, outside, 4, *arguments, bias=False), nn.BatchNorm2d(outside), nn.ReLU()


def down(inside, outside):
    return nn.Conv2d(inside, outside, 4, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2)


maker = nn.Sequential(*up(64, 128, 1, 0), *up(128, 64, 2, 1), *up(64, 32, 2, 1), nn.ConvTranspose2d(32, 3, 4, 2, 1))
maker.to(device)
judge = nn.Sequential(*down(3, 32), *down(32, 64), *down(64, 128), nn.Conv2d(128, 1, 4), nn.Flatten(0)).to(device)
first, second = (torch.optim.Adam(each.parameters(), lr=2e-4) for each in (judge, maker))
for step in range(int(os.environ.get("STEPS", 1000))):
    real, made = torch.rand(16, 3, 32, 32).to(device), maker(torch.randn(16, 64, 1, 1, device=device))
    first.zero_grad()
    loss = F.softplus(-judge(real)).mean() + F.softplus(judge(made.detach())).mean()
    loss.backward()
    first.step()
    second.zero_grad()
    fooled = F.softplus(-judge(made)).mean()
    fooled.backward()
    second.step()
    if step % 10 == 0:
        print(f"{loss.item():.3f} {fooled.item():.3f}")
