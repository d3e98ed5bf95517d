"""Lesson 09: right answers that are not what the reference solution does, and wrong ones."""

from .accumulating import ACCUMULATING_ROUTES, ACCUMULATING_WRONG
from .dealing import DEALING_ROUTES, DEALING_WRONG
from .logging_on_ranks import LOG_ROUTES, LOG_WRONG
from .naming import NAMING_ROUTES, NAMING_WRONG
from .training_on_ranks import MAIN_ROUTES, MAIN_WRONG
from .wrapping import WRAP_ROUTES, WRAP_WRONG

OTHER_ROUTES = {"main": MAIN_ROUTES, "make_batches": DEALING_ROUTES, "find_straggler": NAMING_ROUTES,
                "train_epoch": ACCUMULATING_ROUTES, "wrap": WRAP_ROUTES, "log_epoch": LOG_ROUTES}

WRONG = [(name, *wrong) for name, listed in (("main", MAIN_WRONG), ("make_batches", DEALING_WRONG),
                                             ("find_straggler", NAMING_WRONG), ("train_epoch", ACCUMULATING_WRONG),
                                             ("wrap", WRAP_WRONG), ("log_epoch", LOG_WRONG)) for wrong in listed]
