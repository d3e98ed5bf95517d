"""Lesson 03: the inputs on which answers are compared, small and at the article's size.

Every exercise goes through lists of sizes, values, kinds of numbers and layouts: a wrong answer is often right on plain
batches of float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.variants import CONTIGUOUS, DTYPES, covering, varied
from .functions import CLASSES, IGNORE
from .workload import ARTICLE_SIZE

# -- exercise 1: losses ------------------------------------------------------------------------------


def loss_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, count: int, *, kind=np.float32, at: dict | None = None, images=None, **options) -> Case:
        """``at``: place → loss there; ``images``: of each batch."""
        losses = rng.uniform(0.5, 7.0, size=count).astype(kind)
        for place, loss in (at or {}).items():
            losses[place] = loss
        if images is None:
            images = np.full(count, 2 ** rng.integers(2, 8))
            images[-1] = rng.integers(1, 4)
        return Case(name, {"losses": losses}, {"batches": [int(each) for each in images], **options})

    nan, inf = np.nan, np.inf
    return [
        case("a small last batch", 5),
        case("two batches", 2),
        case("one batch", 1),
        case("one loss is NaN", 6, at={int(rng.integers(5)): nan}),
        case("every loss is NaN", 2, at={0: nan, 1: nan}),
        case("thirty batches of any size", 30, images=rng.integers(1, 200, size=30)),
        case("batches of up to 2000 images", 4, images=[*rng.integers(200, 2001, size=2), 1024, 2000]),
        case("an empty batch, whose mean loss is NaN", 4, at={1: nan}, images=[8, 0, 8, 3]),
        case("a batch without images, and a loss", 3, images=[6, 0, 2]),
        case("a loss of 0, and one below 0", 4, at={0: 0.0, 1: -2.5}),
        case("one loss is inf", 3, at={1: inf}),
        case("losses in float16", 5, kind=np.float16, images=[*rng.integers(200, 2001, size=3), 48, 7]),
        case("losses in float64", 5, kind=np.float64),
        case("losses in float64, and so is the metric", 4, kind=np.float64, at={0: 3e200, 2: 1e200}, dtype="float64"),
    ]


# -- exercise 2: aggregators -------------------------------------------------------------------------

AGGREGATORS = ("MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric")


def aggregator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-3, 3, size=(3, 4)).astype(np.float32)
    weights = rng.uniform(0, 2, size=(3, 4)).astype(np.float32)

    def case(name: str, metrics, given=values, *, kind=np.float32, weights=None, weight_kind=None, **options) -> Case:
        inputs = {"values": np.asarray(given).astype(kind)}
        if weights is not None:
            inputs["weights"] = np.asarray(weights).astype(weight_kind or kind)
        if options.pop("as_numbers", False):
            options["rows"] = [[float(each) for each in row] for row in np.stack(list(inputs.values()), axis=1)]
        return Case(name, inputs, {"metrics": [metrics] if isinstance(metrics, str) else list(metrics), **options})

    whole, counts = rng.integers(-9, 10, size=(3, 4)), rng.integers(1, 9, size=(3, 4))
    infinite = values.copy()
    infinite[1, 2], huge = np.inf, 1e60 * values.astype(np.float64)
    matrices = Case("", {"values": rng.uniform(-3, 3, size=(2, 3, 5)).astype(np.float32)}, {"metrics": list(AGGREGATORS)})
    return [
        case("MeanMetric of scalars", "MeanMetric", values[:, 0]),
        case("MeanMetric of vectors", "MeanMetric"),
        case("MeanMetric, values 1, 2, 3 with weights 1, 0, 0", "MeanMetric", [[1, 2, 3]], weights=[[1, 0, 0]]),
        case("MeanMetric with weights", "MeanMetric", weights=weights),
        case("MeanMetric with one weight for each vector", "MeanMetric", weights=weights[:, :1]),
        case("MeanMetric with a scalar tensor as weight", "MeanMetric", weights=weights[:, 0]),
        case("MeanMetric with weights that are Python numbers", "MeanMetric", values[:, 0], weights=weights[:, 0],
             as_numbers=True),
        case("MeanMetric with whole numbers as weights", "MeanMetric", weights=counts, weight_kind=np.int64),
        case("MeanMetric of Python numbers", "MeanMetric", values[:, 0], as_numbers=True),
        case("SumMetric", "SumMetric"),
        case("SumMetric of Python numbers", "SumMetric", values[:, 0], as_numbers=True),
        case("MaxMetric", "MaxMetric"),
        case("MinMetric", "MinMetric"),
        case("CatMetric", "CatMetric"),
        *(case(f"all five, {name}", AGGREGATORS, given, kind=kind, **options) for name, given, kind, options in (
            ("of one value", values[:, :1], np.float32, {}),
            ("of nothing, an empty vector", values[:2, :0], np.float32, {}),
            ("of whole numbers", whole, np.int64, {}),
            ("of float16 up to 60 000", 1e4 * values[:, :3] * 2, np.float16, {}),
            ("of float64", values, np.float64, {}),
            ("in float64, of numbers too large for float32", huge, np.float64, {"dtype": "float64"}),
            ("one value is inf", infinite, np.float32, {}),
            ('made with nan_strategy="ignore"', values, np.float32, {"strategy": "ignore"}),
            ("one value is NaN", np.where(whole == whole[0, 0], np.nan, values), np.float32, {"nan": True}),
        )),
        *(varied(replace(matrices, name="all five, of matrices"), **combination)
          for combination in covering(rng, dtype=DTYPES, layout=(CONTIGUOUS, "transposed", "strided"))),
    ]


# -- exercises 3 and 5: logits and labels ------------------------------------------------------------


def logits_and_labels(rng, shape: tuple[int, ...], labels=None) -> tuple[np.ndarray, np.ndarray]:
    """Logits …×C float32 and labels … int64; about a third of the labels are the largest logit's class."""
    logits = rng.normal(size=(*shape, CLASSES)).astype(np.float32)
    if labels is None:
        labels = rng.integers(0, CLASSES, size=shape)
    return logits, np.where(rng.random(shape) < 1 / 3, logits.argmax(-1), labels)


