"""The inputs on which the program is run: small ones, those that are timed with values, and the story's."""

import numpy as np

from ..settings import drawn_settings

COUNT, SIDE, MOST = 32, 96, 4  # of the story
SETTINGS = {"seed": 0, "epochs": 2, "batch_size": 4, "width": 16, "classes": 4,
            "validation_share": 0.5}


def inputs(rng: np.random.Generator, size: dict) -> dict[str, np.ndarray]:
    """``pictures`` count×3×side×side, ``boxes`` count×most×4, ``kinds`` count×most, ``numbers`` count×side×side: ovals, each
    kind in a colour of its own, under noise; what is painted later hides the earlier. The pictures ``empty`` have none."""
    count, side, most, classes = size["count"], size["side"], size["most"], size["classes"]
    colours = rng.integers(30, 226, (classes, 3))
    pictures = np.empty((count, 3, side, side))
    pictures[:] = colours[0][:, None, None]
    boxes, found = np.zeros((count, most, 4), np.int64), np.zeros((count, most), np.int64)
    numbers = np.zeros((count, side, side), np.int64)
    y, x = np.mgrid[:side, :side] + 0.5
    for picture in range(count):
        there = 0 if picture in size.get("empty", []) else int(rng.integers(1, most + 1))
        for number in range(there):
            wide, high = rng.integers(10, min(26, side - 4), 2)
            left, top = rng.integers(0, side - wide), rng.integers(0, side - high)
            oval = ((x - left) * 2 / wide - 1) ** 2 + ((y - top) * 2 / high - 1) ** 2 <= 1
            kind = int(rng.integers(1, classes))
            numbers[picture][oval], found[picture, number] = number + 1, kind
            boxes[picture, number] = left, top, left + wide, top + high
            pictures[picture][:, oval] = colours[kind][:, None]
    pictures += rng.normal(0, 20, pictures.shape)
    return {"pictures": pictures.clip(0, 255).astype(np.uint8), "boxes": boxes.astype(np.uint8),
            "kinds": found.astype(np.uint8), "numbers": numbers.astype(np.uint8)}


def _settings(rng: np.random.Generator, **others) -> dict:
    return {"seed": int(rng.integers(1000)), "classes": int(rng.integers(3, 5)), "width": int(rng.integers(2, 5)),
            "batch_size": int(rng.integers(3, 5)), "epochs": 1,
            "learning_rate": round(float(rng.uniform(0.01, 0.04)), 3), **drawn_settings(rng, pictures=True), **others}


def _case(name: str, settings: dict, count: int, side: int = 32, **size) -> tuple[str, dict, dict]:
    return name, {"count": count, "side": side, "most": 3, "classes": settings["classes"], **size}, settings


def small(rng: np.random.Generator) -> list[tuple[str, dict, dict]]:
    """(name, size, settings) of the small inputs."""
    return [
        _case("two epochs", _settings(rng, epochs=2, batch_size=3), 12),
        _case("a last batch that is smaller", _settings(rng, batch_size=4), 14, side=int(rng.choice([24, 40]))),
        _case("pictures without any nucleus", _settings(rng, batch_size=2), 8, empty=list(range(6))),
        _case("gradients that are never clipped, much decay", _settings(rng, max_norm=1e3, weight_decay=0.05), 12),
    ]


def trial(rng: np.random.Generator) -> tuple[dict, dict]:
    """(size, settings) of the inputs that are timed with values; another shape for each seed."""
    settings = _settings(rng, batch_size=4, width=8, classes=4, validation_share=0.5)
    return {"count": 16, "side": int(rng.choice([32, 40, 48])), "most": MOST, "classes": 4}, settings
