"""How good the predictions are."""

import torch

from .config import VOID


class Scores:
    """Counts pixels class by class."""

    def __init__(self, config, device):
        self.classes, self.device = config.classes, device
        self.hits, self.predicted, self.wanted = ([0] * config.classes for _ in range(3))

    def update(self, logits, masks):
        prediction = logits.argmax(dim=1)
        labelled = masks != VOID
        prediction, masks = prediction[labelled], masks[labelled]
        for number in range(self.classes):
            self.hits[number] += ((prediction == number) & (masks == number)).sum().item()
            self.predicted[number] += (prediction == number).sum().item()
            self.wanted[number] += (masks == number).sum().item()

    def compute(self):
        """The share of pixels that are right, and the mean intersection over union of the classes."""
        counted = torch.tensor([self.hits, self.predicted, self.wanted], dtype=torch.float64)
        hits, predicted, wanted = counted
        overlap = hits / (predicted + wanted - hits).clamp(min=1)
        return {"accuracy": (hits.sum() / wanted.sum().clamp(min=1)).item(), "mean_iou": overlap.mean().item()}
