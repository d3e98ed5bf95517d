"""How good what is found is."""

import torch
import torch.nn.functional as F

from .config import FINE
from .model import moved, overlaps


class Means:
    """Of the loss's parts."""

    def __init__(self, device):
        self.totals, self.count = [0, 0, 0], 0

    def update(self, parts):
        self.totals = [total + part.item() for total, part in zip(self.totals, parts)]
        self.count += 1

    def compute(self):
        return [total / self.count for total in self.totals]


def best_alone(boxes, limit):
    """Of boxes K×4, the best first, which overlap no better one by more than ``limit``."""
    kept, dropped = [], torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    for number in range(len(boxes)):
        if not dropped[number]:
            kept.append(number)
            dropped = dropped | (overlaps(boxes[number:number + 1], boxes)[0] > limit)
    return kept


class Precision:
    """Holds what is found against what is there."""

    def __init__(self, config, device):
        self.config, self.device = config, device
        self.rows, self.wanted = [], []  # of each box that is found: kind, score, whether it is a hit, overlap of its mask

    def update(self, predictions, boxes, kinds, masks):
        anchors, *others = predictions
        for picture in zip(*others, boxes, kinds, masks):
            self.update_picture(anchors, *picture)

    def update_picture(self, anchors, logits, moves, mixes, shapes, boxes, kinds, masks):
        scores, guesses = torch.softmax(logits, dim=1)[:, 1:].max(dim=1)
        scores, ranked = scores.topk(self.config.found)
        guesses, found = guesses[ranked] + 1, moved(anchors[ranked], moves[ranked])
        self.wanted += kinds.tolist()
        taken = []
        for number in best_alone(found, self.config.same_from):
            overlap = overlaps(found[number:number + 1], boxes)[0] * (kinds == guesses[number])
            which = overlap.argmax().item()
            hit = overlap[which].item() >= self.config.hit_from and which not in taken
            quality = 0.0
            if hit:
                taken.append(which)
                shown = torch.sigmoid((mixes[ranked[number]].view(-1, 1, 1) * shapes).sum(dim=0))
                mask = F.avg_pool2d(masks[which].unsqueeze(0), FINE)[0]
                quality = ((shown * mask).sum() / (shown + mask - shown * mask).sum()).item()
            self.rows.append((guesses[number].item(), scores[number].item(), hit, quality))

    def compute(self):
        """The mean of the kinds' average precision, and of the hits' masks' overlap."""
        rows, wanted = sorted(self.rows, key=lambda row: -row[1]), self.wanted
        precisions = []
        for kind in range(1, self.config.classes):
            hits, total = 0, 0.0
            for place, row in enumerate([row for row in rows if row[0] == kind], start=1):
                if row[2]:
                    hits += 1
                    total += hits / place
            precisions.append(total / max(1, wanted.count(kind)))
        qualities = [row[3] for row in rows if row[2]]
        return {"precision": sum(precisions) / len(precisions), "boxes": len(rows),
                "masks": sum(qualities) / max(1, len(qualities))}
