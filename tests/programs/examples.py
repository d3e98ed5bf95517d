"""Training loops of the kinds in pytorch/examples, written anew at small sizes."""

from __future__ import annotations

import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from . import program, train

GROUP = "loops as in pytorch/examples"


def images(count, channels, side, classes):
    return torch.rand(count, channels, side, side), torch.randint(0, classes, (count,))


@program(GROUP)
def mnist(device):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
            self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
            self.fc1, self.fc2 = nn.Linear(16 * 12 * 12, 32), nn.Linear(32, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
            x = F.relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
            return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)

    model = Net().to(device)
    data = TensorDataset(*images(32, 1, 28, 10))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    found = {}
    for epoch in range(2):
        model.train()
        for x, y in DataLoader(data, 8, shuffle=True):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.nll_loss(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            output = torch.cat([model(x.to(device)) for x, _ in DataLoader(data, 16)])
            targets = data.tensors[1].to(device)
            found[f"loss {epoch}"] = F.nll_loss(output, targets, reduction="sum").item()
            found[f"right {epoch}"] = output.argmax(1, keepdim=True).eq(targets.view_as(output.argmax(1, keepdim=True))).sum()
        schedule.step()
    return found | dict(model.named_parameters())


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.side = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + self.side(x))


@program(GROUP)
def imagenet(device):
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    found = train(model, device, [images(8, 3, 64, 10) for _ in range(3)], lambda m, x, y: F.cross_entropy(m(x), y),
                  lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-4))
    x, y = images(8, 3, 64, 10)
    model.eval()
    with torch.no_grad():
        best = model(x.to(device)).topk(5, 1)[1].t()
        right = best.eq(y.to(device).view(1, -1).expand_as(best))
    return found | {f"right of {k}": right[:k].reshape(-1).float().sum(0) for k in (1, 5)}


@program(GROUP)
def word_language_model_lstm(device):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.rnn, self.decoder = nn.Embedding(40, 16), nn.LSTM(16, 16, 2), nn.Linear(16, 40)
            self.decoder.weight = self.encoder.weight

        def forward(self, x, state):
            output, state = self.rnn(self.encoder(x), state)
            return F.log_softmax(self.decoder(output).view(-1, 40), 1), state

    model, text = Words().to(device), torch.randint(0, 40, (61, 4)).to(device)
    state = tuple(torch.zeros(2, 4, 16, device=device) for _ in range(2))
    found = {}
    for start in range(0, 60, 20):
        model.zero_grad()
        state = tuple(each.detach() for each in state)
        output, state = model(text[start:start + 20], state)
        loss = F.nll_loss(output, text[start + 1:start + 21].reshape(-1))
        loss.backward()
        found[f"norm {start}"] = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        found[f"loss {start}"] = loss.item()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-20)
    return found | dict(model.named_parameters())


@program(GROUP)
def word_language_model_transformer(device):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Embedding(40, 16), nn.Linear(16, 40)
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(len(x)).to(x.device)
            return self.decoder(self.layers(self.encoder(x) * 4, mask=mask)).view(-1, 40)

    batches = [(text[:-1], text[1:].reshape(-1)) for text in torch.randint(0, 40, (3, 21, 4))]
    return train(Words(), device, batches, lambda m, x, y: F.cross_entropy(m(x), y))


@program(GROUP)
def vae(device):
    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside, self.mean, self.log_variance = nn.Linear(64, 32), nn.Linear(32, 8), nn.Linear(32, 8)
            self.outside = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

        def forward(self, x):
            hidden = F.relu(self.inside(x.view(-1, 64)))
            mean, log_variance = self.mean(hidden), self.log_variance(hidden)
            deviation = torch.exp(0.5 * log_variance)
            return self.outside(mean + torch.randn_like(deviation) * deviation), mean, log_variance

    def loss(model, x):
        again, mean, log_variance = model(x)
        return (F.binary_cross_entropy(again, x.view(-1, 64), reduction="sum")
                - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp()))

    return train(Coder(), device, [(torch.rand(8, 1, 8, 8),) for _ in range(3)], loss,
                 lambda p: torch.optim.Adam(p, lr=1e-3))


