"""What the network is trained on."""

import torch
import torch.nn.functional as F

from .config import VOID


class Loss:
    """Logits B×classes×H×W and masks B×H×W → a number."""

    def __init__(self, config, device):
        self.config, self.device = config, device

    def cross_entropy(self, logits, masks):
        """The weighted mean over the pixels that are labelled; zero where none is."""
        labels = torch.unique(masks)
        if len(labels) == 1 and labels[0] == VOID:
            return logits.sum() * 0
        weight = torch.tensor(self.config.class_weights, device=self.device)
        labelled = masks != VOID
        return F.cross_entropy(logits.permute(0, 2, 3, 1)[labelled], masks[labelled], weight=weight)

    def dice(self, logits, masks):
        """One minus the overlap of prediction and mask, the mean of all classes."""
        probabilities = torch.softmax(logits, dim=1)
        total = 0
        for number in range(self.config.classes):
            predicted = probabilities[:, number]
            wanted = (masks == number).float()
            overlap = (predicted * wanted).sum()
            total = total + 1 - (2 * overlap + 1) / (predicted.sum() + wanted.sum() + 1)
        return total / self.config.classes

    def __call__(self, logits, masks):
        loss = self.cross_entropy(logits, masks) + self.config.dice_weight * self.dice(logits, masks)
        if torch.isnan(loss):
            raise FloatingPointError("the loss is not a number")
        return loss
