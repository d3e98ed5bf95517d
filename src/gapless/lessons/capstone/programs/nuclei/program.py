"""The program, put together."""

from ...program import Program
from ..common import BIAS_QUESTION
from . import sizes
from .causes import CAUSES

NUCLEI = Program(
    name="nuclei",
    title="boxes and masks of nuclei in pictures from a microscope",
    files=("config", "data", "model", "losses", "metrics", "optim", "train"),
    causes=CAUSES,
    inputs=sizes.inputs,
    small=sizes.small,
    trial=sizes.trial,
    full=({"count": sizes.COUNT, "side": sizes.SIDE, "most": sizes.MOST, "classes": sizes.SETTINGS["classes"]},
          sizes.SETTINGS),
    stages=(
        ("unoptimised", 0), ("without anomaly mode", 1), ("batches in time", 5), ("fewer kernels in the network", 8),
        ("a loss for all pictures at once", 15), ("scores on the device", 19), ("updates by lists", 23),
        ("no read in a step", 25)),
    about=(
        "A small detector finds nuclei in pictures from a microscope. For each nucleus it returns a kind, a box and a "
        "mask. A picture has three bytes a pixel; one more says which nucleus is seen there, 0 for none. If a picture "
        "has fewer nuclei than there is room for, the rest have kind 0 and an empty box. `train(pictures, boxes, kinds, "
        "numbers, device, **settings)` trains for some epochs. It returns the loss of each step, the means of its parts, "
        "the mean precision on other data, and weights."),
    size_in_words=f"{sizes.COUNT} pictures of 3×{sizes.SIDE}×{sizes.SIDE}, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=16.0,
    max_peak_ratio=0.75,
    question=BIAS_QUESTION,
)
