"""Lesson 05: right and fast answers that are not what the reference solution does, and wrong ones."""

from .convolution_biases import BIAS_ROUTES, BIAS_WRONG

OTHER_ROUTES = {"without_bias": BIAS_ROUTES}

WRONG = [*(("without_bias", *wrong) for wrong in BIAS_WRONG)]
