"""Lesson 03: the inputs of ``suppress_nan_check``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....course.evidence import Case
from ....course.variants import CONTIGUOUS, DTYPES, covering, varied

AGGREGATORS = ("MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric")


def aggregator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-3, 3, size=(3, 4)).astype(np.float32)
    weights = rng.uniform(0, 2, size=(3, 4)).astype(np.float32)

    def case(name: str, metrics, given=values, *, kind=np.float32, weights=None, weight_kind=None, **options) -> Case:
        inputs = {"values": np.asarray(given).astype(kind)}
        if weights is not None:
            inputs["weights"] = np.asarray(weights).astype(weight_kind or kind)
        numbers = options.pop("as_numbers", False)
        if numbers:  # of which each is a copy to the device
            options["rows"] = np.stack(list(inputs.values()), axis=1).tolist()
        return Case(name, inputs, {"metrics": [metrics] if isinstance(metrics, str) else list(metrics), **options},
                    most_waits=np.inf if numbers else None)

    whole, counts = rng.integers(-9, 10, size=(3, 4)), rng.integers(1, 9, size=(3, 4))
    one_nan = values[:, 0].copy()
    one_nan[1] = np.nan
    infinite = values.copy()
    infinite[1, 2], huge = np.inf, 1e60 * values.astype(np.float64)
    below = values.copy()
    below[2, 1] = -np.inf
    matrices = Case("", {"values": rng.uniform(-3, 3, size=(2, 3, 5)).astype(np.float32)}, {"metrics": list(AGGREGATORS)})
    return [
        case("MeanMetric of scalars", "MeanMetric", values[:, 0]),
        case("MeanMetric of vectors", "MeanMetric"),
        case("MeanMetric, values 1, 2, 3 with weights 1, 0, 0", "MeanMetric", [[1, 2, 3]], weights=[[1, 0, 0]]),
        case("MeanMetric with weights", "MeanMetric", weights=weights),
        case("MeanMetric with weights, one value is NaN", "MeanMetric", np.where(whole == whole[0, 0], np.nan, values),
             weights=weights, nan=True),
        case("MeanMetric with one weight for each vector", "MeanMetric", weights=weights[:, :1]),
        case("MeanMetric with a scalar tensor as weight", "MeanMetric", weights=weights[:, 0]),
        case("MeanMetric with weights that are Python numbers", "MeanMetric", values[:, 0], weights=weights[:, 0],
             as_numbers=True),
        case("MeanMetric with whole numbers as weights", "MeanMetric", weights=counts, weight_kind=np.int64),
        case("MeanMetric of Python numbers", "MeanMetric", values[:, 0], as_numbers=True),
        case("SumMetric", "SumMetric"),
        case("SumMetric of Python numbers", "SumMetric", values[:, 0], as_numbers=True),
        case("MaxMetric", "MaxMetric"),
        case("MaxMetric of Python numbers", "MaxMetric", values[:, 0], as_numbers=True),
        case("MinMetric", "MinMetric"),
        case("CatMetric", "CatMetric"),
        case("CatMetric of Python numbers", "CatMetric", values[:, 0], as_numbers=True),
        *(case(f"all five, {name}", AGGREGATORS, given, kind=kind, **options) for name, given, kind, options in (
            ("of one value", values[:, :1], np.float32, {}),
            ("of nothing, an empty vector", values[:2, :0], np.float32, {}),
            ("of whole numbers", whole, np.int64, {}),
            ("of float16 up to 60 000", 1e4 * values[:, :3] * 2, np.float16, {}),
            ("of float64", values, np.float64, {}),
            ("in float64, of numbers too large for float32", huge, np.float64, {"dtype": "float64"}),
            ("one value is inf", infinite, np.float32, {}),
            ("one value is -inf", below, np.float32, {}),
            ("of bytes", counts, np.uint8, {}),
            ("of 32-bit whole numbers", whole, np.int32, {}),
            ("in float64, of whole numbers too long for float32", 2**40 + 1 + whole, np.int64, {"dtype": "float64"}),
            ("of whole Python numbers", whole[:, 0], np.int64, {"as_numbers": True}),
            ("in float64, of Python numbers too large for float32", huge[:, 0], np.float64,
             {"dtype": "float64", "as_numbers": True}),
            *((f'made with nan_strategy="error", of vectors in {np.dtype(kind).name}', np.where(
                whole == whole[0, 0], np.nan, values), kind, {"strategy": "error", "nan": True})
              for kind in (np.float16, np.float32)),
            ('made with nan_strategy="ignore"', values, np.float32, {"strategy": "ignore"}),
            ("one value is NaN", np.where(whole == whole[0, 0], np.nan, values), np.float32, {"nan": True}),
            ('made with "ignore" as its first argument', values, np.float32, {"first argument": "ignore"}),
            ("of classes with an `update` of their own", values, np.float32, {"doubles": True}),
            *((f'made with nan_strategy="error", on the {place}, a NaN among {kind}', one_nan, np.float32,
               {"strategy": "error", "nan": True, "on_cpu": place == "CPU", "as_numbers": kind == "Python numbers"})
              for place in ("device", "CPU") for kind in ("tensors", "Python numbers")),
        )),
        *(varied(replace(matrices, name="all five, of matrices"), **combination)
          for combination in covering(rng, dtype=DTYPES, layout=(CONTIGUOUS, "transposed", "strided"))),
    ]
