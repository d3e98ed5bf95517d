"""Lesson 06: right and fast answers that are not what the reference solution does, and wrong ones."""

from .capturing import CAPTURE_ROUTES, CAPTURE_WRONG
from .debug_aids import DEBUG_ROUTES, DEBUG_WRONG
from .heads import HEAD_ROUTES, HEAD_WRONG
from .making_optimizers import OPTIMIZER_ROUTES, OPTIMIZER_WRONG
from .parameter_lists import PARAMETER_ROUTES, PARAMETER_WRONG

OTHER_ROUTES = {
    **PARAMETER_ROUTES,
    **OPTIMIZER_ROUTES,
    "training_without_debugging": DEBUG_ROUTES,
    "all_heads": HEAD_ROUTES,
    "capture_step": CAPTURE_ROUTES,
}

WRONG = [
    *PARAMETER_WRONG,
    *OPTIMIZER_WRONG,
    *DEBUG_WRONG,
    *HEAD_WRONG,
    *CAPTURE_WRONG,
]
