"""The program, put together."""

from ...program import Program
from ..common import BIAS_QUESTION
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
    stages=(
        ("unoptimised", 0), ("without anomaly mode", 1), ("batches in time", 5), ("fewer kernels in the network", 8),
        ("a loss that waits for nothing", 13), ("scores on the device", 15), ("updates by lists", 19),
        ("no read in a step", 21)),
    about=(
        "A small U-Net finds a class for each pixel of aerial photos. A photo has three bytes a pixel and its mask has "
        "one. In a mask, 255 marks unlabelled pixels. `train(photos, masks, device, **settings)` trains for some epochs. "
        "It returns the loss of each step, scores on the training data and on other data, and weights."),
    size_in_words=f"{sizes.COUNT} photos of 3×{sizes.SIDE}×{sizes.SIDE}, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=120.0,
    max_peak_ratio=0.6,
    question=BIAS_QUESTION,
)