@program(GROUP)
def dcgan(device):
    def begin(module):
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)

    maker = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                          nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh()).apply(begin).to(device)
    judge = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
                          nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid()).apply(begin).to(device)
    first, second = (torch.optim.Adam(each.parameters(), lr=2e-4, betas=(0.5, 0.999)) for each in (judge, maker))
    found = {}
    for step in range(3):
        judge.zero_grad()
        real = torch.rand(4, 3, 8, 8).to(device)
        label = torch.full((4,), 1.0, dtype=real.dtype, device=device)
        loss = F.binary_cross_entropy(judge(real).view(-1), label)
        loss.backward()
        made = maker(torch.randn(4, 8, 1, 1, device=device))
        label.fill_(0)
        false = F.binary_cross_entropy(judge(made.detach()).view(-1), label)
        false.backward()
        first.step()
        maker.zero_grad()
        label.fill_(1)
        fooled = F.binary_cross_entropy(judge(made).view(-1), label)
        fooled.backward()
        second.step()
        found |= {f"judge {step}": (loss + false).item(), f"maker {step}": fooled.item()}
    return found | {f"maker {n}": p for n, p in maker.state_dict().items()} | dict(judge.named_parameters())


@program(GROUP)
def super_resolution(device):
    model = nn.Sequential(nn.Conv2d(1, 16, 5, 1, 2), nn.ReLU(), nn.Conv2d(16, 9, 3, 1, 1), nn.PixelShuffle(3))
    for module in (model[0], model[2]):
        nn.init.orthogonal_(module.weight)
    batches = [(torch.rand(4, 1, 8, 8), torch.rand(4, 1, 24, 24)) for _ in range(3)]
    return train(model, device, batches, lambda m, x, y: F.mse_loss(m(x), y), lambda p: torch.optim.Adam(p, lr=1e-3))


@program(GROUP)
def time_sequence_prediction(device):
    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8), nn.Linear(8, 1)

        def forward(self, x, future=0):
            h1, c1, h2, c2 = (torch.zeros(x.size(0), 8, dtype=x.dtype, device=x.device) for _ in range(4))
            outputs = []
            for step in [*x.split(1, dim=1), *[None] * future]:
                h1, c1 = self.lstm1(outputs[-1] if step is None else step, (h1, c1))
                h2, c2 = self.lstm2(h1, (h2, c2))
                outputs.append(self.linear(h2))
            return torch.cat(outputs, dim=1)

    model = Sequence().double().to(device)
    waves = torch.sin(torch.arange(12.0, dtype=torch.float64) / 2 + torch.arange(3.0, dtype=torch.float64)[:, None]).to(device)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=5)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(waves[:, :-1]), waves[:, 1:])
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        optimizer.step(closure)
    with torch.no_grad():
        future = model(waves, future=5)
    return {"losses": torch.tensor(losses, dtype=torch.float64), "future": future}


def pole(state, action):
    """A pole on a cart, one step of its motion: the next state, its reward, and whether it has fallen."""
    position, speed, angle, spin = state.tolist()
    force = 10.0 if action == 1 else -10.0
    spin += 0.02 * (9.8 * angle - force / 1.1) / 0.6
    angle, speed = angle + 0.02 * spin, speed + 0.02 * force / 1.1
    return torch.tensor([position + 0.02 * speed, speed, angle, spin]), 1.0, abs(angle) > 0.3


def returns(rewards, device):
    found, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.99 * total
        found.insert(0, total)
    found = torch.tensor(found, device=device)
    return (found - found.mean()) / (found.std() + 1e-6)


