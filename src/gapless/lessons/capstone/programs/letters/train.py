"""``train`` is what the check calls."""

import torch

from ...host import synchronize
from ..optim import Average, clip, make_optimizer
from .config import END, PADDING, Config
from .data import as_read, make_loader, split, to_device
from .losses import loss_of
from .metrics import Scores
from .model import make_network


def generate(network, prompts, config, device):
    """For each of the prompts N×P the letters that the network adds, the most likely each time, up to the end."""
    texts = []
    for prompt in prompts:
        text = prompt.long().unsqueeze(0).to(device)
        made = []
        for _ in range(config.new_letters):
            letter = network(as_read(text, config))[0, -1].argmax()
            made.append(letter.item())
            text = torch.cat([text, letter.view(1, 1)], dim=1)
            if made[-1] == END:
                break
        texts.append(made + [PADDING] * (config.new_letters - len(made)))
    return texts


def evaluate(network, loader, config, device):
    """Scores on the texts that the network is not trained on."""
    outputs = []
    for batch in loader:
        read, following = to_device(batch, config, device)
        outputs.append((network(read), following))
    scores = Scores(config, device)
    for logits, following in outputs:
        scores.update(logits, following)
    return scores.compute()


def train_step(network, optimizer, average, read, following, config):
    """The loss and the logits."""
    optimizer.zero_grad(set_to_none=False)
    logits = network(read)
    with torch.autograd.set_detect_anomaly(True):
        loss = loss_of(logits, following)
        loss.backward()
    clip(network, config.max_norm)
    optimizer.step()
    average.update(network)
    return loss, logits


def train(texts, device, **settings):
    """Train a network on ``texts`` N×T, bytes on the host; ``settings`` are those of ``Config``.

    Returns the loss of each step, the scores of each epoch, texts that were made, and weights.
    """
    config = Config(**settings)
    known, unseen = split(texts, config)
    loader = make_loader(known, config, device, training=True)
    validation_loader = make_loader(unseen, config, device, training=False)
    network = make_network(config, device)
    optimizer, average = make_optimizer(network, config), Average(network, config.ema_decay)
    losses, scores, validation, made = [], [], [], []
    for _ in range(config.epochs):
        seen = Scores(config, device)
        for batch in loader:
            read, following = to_device(batch, config, device)
            loss, logits = train_step(network, optimizer, average, read, following, config)
            seen.update(logits, following)
            losses.append(loss.item())
            synchronize(device)
        scores.append(seen.compute())
        validation.append(evaluate(network, validation_loader, config, device))
        made.append(generate(network, unseen[:config.prompts, :config.prompt_letters], config, device))
    return {"losses": losses, "training": scores, "validation": validation, "made": made,
            "head": network.head.bias.detach().tolist(), "average": average.of("head.bias").tolist()}