Batches = list[tuple[np.ndarray, np.ndarray]]


def _drawn(rng) -> dict[str, tuple[Batches, dict]]:
    """Name → batches of logits N×C and labels N, and further options of the case."""

    def batches(*sizes: int, labels=None) -> Batches:
        return [logits_and_labels(rng, (size,), None if labels is None else np.full(size, labels)) for size in sizes]

    nearly_equal = batches(30, 20)
    for logits, _ in nearly_equal:  # the first class comes to just below the largest logit
        logits[:, 0] = np.minimum(logits.max(-1), logits[:, 1:].max(-1) - 1e-4)
    many, _ = batches(2600)[0]  # of one class more than a byte, or float16, can count
    many[:2400, 7] = many[2400:, 8] = 99.0
    return {
        "three batches": (batches(40, 40, 40), {}),
        "a second call, on other batches": (batches(40, 30), {"called_before": True}),
        "one batch": (batches(64), {}),
        "batches of one image": (batches(1, 1, 1, 1), {}),
        "seven batches of any size": (batches(*rng.integers(2, 60, size=7)), {}),
        "a small last batch": (batches(50, 50, 3), {}),
        "two classes in the labels": ([(logits, 5 + targets % 2) for logits, targets in batches(30, 30)], {}),
        "all wrong": ([(logits, (logits.argmax(-1) + 1) % CLASSES) for logits, _ in batches(25, 25)], {}),
        "all right": ([(logits, logits.argmax(-1)) for logits, _ in batches(20, 9)], {}),
        "mostly the last class": (batches(33, 33, labels=CLASSES - 1), {}),
        "mostly the first class": (batches(33, 20, labels=0), {}),
        "thousands of images of one class": ([(many, np.full(len(many), 7))], {}),
        "the two largest logits nearly equal": (nearly_equal, {}),
    }


VALUES = {"any logits": lambda logits: logits, "logits that are all below 0": lambda logits: logits - 50,
          "large logits": lambda logits: 300 * logits}


def _varied(rng, make_case) -> list[Case]:
    """Cases from sizes × values × dtypes × layouts."""
    cases = []
    for combination in covering(rng, sizes=((40, 30), (1,), (2, 17, 59, 8), (33,)), values=tuple(VALUES), dtype=DTYPES,
                                layout=(CONTIGUOUS, "transposed", "strided")):
        batches = []
        for size in combination["sizes"]:
            logits, targets = logits_and_labels(rng, (size,))
            logits[np.arange(size), logits.argmax(-1)] += 1  # the largest is the largest in float16 too
            batches.append((VALUES[combination["values"]](logits), targets))
        sizes = " + ".join(map(str, combination["sizes"]))
        cases.append(varied(make_case(f"{combination['values']}, {sizes} images", batches),
                            combination["dtype"], combination["layout"]))
    return cases


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, batches: Batches, options: dict | None = None) -> Case:
        return Case(name, {"outputs": [logits for logits, _ in batches], "targets": [targets for _, targets in batches]},
                    options or {})

    return [*(case(name, *drawn) for name, drawn in _drawn(rng).items()), *_varied(rng, case)]


