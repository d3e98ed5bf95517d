"""How good the predictions are."""

from .config import PADDING


class Scores:
    """Counts letters."""

    def __init__(self, config, device):
        self.device = device
        self.right, self.count, self.high = 0, 0, 0

    def update(self, logits, following):
        kept = following != PADDING
        self.right += (logits.argmax(dim=-1)[kept] == following[kept]).sum().item()
        self.high += (logits.topk(3).indices == following.unsqueeze(-1))[kept].any(dim=-1).sum().item()
        self.count += kept.sum().item()

    def compute(self):
        """The share of letters that are right, and the share that is among the three most likely."""
        return {"accuracy": self.right / max(1, self.count), "among_three": self.high / max(1, self.count)}