@program(GROUP)
def reinforce(device):
    policy = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.6), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(1)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    found = {}
    for episode in range(3):
        state, saved, rewards = torch.rand(4) * 0.1, [], []
        for _ in range(20):
            chances = torch.distributions.Categorical(policy(state.unsqueeze(0).to(device)))
            action = chances.sample()
            saved.append(chances.log_prob(action))
            state, reward, fallen = pole(state, action.item())
            rewards.append(reward)
            if fallen:
                break
        loss = torch.cat([-log * value for log, value in zip(saved, returns(rewards, device))]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found |= {f"loss {episode}": loss.item(), f"steps {episode}": len(rewards)}
    return found | dict(policy.named_parameters())


@program(GROUP)
def actor_critic(device):
    body, actor, critic = nn.Linear(4, 16).to(device), nn.Linear(16, 2).to(device), nn.Linear(16, 1).to(device)
    parameters = [*body.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-2)
    found = {}
    for episode in range(3):
        state, saved, rewards = torch.rand(4) * 0.1, [], []
        for _ in range(20):
            hidden = F.relu(body(state.to(device)))
            chances = torch.distributions.Categorical(F.softmax(actor(hidden), dim=-1))
            action = chances.sample()
            saved.append((chances.log_prob(action), critic(hidden)))
            state, reward, fallen = pole(state, action.item())
            rewards.append(reward)
            if fallen:
                break
        values = returns(rewards, device)
        policy = [-log * (value - seen.item()) for (log, seen), value in zip(saved, values)]
        value = [F.smooth_l1_loss(seen, value.reshape(1)) for (_, seen), value in zip(saved, values)]
        loss = torch.stack(policy).sum() + torch.stack(value).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found[f"loss {episode}"] = loss.item()
    return found | {str(i): each for i, each in enumerate(parameters)}


@program(GROUP)
def siamese(device):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
            self.head = nn.Sequential(nn.Linear(2 * 8 * 7 * 7, 16), nn.ReLU(inplace=True), nn.Linear(16, 1), nn.Sigmoid())

        def forward(self, a, b):
            return self.head(torch.cat((self.body(a), self.body(b)), 1)).squeeze()

    batches = [(torch.rand(6, 1, 16, 16), torch.rand(6, 1, 16, 16), torch.randint(0, 2, (6,)).float()) for _ in range(3)]
    return train(Pair(), device, batches, lambda m, a, b, y: F.binary_cross_entropy(m(a, b), y), torch.optim.Adadelta)


@program(GROUP)
def regression(device):
    weight, bias = torch.randn(4, 1).to(device) * 5, torch.randn(1).to(device) * 5
    model = nn.Linear(4, 1).to(device)
    losses = []
    for _ in range(50):
        x = torch.randn(32, device=device).unsqueeze(1)
        x = torch.cat([x**power for power in range(1, 5)], 1)
        model.zero_grad()
        loss = F.smooth_l1_loss(model(x), x.mm(weight) + bias.item())
        losses.append(loss.item())
        loss.backward()
        for parameter in model.parameters():
            parameter.data.add_(-0.1 * parameter.grad)
        if losses[-1] < 1e-3:
            break
    return {"losses": torch.tensor(losses)} | dict(model.named_parameters())


@program(GROUP)
def forward_forward(device):
    def labelled(x, y):
        x = x.clone()
        x[:, :10] = 0.0
        x[range(x.shape[0]), y] = x.max()
        return x

    x, y = torch.rand(16, 64).to(device), torch.randint(0, 10, (16,)).to(device)
    other = y.clone()
    for i in range(len(y)):
        other[i] = (y[i].item() + 1 + i % 9) % 10
    good, bad = labelled(x, y), labelled(x, other)
    layers = [nn.Linear(64, 32).to(device), nn.Linear(32, 32).to(device)]

    def forward(layer, x):
        return F.relu(torch.mm(x / (x.norm(2, 1, keepdim=True) + 1e-4), layer.weight.T) + layer.bias.unsqueeze(0))

    for layer in layers:
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.03)
        for _ in range(5):
            goodness, badness = forward(layer, good).pow(2).mean(1), forward(layer, bad).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([-goodness + 1.5, badness - 1.5]))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        good, bad = forward(layer, good).detach(), forward(layer, bad).detach()
    return {"loss": loss.item(), "good": good, "bad": bad}


