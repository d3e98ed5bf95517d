"""``train`` is what the check calls."""

import torch

from ...host import synchronize
from ..optim import Average, clip, make_optimizer
from .config import Config
from .data import make_loader, split, to_device
from .losses import Loss
from .metrics import Means, Precision
from .model import make_network


def evaluate(network, loader, config, device):
    """Scores on the pictures that the network is not trained on."""
    network.eval()
    outputs = []
    for batch in loader:
        pictures, *wanted = to_device(batch, config, device)
        outputs.append((network(pictures), wanted))
    precision = Precision(config, device)
    for predictions, wanted in outputs:
        precision.update(predictions, *wanted)
    network.train()
    return precision.compute()


def train_step(network, loss_of, optimizer, average, pictures, wanted, config):
    """The loss, and its parts."""
    optimizer.zero_grad(set_to_none=False)
    with torch.autograd.set_detect_anomaly(True):
        parts = loss_of(network(pictures), *wanted)
        loss = sum(parts)
        loss.backward()
    clip(network, config.max_norm)
    optimizer.step()
    average.update(network)
    return loss, parts


def train(pictures, boxes, kinds, numbers, device, **settings):
    """Train a network on ``pictures`` N×3×H×W with ``boxes`` N×M×4, ``kinds`` N×M and ``numbers`` N×H×W, bytes on the host;
    ``settings`` are those of ``Config``.

    Returns the loss of each step, the means of its parts in each epoch, scores, and weights.
    """
    config = Config(**settings)
    known, unseen = split((pictures, boxes, kinds, numbers), config)
    loader = make_loader(known, config, device, training=True)
    validation_loader = make_loader(unseen, config, device, training=False)
    network, loss_of = make_network(config, device), Loss(config, device)
    optimizer, average = make_optimizer(network, config), Average(network, config.ema_decay)
    losses, means, validation = [], [], []
    for _ in range(config.epochs):
        seen = Means(device)
        for batch in loader:
            pictures, *wanted = to_device(batch, config, device)
            loss, parts = train_step(network, loss_of, optimizer, average, pictures, wanted, config)
            seen.update(parts)
            losses.append(loss.item())
            synchronize(device)
        means.append(seen.compute())
        validation.append(evaluate(network, validation_loader, config, device))
    return {"losses": losses, "training": means, "validation": validation,
            "shapes": network.shapes.weight.detach().flatten().tolist(),
            "average": average.of("shapes.weight").flatten().tolist()}
