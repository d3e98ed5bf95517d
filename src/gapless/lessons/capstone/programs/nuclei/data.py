"""Pictures N×3×H×W; for each, up to M nuclei: boxes N×M×4 (left, top, right, bottom), kinds N×M (0: there are fewer than M),
and N×H×W numbers of the nucleus that is seen in a pixel, from 1; a byte each."""

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from ...host import decode


class Pictures(Dataset):
    def __init__(self, pictures, boxes, kinds, numbers, config, device):
        self.pictures, self.boxes, self.kinds, self.numbers = pictures, boxes, kinds, numbers
        self.device = device
        self.mean = torch.tensor(config.mean).view(3, 1, 1)
        self.std = torch.tensor(config.std).view(3, 1, 1)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture, numbers = decode(self.pictures[index], self.device), self.numbers[index]
        boxes, kinds = self.boxes[index], self.kinds[index]
        picture = (picture.float() / 255 - self.mean) / self.std
        masks = torch.stack([(numbers == number + 1).float() for number in range(len(kinds))])
        return picture, boxes, kinds, masks


def split(arrays, config):
    """What to train on, and what to validate on."""
    count = len(arrays[0]) - int(len(arrays[0]) * config.validation_share)
    return [each[:count] for each in arrays], [each[count:] for each in arrays]


def make_loader(arrays, config, device, training):
    dataset = Pictures(*arrays, config, device)
    # The order has a generator of its own, so that nothing else that draws a number changes it.
    order = RandomSampler(dataset, generator=torch.Generator().manual_seed(config.seed)) if training else None
    return DataLoader(dataset, batch_size=config.batch_size, sampler=order)


def to_device(batch, config, device):
    """Pictures as the network wants them, boxes, kinds, and masks B×M×H×W."""
    pictures, boxes, kinds, masks = (each.to(device) for each in batch)
    return pictures, boxes.float(), kinds.long(), masks
