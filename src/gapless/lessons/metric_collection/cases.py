"""Lesson 03: the inputs on which answers are compared, small and at the article's size.

Every exercise goes through lists of sizes, values, kinds of numbers and layouts: a wrong answer is often right on plain
batches of float32.
"""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.variants import CONTIGUOUS, DTYPES, covering, varied
from .stage import CLASSES, IGNORE
from .workload import ARTICLE_SIZE


def logits_and_labels(rng, shape: tuple[int, ...], labels=None) -> tuple[np.ndarray, np.ndarray]:
    """Logits …×C float32 and labels … int64; about a third of the labels are the largest logit's class."""
    logits = rng.normal(size=(*shape, CLASSES)).astype(np.float32)
    if labels is None:
        labels = rng.integers(0, CLASSES, size=shape)
    return logits, np.where(rng.random(shape) < 1 / 3, logits.argmax(-1), labels)


Batches = list[tuple[np.ndarray, np.ndarray]]


def draw(rng) -> dict[str, tuple[Batches, dict]]:
    """Name → batches of logits N×C and labels N, and further options of the case."""

    def batches(*sizes: int, labels=None) -> Batches:
        return [logits_and_labels(rng, (size,), None if labels is None else np.full(size, labels)) for size in sizes]

    nearly_equal = batches(30, 20)
    for logits, _ in nearly_equal:  # the first class comes to just below the largest logit
        logits[:, 0] = np.minimum(logits.max(-1), logits[:, 1:].max(-1) - 1e-4)
    many, _ = batches(3549)[0]  # of one class more than a byte can count, and 2049, which float16 does not have
    many[:2049, 7] = many[2049:, 8] = 99.0
    return {
        "three batches": (batches(40, 40, 40), {}),
        "a second call, on other batches": (batches(40, 40, 30), {"called_before": True}),
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


def varied_in_all(rng, make_case) -> list[Case]:
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


def evaluation(name: str, batches: Batches, options: dict | None = None) -> Case:
    return Case(name, {"images": [logits for logits, _ in batches], "targets": [targets for _, targets in batches]},
                options or {})


BATCHES, EVALUATED = 4, 3  # of a call of `collect`, of `evaluate`


def _loss_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("a step", {"losses": rng.uniform(0.5, 7.0, size=1).astype(np.float32)},
                 {"batches": [int(rng.integers(1, ARTICLE_SIZE.batch + 1))], "only_timed": True}) for _ in range(count)]


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
        found.append(evaluation("batches", list(zip(logits, targets))))
    return found


def _time_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("steps", {}, {"times": rng.uniform(60, 110, size=1).tolist(), "only_timed": True}) for _ in range(count)]


LOSS_TRIAL, AGGREGATOR_TRIAL, BATCH_TRIAL, EVALUATION_TRIAL, TIME_TRIAL = (
    Trial(cases) for cases in (_loss_trial, _aggregator_trial, _batch_trial, _evaluation_trial, _time_trial))
