"""Texts: N×T, a byte for each letter; what is behind a text's end is padding."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

from ...host import decode


class Texts(Dataset):
    """A text as the input, all letters except the last, and the target, all except the first."""

    def __init__(self, texts, config, device):
        self.texts, self.letters, self.device = texts, config.letters, device

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        text = decode(self.texts[index], self.device).long()
        return F.one_hot(text[:-1], self.letters).float(), text[1:]


def split(texts, config):
    """The texts to train on, and those to validate on."""
    count = len(texts) - int(len(texts) * config.validation_share)
    return texts[:count], texts[count:]


def make_loader(texts, config, device, training):
    dataset = Texts(texts, config, device)
    # The order has a generator of its own, so that nothing else that draws a number changes it.
    order = RandomSampler(dataset, generator=torch.Generator().manual_seed(config.seed)) if training else None
    return DataLoader(dataset, batch_size=config.batch_size, sampler=order)


def to_device(batch, config, device):
    """The letters that are read, as the network wants them, and those that follow."""
    read, following = batch
    read, following = read.to(device), following.to(device)
    return read, following


def as_read(letters, config):
    """Letters on the device, B×T whole numbers, as the network wants them."""
    return F.one_hot(letters, config.letters).float()
