"""The program, put together."""

from ...program import Program
from . import sizes
from .causes import CAUSES

QUESTION = """\
**Question.** You leave the padding to `ignore_index`, and remove the test for a batch without letters, because it waits.
Now a loss of the small inputs is not a number. Why?

<details><summary>Answer</summary>

If everything is padding, the mean is 0/0. The slow program returns zero there. A sum divided by a count of at least one
is zero too, and needs no test.

</details>"""

LETTERS = Program(
    name="letters",
    title="the next letter of short texts",
    files=("config", "data", "model", "losses", "metrics", "optim", "train"),
    causes=CAUSES,
    inputs=sizes.inputs,
    small=sizes.small,
    trial=sizes.trial,
    full=({"count": sizes.COUNT, "length": sizes.LENGTH, "letters": sizes.SETTINGS["letters"]}, sizes.SETTINGS),
    stages=(
        ("unoptimised", 0), ("without anomaly mode", 1), ("batches in time", 4), ("fewer kernels in the network", 9),
        ("a loss that waits for nothing", 12), ("scores on the device", 13), ("updates by lists", 17),
        ("no read in a step", 19), ("texts made together", 21)),
    about=(
        "A small transformer learns which letter follows in short texts. A text has a byte for each letter, and padding "
        "after its end. `train(texts, device, **settings)` trains for some epochs. It returns the loss of each step, "
        "scores on the training data and on other data, the network's continuations of some prompts after each epoch, "
        "and weights."),
    size_in_words=f"{sizes.COUNT} texts of {sizes.LENGTH} letters, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=16.0,
    max_peak_ratio=0.7,
    question=QUESTION,
)
