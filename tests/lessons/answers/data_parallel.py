"""Lesson 09: right answers that are not what the reference solution does, and wrong ones."""

from .dealing import DEALING_ROUTES, DEALING_WRONG
from .naming import NAMING_ROUTES, NAMING_WRONG

OTHER_ROUTES = {"make_batches": DEALING_ROUTES, "find_straggler": NAMING_ROUTES}

WRONG = [*(("make_batches", *wrong) for wrong in DEALING_WRONG), *(("find_straggler", *wrong) for wrong in NAMING_WRONG)]
