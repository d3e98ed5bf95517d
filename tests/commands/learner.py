"""What a learner has: lesson 02, the answer to its first exercise, and a terminal."""

import signal

LESSON = "02_masked_loss"
SOLVED = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"


def heeds_ctrl_c():
    """For a process that is started: where the tests run in the background SIGINT is ignored, by what they start too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
