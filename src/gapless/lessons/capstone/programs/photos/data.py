"""Aerial photos and their masks: N×3×H×W and N×H×W, a byte each."""

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from ...host import decode


class Photos(Dataset):
    """Every other photo is flipped, so that left is as likely as right."""

    def __init__(self, photos, masks, config, device):
        self.photos, self.masks, self.device = photos, masks, device
        self.mean = torch.tensor(config.mean).view(3, 1, 1)
        self.std = torch.tensor(config.std).view(3, 1, 1)

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        photo, mask = decode(self.photos[index], self.device), self.masks[index]
        if index % 2:
            photo, mask = photo.flip(-1), mask.flip(-1)
        photo = (photo.float() / 255 - self.mean) / self.std
        return photo, mask.long()


def split(photos, masks, config):
    """The photos to train on, and those to validate on."""
    count = len(photos) - int(len(photos) * config.validation_share)
    return (photos[:count], masks[:count]), (photos[count:], masks[count:])


def make_loader(photos, masks, config, device, training):
    dataset = Photos(photos, masks, config, device)
    # The order has a generator of its own, so that nothing else that draws a number changes it.
    order = RandomSampler(dataset, generator=torch.Generator().manual_seed(config.seed)) if training else None
    return DataLoader(dataset, batch_size=config.batch_size, sampler=order)


def to_device(batch, config, device):
    """Photos as the network wants them, and their masks."""
    photos, masks = batch
    photos, masks = photos.to(device), masks.to(device)
    return photos, masks
