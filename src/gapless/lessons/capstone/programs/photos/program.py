"""The program, put together."""

from ...program import Program
from . import sizes
from .causes import CAUSES

PHOTOS = Program(
    name="photos",
    title="a class for each pixel of aerial photos",
    files=("config", "data", "model", "losses", "metrics", "optim", "train"),
    causes=CAUSES,
    inputs=sizes.inputs,
    small=sizes.small,
    trial=sizes.trial,
    full=({"count": sizes.COUNT, "side": sizes.SIDE, "classes": sizes.SETTINGS["classes"]}, sizes.SETTINGS),
    size_in_words=f"{sizes.COUNT} photos of 3×{sizes.SIDE}×{sizes.SIDE}, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=60.0,
    unneeded_bytes=0.79,
    max_peak_ratio=0.6,
)
