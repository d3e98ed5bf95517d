"""Lesson 05: right and fast answers that are not what the reference solution does, and wrong ones."""

from .convolution_batches import BATCH_ROUTES, BATCH_WRONG
from .convolution_biases import BIAS_ROUTES, BIAS_WRONG
from .convolution_formats import FORMAT_ROUTES, FORMAT_WRONG
from .convolution_precision import PRECISION_ROUTES, PRECISION_WRONG
from .convolution_shapes import SHAPE_ROUTES, SHAPE_WRONG
from .convolution_sizes import SIZE_ROUTES, SIZE_WRONG

OTHER_ROUTES = {"batches_of_few_shapes": SHAPE_ROUTES, "without_bias": BIAS_ROUTES, "to_channels_last": FORMAT_ROUTES,
                **PRECISION_ROUTES, **SIZE_ROUTES, **BATCH_ROUTES}

WRONG = [
    *(("batches_of_few_shapes", *wrong) for wrong in SHAPE_WRONG),
    *(("without_bias", *wrong) for wrong in BIAS_WRONG),
    *(("to_channels_last", *wrong) for wrong in FORMAT_WRONG),
    *PRECISION_WRONG,
    *SIZE_WRONG,
    *BATCH_WRONG,
]