def graph(nodes=24):
    links = (torch.rand(nodes, nodes) < 0.2).float()
    links = ((links + links.T + torch.eye(nodes)) > 0).float()
    return links, torch.rand(nodes, 12), torch.randint(0, 3, (nodes,))


@program(GROUP)
def gcn_dense(device):
    links, features, labels = graph()
    degrees = links.sum(1).rsqrt()
    first, second = nn.Linear(12, 8, bias=False), nn.Linear(8, 3)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, links, x):
            return F.log_softmax(links @ self.second(F.relu(links @ self.first(x))), 1)

    batch = (degrees[:, None] * links * degrees, features, labels)
    return train(Net(), device, [batch] * 4, lambda m, a, x, y: F.nll_loss(m(a, x)[:12], y[:12]), torch.optim.Adam)


@program(GROUP)
def gcn(device):
    """With the adjacency as a sparse matrix, as the example has it."""
    links, features, labels = graph()
    model = nn.ParameterList([torch.rand(12, 8), torch.rand(8, 3)]).to(device)
    links, features, labels = links.to_sparse().to(device), features.to(device), labels.to(device)
    optimizer, found = torch.optim.Adam(model.parameters(), 0.01), {}
    for step in range(3):
        output = torch.sparse.mm(links, F.relu(torch.sparse.mm(links, features @ model[0])) @ model[1])
        loss = F.cross_entropy(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found[f"loss {step}"] = loss.item()
    return found | dict(model.named_parameters())


@program(GROUP)
def gat(device):
    class Attention(nn.Module):
        def __init__(self, inside, outside, heads):
            super().__init__()
            self.heads, self.outside = heads, outside
            self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(inside, outside * heads)))
            self.pair = nn.Parameter(nn.init.xavier_normal_(torch.empty(heads, 2 * outside, 1)))

        def forward(self, links, x):
            h = (x @ self.weight).view(-1, self.heads, self.outside).permute(1, 0, 2)
            scores = h @ self.pair[:, :self.outside] + (h @ self.pair[:, self.outside:]).mT
            scores = torch.where(links > 0, F.leaky_relu(scores, 0.2), -9e16 * torch.ones_like(scores))
            return (F.softmax(scores, dim=-1) @ h).permute(1, 0, 2).reshape(len(x), -1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Attention(12, 4, 2), Attention(8, 3, 1)

        def forward(self, links, x):
            return F.log_softmax(self.second(links, F.elu(self.first(links, x))), 1)

    return train(Net(), device, [graph()] * 3, lambda m, a, x, y: F.nll_loss(m(a, x), y), torch.optim.Adam)


@program(GROUP)
def fast_neural_style(device):
    class Layer(nn.Module):
        def __init__(self, inside, outside, size, stride, up=None):
            super().__init__()
            self.up, self.pad = up, nn.ReflectionPad2d(size // 2)
            self.conv, self.norm = nn.Conv2d(inside, outside, size, stride), nn.InstanceNorm2d(outside, affine=True)

        def forward(self, x):
            if self.up:
                x = F.interpolate(x, mode="nearest", scale_factor=self.up)
            return F.relu(self.norm(self.conv(self.pad(x))))

    def gram(x):
        count, channels, height, width = x.size()
        flat = x.view(count, channels, width * height)
        return flat.bmm(flat.transpose(1, 2)) / (channels * height * width)

    eye = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).to(device).requires_grad_(False)
    style = gram(eye(torch.rand(1, 3, 16, 16).to(device)))

    def loss(model, x):
        made, seen = eye(model(x)), eye(x)
        return F.mse_loss(made, seen) * 1e2 + F.mse_loss(gram(made), style.expand(len(x), 8, 8)) * 1e3

    model = nn.Sequential(Layer(3, 8, 9, 1), Layer(8, 16, 3, 2), Layer(16, 8, 3, 1, 2), nn.Conv2d(8, 3, 3, padding=1))
    return train(model, device, [(torch.rand(2, 3, 16, 16),) for _ in range(3)], loss, torch.optim.Adam)


@program(GROUP)
def snli(device):
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.project = nn.Embedding(30, 12), nn.Linear(12, 8)
            self.rnn = nn.LSTM(8, 8, 1, bidirectional=True)
            self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))

        def read(self, text, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(F.relu(self.project(self.words(text))), lengths, enforce_sorted=False)
            return self.rnn(packed)[1][0].transpose(0, 1).reshape(text.shape[1], -1)

        def forward(self, first, second, lengths):
            return self.head(torch.cat([self.read(first, lengths), self.read(second, lengths)], 1))

    lengths = torch.tensor([7, 3, 5, 6])
    batches = [(torch.randint(0, 30, (7, 4)), torch.randint(0, 30, (7, 4)), torch.randint(0, 3, (4,))) for _ in range(3)]
    return train(Classifier(), device, batches, lambda m, a, b, y: F.cross_entropy(m(a, b, lengths), y), torch.optim.Adam)


@program(GROUP)
def language_translation(device):
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target, self.head = nn.Embedding(30, 16, 0), nn.Embedding(30, 16, 0), nn.Linear(16, 30)
            self.body = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)

        def forward(self, x, y):
            return self.head(self.body(self.source(x), self.target(y), src_key_padding_mask=x == 0,
                                       tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device),
                                       tgt_is_causal=True))

    x, y = torch.randint(1, 30, (4, 8)), torch.randint(1, 30, (4, 7))
    x[:, 6:] = 0
    return train(Translator(), device, [(x, y)] * 3,
                 lambda m, x, y: F.cross_entropy(m(x, y[:, :-1]).flatten(0, 1), y[:, 1:].flatten(), ignore_index=0))


