"""The program, put together."""

from ...program import Program
from . import sizes
from .causes import CAUSES

QUESTION = """\
**Question.** You leave the padding to `ignore_index`, and the look for a batch without letters seems one wait too many.
Without it a loss of the small inputs is no number. Why?

<details><summary>Answer</summary>

Where all is padding the mean is one of nothing: 0/0. The slow program gives zero there. A sum, divided by a count that is
at least one, gives zero too, and nobody has to look.

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
        ("as first written", 0), ("without anomaly mode", 1), ("batches in time", 4), ("fewer kernels in the network", 9),
        ("a loss that waits for nothing", 12), ("scores on the device", 13), ("updates by lists", 17),
        ("no read in a step", 19), ("texts made together", 21)),
    about=(
        "A small transformer learns which letter follows in short texts. A text has a byte for each letter, and "
        "padding behind its end. `train(texts, device, **settings)` trains for some epochs and reports the loss "
        "of each step, scores on what it was trained on and on what it was not, what the network makes of some "
        "prompts after each epoch, and weights."),
    size_in_words=f"{sizes.COUNT} texts of {sizes.LENGTH} letters, batch {sizes.SETTINGS['batch_size']}, "
                  f"{sizes.SETTINGS['epochs']} epochs",
    slowdown=16.0,
    max_peak_ratio=0.7,
    question=QUESTION,
)
