"""An LSTM over words, trained by hand without an optimizer."""

import os

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
words, width = 2000, 200
embedding, rnn, head = nn.Embedding(words, width), nn.LSTM(width, width, 2), nn.Linear(width, words)
model = nn.ModuleList([embedding, rnn, head]).to(device)
text = torch.randint(words, (36, 20)).to(device)
state = tuple(torch.zeros(2, 20, width, device=device) for _ in range(2))
total = 0.0
for _ in range(int(os.environ.get("STEPS", 1000))):
    model.zero_grad()
    output, state = rnn(embedding(text[:-1]), tuple(each.detach() for each in state))
    loss = F.cross_entropy(head(output).flatten(0, 1), text[1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=-20)
    total += loss.item()
