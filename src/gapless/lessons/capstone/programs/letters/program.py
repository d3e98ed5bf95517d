"""The program, put together."""

from ...program import Program
from . import sizes
from .causes import CAUSES

LETTERS = Program(
    name="letters",
    title="the next letter of short texts",
    files=("config", "data", "model", "losses", "metrics", "optim", "train"),
    causes=CAUSES,
    inputs=sizes.inputs,
    small=sizes.small,
    trial=sizes.trial,
    full=({"count": sizes.COUNT, "length": sizes.LENGTH, "letters": sizes.SETTINGS["letters"]}, sizes.SETTINGS),
    size_in_words=f"{sizes.COUNT} texts of {sizes.LENGTH} letters, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=16.0,
    unneeded_bytes=0.3,
    max_peak_ratio=0.7,
)
