"""Settings of a run."""

from dataclasses import dataclass

STRIDE = 8  # pixels from one place for boxes to the next
FINE = 4  # pixels a side that are one in a mask


@dataclass
class Config:
    seed: int = 0
    epochs: int = 1
    batch_size: int = 6
    width: int = 16
    classes: int = 4  # with 0: nothing
    shapes: int = 4  # of which masks are mixed
    sizes: tuple = (12, 24)  # of the anchors, in pixels
    learning_rate: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    ema_decay: float = 0.9
    matched_from: float = 0.35  # overlap of an anchor with a box
    found: int = 8  # boxes that are kept in a picture, the most likely ones
    same_from: float = 0.45  # overlap of two boxes that are one
    hit_from: float = 0.4  # overlap of a box with the one that is wanted
    validation_share: float = 0.25
    mean: tuple = (0.41, 0.43, 0.38)
    std: tuple = (0.21, 0.19, 0.2)

    @property
    def class_weights(self) -> list:
        """Nothing is what most anchors are for."""
        return [0.2] + [1.0 + 0.1 * number for number in range(1, self.classes)]
