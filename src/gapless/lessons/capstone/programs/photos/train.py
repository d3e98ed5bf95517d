"""``train`` is what the check calls."""

import torch

from ...host import synchronize
from ..optim import Average, clip, make_optimizer
from .config import Config
from .data import make_loader, split, to_device
from .losses import Loss
from .metrics import Scores
from .model import make_network


def evaluate(network, loader, config, device):
    """Scores on the photos that the network is not trained on."""
    network.eval()
    outputs = []
    for batch in loader:
        photos, masks = to_device(batch, config, device)
        outputs.append((network(photos), masks))
    scores = Scores(config, device)
    for logits, masks in outputs:
        scores.update(logits, masks)
    network.train()
    return scores.compute()


def train_step(network, loss_of, optimizer, average, photos, masks, config):
    """The loss and the logits."""
    optimizer.zero_grad(set_to_none=False)
    with torch.autograd.set_detect_anomaly(True):
        logits = network(photos)
        loss = loss_of(logits, masks)
        loss.backward()
    clip(network, config.max_norm)
    optimizer.step()
    average.update(network)
    return loss, logits


def train(photos, masks, device, **settings):
    """Train a network on ``photos`` N×3×H×W and ``masks`` N×H×W, bytes on the host; ``settings`` are those of ``Config``.

    Returns the loss of each step, the scores of each epoch, and weights.
    """
    config = Config(**settings)
    known, unseen = split(photos, masks, config)
    loader = make_loader(*known, config, device, training=True)
    validation_loader = make_loader(*unseen, config, device, training=False)
    network, loss_of = make_network(config, device), Loss(config, device)
    optimizer, average = make_optimizer(network, config), Average(network, config.ema_decay)
    losses, scores, validation = [], [], []
    for _ in range(config.epochs):
        seen = Scores(config, device)
        for batch in loader:
            photos, masks = to_device(batch, config, device)
            loss, logits = train_step(network, loss_of, optimizer, average, photos, masks, config)
            seen.update(logits, masks)
            losses.append(loss.item())
            synchronize(device)
        scores.append(seen.compute())
        validation.append(evaluate(network, validation_loader, config, device))
    return {"losses": losses, "training": scores, "validation": validation,
            "head": network.head.weight.detach().flatten().tolist(), "average": average.of("head.weight").flatten().tolist()}
