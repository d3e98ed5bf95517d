"""Settings of a run."""

from dataclasses import dataclass

PADDING, END = 0, 1  # letters behind a text's end, and the letter that ends it


@dataclass
class Config:
    seed: int = 0
    epochs: int = 1
    batch_size: int = 8
    letters: int = 48
    width: int = 128
    heads: int = 4
    layers: int = 2
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    ema_decay: float = 0.9
    validation_share: float = 0.25
    prompts: int = 3
    prompt_letters: int = 4
    new_letters: int = 5
