"""Lesson 08: right and fast answers that are not what the reference solution does, and wrong ones."""

from .memory_basics import BASICS_ROUTES, BASICS_WRONG
from .memory_savings import SAVINGS_ROUTES, SAVINGS_WRONG
from .memory_tied import TIED_ROUTES, TIED_WRONG

OTHER_ROUTES = {**BASICS_ROUTES, **TIED_ROUTES, **SAVINGS_ROUTES}

WRONG = [*BASICS_WRONG, *TIED_WRONG, *SAVINGS_WRONG]
