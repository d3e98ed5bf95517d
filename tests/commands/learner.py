"""What a learner has: lesson 02, the answer to its first exercise, and a terminal."""

LESSON = "02_masked_loss"
SOLVED = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"