def _evaluation(name: str, batches: Batches, options: dict | None = None) -> Case:
    return Case(name, {"images": [logits for logits, _ in batches], "targets": [targets for _, targets in batches]},
                options or {})


def evaluation_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def ignoring(name: str, batches: Batches, options: dict | None = None, share: float = 0.25) -> Case:
        return _evaluation(name, [(logits, np.where(rng.random(targets.shape) < share, IGNORE, targets))
                                  for logits, targets in batches], options)

    drawn = _drawn(rng)
    plain, again = drawn.pop("three batches")[0], drawn.pop("a second call, on other batches")
    logits, targets = plain[0]
    seen = logits.argmax(-1)
    only = np.where(seen == seen[0], IGNORE, targets)  # one class is predicted for ignored images alone
    return [
        ignoring("a quarter ignored", plain),
        ignoring("a second call, on another loader", *again),
        ignoring("nothing ignored", plain, share=0.0),
        ignoring("nearly all ignored", plain, share=0.95),
        ignoring("everything ignored", plain, share=1.0),
        _evaluation("a class is predicted for ignored images only", [(logits, only), plain[1]]),
        _evaluation("one batch ignored", [plain[0], (plain[1][0], np.full_like(plain[1][1], IGNORE)), plain[2]]),
        *(ignoring(f"{name}, a quarter ignored", *given) for name, given in drawn.items()),
        *_varied(rng, lambda name, batches: ignoring(f"{name}, a quarter ignored", batches)),
    ]


# -- exercise 4: step times --------------------------------------------------------------------------


def time_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = [Case(name, {}, {"times": rng.uniform(low, high, size=count).tolist()})
             for name, low, high, count in (("five steps", 60, 90, 5), ("one step", 0.5, 1.5, 1),
                                            ("a slow step", 1, 9000, 12), ("steps in seconds", 0.0004, 0.002, 7),
                                            ("forty steps", 60, 90, 40))]
    return [*cases, Case("whole numbers", {}, {"times": [70, 81, 75, 3]}), Case("a time of 0", {}, {"times": [0.0, 80.5]})]


# -- at the article's size ---------------------------------------------------------------------------

BATCHES, EVALUATED = 6, 3  # of a call of `collect`, of `evaluate`


def _loss_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("a step", {"losses": rng.uniform(0.5, 7.0, size=1).astype(np.float32)},
                 {"batches": [int(rng.integers(1, ARTICLE_SIZE.batch + 1))]}) for _ in range(count)]


def _aggregator_trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows = int(rng.integers(2, 5))
    return [Case("steps", {"values": rng.uniform(0.5, 7.0, size=rows).astype(np.float32),
                           "weights": rng.integers(1, ARTICLE_SIZE.batch, size=rows).astype(np.float32)},
                 {"metrics": ["MeanMetric", "SumMetric", "MaxMetric"]}) for _ in range(count)]


def _batch_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("batches", {name: list(values) for name, values in zip(
        ("outputs", "targets"), logits_and_labels(rng, (BATCHES, ARTICLE_SIZE.batch)))}) for _ in range(count)]


def _evaluation_trial(rng: np.random.Generator, count: int) -> list[Case]:
    found = []
    for _ in range(count):
        logits, targets = logits_and_labels(rng, (EVALUATED, ARTICLE_SIZE.batch))
        targets = np.where(rng.random(targets.shape) < 0.2, IGNORE, targets)
        found.append(_evaluation("batches", list(zip(logits, targets))))
    return found


def _time_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("steps", {}, {"times": rng.uniform(60, 110, size=1).tolist(), "only_timed": True}) for _ in range(count)]


LOSS_TRIAL, AGGREGATOR_TRIAL, BATCH_TRIAL, EVALUATION_TRIAL, TIME_TRIAL = (
    Trial(cases) for cases in (_loss_trial, _aggregator_trial, _batch_trial, _evaluation_trial, _time_trial))
