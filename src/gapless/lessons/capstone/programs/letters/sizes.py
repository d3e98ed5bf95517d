"""The inputs on which the program is run: small ones, those that are timed with values, and the story's."""

import numpy as np

from ..settings import drawn_settings
from .config import END, PADDING

COUNT, LENGTH = 72, 33  # of the story
SETTINGS = {"seed": 0, "epochs": 2, "batch_size": 6, "width": 128, "letters": 96, "heads": 2}
_FIRST = 2  # letters below are padding and end


def inputs(rng: np.random.Generator, size: dict) -> dict[str, np.ndarray]:
    """``texts`` count×length: most letters follow from the one before by a rule, some are drawn; behind the end is padding.
    Of the texts ``empty`` nothing is left but padding."""
    count, length, letters = size["count"], size["length"], size["letters"]
    step = int(rng.integers(1, letters))
    texts = np.zeros((count, length), np.int64)
    texts[:, 0] = rng.integers(_FIRST, letters, count)
    for place in range(1, length):
        ruled = (texts[:, place - 1] - _FIRST + step) % (letters - _FIRST) + _FIRST
        texts[:, place] = np.where(rng.random(count) < 0.2, rng.integers(_FIRST, letters, count), ruled)
    ends = rng.integers(length // 2, length, count)
    places = np.arange(length)
    texts[places == ends[:, None]] = END
    texts[places > ends[:, None]] = PADDING
    texts[size.get("empty", [])] = PADDING
    return {"texts": texts.astype(np.uint8)}


def _settings(rng: np.random.Generator, **others) -> dict:
    return {"seed": int(rng.integers(1000)), "letters": int(rng.integers(9, 14)), "width": 4 * int(rng.integers(2, 5)),
            "heads": int(rng.choice([1, 2])), "layers": int(rng.integers(1, 3)), "batch_size": int(rng.integers(3, 5)),
            "epochs": 1, "learning_rate": round(float(rng.uniform(0.02, 0.08)), 3),
            **drawn_settings(rng, pictures=False), **others}


def _case(name: str, settings: dict, count: int, length: int = 12, **size) -> tuple[str, dict, dict]:
    return name, {"count": count, "length": length, "letters": settings["letters"], **size}, settings


def small(rng: np.random.Generator) -> list[tuple[str, dict, dict]]:
    """(name, size, settings) of the small inputs."""
    return [
        _case("two epochs", _settings(rng, epochs=2, batch_size=3), 12),
        _case("a last batch that is smaller", _settings(rng, batch_size=4), 14, length=int(rng.integers(9, 16))),
        _case("texts without a letter", _settings(rng, batch_size=2), 8, empty=list(range(6))),
        _case("gradients that are never clipped, much decay", _settings(rng, max_norm=1e3, weight_decay=0.05), 12),
    ]


def trial(rng: np.random.Generator) -> tuple[dict, dict]:
    """(size, settings) of the inputs that are timed with values; another shape for each seed."""
    settings = _settings(rng, epochs=2, batch_size=3, width=64, letters=32, heads=2, layers=1, validation_share=0.5)
    return {"count": 12, "length": int(rng.integers(18, 25)), "letters": 32}, settings
