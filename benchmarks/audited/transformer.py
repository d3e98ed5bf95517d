"""A small GPT in mixed precision, gradients of four batches a step, a fused optimizer."""

import os

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
words, width, length = 512, 128, 64
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (4, -1)).transpose(1, 2) for each in self.three(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.wide(self.second(x))


model = nn.Sequential(nn.Embedding(words, width), *[Block() for _ in range(4)], nn.Linear(width, words)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), fused=device.type == "cuda")
for step in range(int(os.environ.get("STEPS", 1000))):
    for _ in range(4):
        x = torch.randint(words, (4, length + 1)).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()) / 4
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 0:
        print(loss.item())
