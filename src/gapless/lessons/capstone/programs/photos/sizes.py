"""The inputs on which the program is run: small ones, those that are timed with values, and the story's."""

import numpy as np

from ..settings import drawn_settings
from .config import VOID

COUNT, SIDE = 72, 96  # of the story
SETTINGS = {"seed": 0, "epochs": 2, "batch_size": 6, "width": 32, "classes": 6}


def inputs(rng: np.random.Generator, size: dict) -> dict[str, np.ndarray]:
    """``photos`` count×3×side×side and ``masks`` count×side×side: squares, each class in a colour of its own, under noise; a
    tenth of the squares without a label, and all of the photos ``unlabelled``."""
    count, side, classes = size["count"], size["side"], size["classes"]
    colours = rng.integers(30, 226, (classes, 3))
    squares = rng.integers(0, classes, (count, side // 4, side // 4))
    wide = squares.repeat(4, axis=1).repeat(4, axis=2)
    photos = colours[wide].transpose(0, 3, 1, 2) + rng.normal(0, 20, (count, 3, side, side))
    void = (rng.random(squares.shape) < 0.1).repeat(4, axis=1).repeat(4, axis=2)
    void[size.get("unlabelled", [])] = True
    return {"photos": photos.clip(0, 255).astype(np.uint8), "masks": np.where(void, VOID, wide).astype(np.uint8)}


def _settings(rng: np.random.Generator, **others) -> dict:
    return {"seed": int(rng.integers(1000)), "classes": int(rng.integers(3, 6)), "width": int(rng.integers(2, 5)),
            "batch_size": int(rng.integers(3, 5)), "epochs": 1,
            "learning_rate": round(float(rng.uniform(0.02, 0.08)), 3),
            "dice_weight": round(float(rng.uniform(0.2, 0.8)), 2), **drawn_settings(rng, pictures=True), **others}


def _case(name: str, settings: dict, count: int, side: int = 16, **size) -> tuple[str, dict, dict]:
    return name, {"count": count, "side": side, "classes": settings["classes"], **size}, settings


def small(rng: np.random.Generator) -> list[tuple[str, dict, dict]]:
    """(name, size, settings) of the small inputs."""
    return [
        _case("two epochs", _settings(rng, epochs=2, batch_size=3), 12),
        _case("a last batch that is smaller", _settings(rng, batch_size=4), 14, side=int(rng.choice([12, 20]))),
        _case("photos without any label", _settings(rng, batch_size=2), 8, unlabelled=list(range(6))),
        _case("gradients that are never clipped, much decay", _settings(rng, max_norm=1e3, weight_decay=0.05), 12),
    ]


def trial(rng: np.random.Generator) -> tuple[dict, dict]:
    """(size, settings) of the inputs that are timed with values; another shape for each seed."""
    settings = _settings(rng, batch_size=3, width=8, classes=6, validation_share=0.5)
    return {"count": 12, "side": int(rng.choice([28, 32, 36])), "classes": 6}, settings
