"""What the network is trained on."""

import torch
import torch.nn.functional as F

from .config import FINE
from .model import moves_to, overlaps


class Loss:
    """Predictions, and boxes B×M×4, kinds B×M and masks B×M×H×W → the parts of the loss, each the mean of the pictures'."""

    def __init__(self, config, device):
        self.config, self.device = config, device

    def of_picture(self, anchors, logits, moves, mixes, shapes, boxes, kinds, masks):
        """The parts of one picture's; boxes and masks are those of matched anchors, zero where none is."""
        weight = torch.tensor(self.config.class_weights, device=self.device)
        there = kinds > 0
        boxes, kinds, masks = boxes[there], kinds[there], masks[there]
        if len(boxes) == 0:
            nothing = torch.zeros(len(anchors), dtype=torch.int64, device=self.device)
            return F.cross_entropy(logits, nothing, weight=weight), moves.sum() * 0, (mixes.sum() + shapes.sum()) * 0
        overlap, which = overlaps(anchors, boxes).max(dim=1)
        matched = overlap >= self.config.matched_from
        kind = F.cross_entropy(logits, torch.where(matched, kinds[which], 0), weight=weight)
        if (~matched).all():
            return kind, moves.sum() * 0, (mixes.sum() + shapes.sum()) * 0
        which = which[matched]
        box = F.smooth_l1_loss(moves[matched], moves_to(anchors[matched], boxes[which]))
        total = 0
        for number, mask in enumerate(masks):
            shown = mixes[matched][which == number] @ shapes.flatten(1)
            wanted = F.avg_pool2d(mask.unsqueeze(0), FINE).flatten(1).expand_as(shown)
            total = total + F.binary_cross_entropy_with_logits(shown, wanted, reduction="sum")
        return kind, box, total / (len(which) * shapes[0].numel())

    def __call__(self, predictions, boxes, kinds, masks):
        anchors, *others = predictions
        pictures = [self.of_picture(anchors, *picture) for picture in zip(*others, boxes, kinds, masks)]
        parts = [sum(part) / len(pictures) for part in zip(*pictures)]
        if torch.isnan(sum(parts)):
            raise FloatingPointError("the loss is not a number")
        return parts
