"""Lesson 07: right and fast answers that are not what the reference solution does, and wrong ones."""

from .compiled_functions import COMPILED_ROUTES, COMPILED_WRONG
from .fused_operators import OPERATOR_ROUTES, OPERATOR_WRONG
from .reckoned_fusion import RECKONED_ROUTES, RECKONED_WRONG

OTHER_ROUTES = {**RECKONED_ROUTES, **COMPILED_ROUTES, **OPERATOR_ROUTES}
WRONG = [*RECKONED_WRONG, *COMPILED_WRONG, *OPERATOR_WRONG]
