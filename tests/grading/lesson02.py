"""Cells for lesson 02: the slow functions and fast ones, by exercise name."""

import inspect

from gapless.lessons import masked_loss

SLOW = {name: f"# exercise: {name}\n" + inspect.getsource(exercise.slow) for name, exercise in masked_loss.LESSON.exercises.items()}
FAST = {
    "ignore_background": """
def ignore_background(target):
    return torch.where(target == BACKGROUND, IGNORE, target)
""",
    "zero_if_uniform": """
def zero_if_uniform(loss, target):
    return torch.where(target.min() == target.max(), 0.0 * loss, loss)
""",
    "masked_cross_entropy": """
def masked_cross_entropy(pred, target):
    return F.cross_entropy(pred, target, ignore_index=IGNORE)
""",
    "sparse_head_loss": """
def sparse_head_loss(hidden, head, target, max_valid):
    valid = target != IGNORE
    rows = torch.nonzero_static(valid, size=max_valid, fill_value=0).squeeze(1)
    padding = torch.arange(max_valid, device=target.device) >= valid.sum()
    return F.cross_entropy(hidden[rows] @ head.T, torch.where(padding, IGNORE, target[rows]), ignore_index=IGNORE)
""",
}
FAST = {name: f"# exercise: {name}\n{SLOW[name].partition(chr(10))[2]}\n{source}" for name, source in FAST.items()}
