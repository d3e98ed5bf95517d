"""Settings of a run."""

from dataclasses import dataclass

VOID = 255  # pixels that nobody has labelled


@dataclass
class Config:
    seed: int = 0
    epochs: int = 1
    batch_size: int = 12
    width: int = 32
    classes: int = 6
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    ema_decay: float = 0.9
    dice_weight: float = 0.5
    validation_share: float = 0.25
    mean: tuple = (0.41, 0.43, 0.38)
    std: tuple = (0.21, 0.19, 0.2)

    @property
    def class_weights(self) -> list:
        """Rare classes count more: class 0 is the background."""
        return [0.4] + [1.0 + 0.1 * number for number in range(1, self.classes)]