@program(GROUP, mixed=True)
def mixed_precision(device):
    """Autocast in bfloat16, a scaler that is switched off, and gradients accumulated over two batches."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device.type, enabled=False)
    found = {}
    for step in range(4):
        x, y = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y) / 2
        scaler.scale(loss).backward()
        found[f"loss {step}"] = loss.item()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
    return found


@program(GROUP)
def checkpoint_and_resume(device):
    def fresh():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(device)
        return model, torch.optim.AdamW(model.parameters())

    def step(model, optimizer):
        torch.manual_seed(2)
        optimizer.zero_grad()
        model(torch.randn(4, 8).to(device)).square().mean().backward()
        optimizer.step()

    model, optimizer = fresh()
    step(model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        again, resumed = fresh()
        state = torch.load(path, map_location=device, weights_only=True)
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    step(again, resumed)
    return dict(again.state_dict())


def _rank(rank, kind, folder):
    import gapless

    device = gapless.device("vgpu:a100") if kind == "vgpu" else torch.device("cpu")
    torch.distributed.init_process_group("cpu:gloo,vgpu:gloo" if kind == "vgpu" else "gloo", rank=rank, world_size=2,
                                         init_method=f"file://{folder}/store")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).to(device))
    torch.manual_seed(rank)
    batches = [(torch.randn(4, 8), torch.randint(0, 2, (4,))) for _ in range(3)]
    found = train(model, device, batches, lambda m, x, y: F.cross_entropy(m(x), y))
    if rank == 0:
        torch.save({name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in found.items()},
                   os.path.join(folder, "found.pt"))
    torch.distributed.destroy_process_group()


@program(GROUP)
def ddp(device):
    """Two processes, each with a card of its own."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (device.type, folder), nprocs=2)
        return torch.load(os.path.join(folder, "found.pt"))
