"""The optimizer, and what goes with it."""

import torch


def make_optimizer(network, config):
    return torch.optim.SGD(network.parameters(), lr=config.learning_rate, momentum=config.momentum,
                           weight_decay=config.weight_decay, foreach=False)


def clip(network, max_norm):
    """Gradients whose norm, all together, is at most ``max_norm``."""
    total = 0.0
    for parameter in network.parameters():
        total += parameter.grad.norm().item() ** 2
    if total ** 0.5 > max_norm:
        for parameter in network.parameters():
            parameter.grad.mul_(max_norm / (total ** 0.5 + 1e-6))


class Average:
    """The moving average of a network's weights."""

    def __init__(self, network, decay):
        self.decay = decay
        self.names = [name for name, _ in network.named_parameters()]
        self.values = [parameter.detach().clone() for parameter in network.parameters()]

    @torch.no_grad()
    def update(self, network):
        for value, parameter in zip(self.values, network.parameters()):
            value.copy_(self.decay * value + (1 - self.decay) * parameter)

    def of(self, name):
        return self.values[self.names.index(name)]
