"""Lesson 03: the inputs on which answers are compared, small and at the article's size."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial
from .functions import CLASSES, IGNORE
from .workload import ARTICLE_SIZE


def loss_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, count: int, *, nan: bool = False) -> Case:
        losses = rng.uniform(0.5, 7.0, size=count).astype(np.float32)
        batches = np.full(count, 2 ** rng.integers(2, 8))
        batches[-1] = rng.integers(1, 4)
        if nan:
            losses[rng.integers(count - 1)] = np.nan
        return Case(name, {"losses": losses}, {"batches": batches.tolist()})

    return [case("a small last batch", 5), case("two batches", 2), case("one batch", 1),
            case("one loss is NaN", 6, nan=True)]


def aggregator_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-3, 3, size=(3, 4)).astype(np.float32)
    weights = rng.uniform(0, 2, size=(3, 4)).astype(np.float32)

    def case(name: str, metric: str, given=values, **options) -> Case:
        inputs = {"values": np.asarray(given, dtype=np.float32)}
        if "weights" in options:
            inputs["weights"] = np.asarray(options.pop("weights"), dtype=np.float32)
        if options.get("as_numbers"):
            options["rows"] = np.stack(list(inputs.values()), axis=1).tolist()
        return Case(name, inputs, {"metrics": [metric], **options})

    return [
        case("MeanMetric of scalars", "MeanMetric", values[:, 0]),
        case("MeanMetric of vectors", "MeanMetric"),
        case("MeanMetric, values 1, 2, 3 with weights 1, 0, 0", "MeanMetric", [[1, 2, 3]], weights=[[1, 0, 0]]),
        case("MeanMetric with weights", "MeanMetric", weights=weights),
        case("MeanMetric with one weight for each vector", "MeanMetric", weights=weights[:, :1]),
        case("MeanMetric with weights that are Python numbers", "MeanMetric", values[:, 0], weights=weights[:, 0],
             as_numbers=True),
        case("MeanMetric of Python numbers", "MeanMetric", values[:, 0], as_numbers=True),
        case("SumMetric", "SumMetric"),
        case("SumMetric of Python numbers", "SumMetric", values[:, 0], as_numbers=True),
        case("MaxMetric", "MaxMetric"),
        case("MinMetric", "MinMetric"),
        case("CatMetric", "CatMetric"),
    ]


def logits_and_labels(rng, shape: tuple[int, ...], labels=None) -> tuple[np.ndarray, np.ndarray]:
    """Logits …×C float32 and labels … int64; about a third of the labels are the largest logit's class."""
    logits = rng.normal(size=(*shape, CLASSES)).astype(np.float32)
    if labels is None:
        labels = rng.integers(0, CLASSES, size=shape)
    return logits, np.where(rng.random(shape) < 1 / 3, logits.argmax(-1), labels)


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, shape, labels in (
        ("three batches", (3, 40), None),
        ("one batch", (1, 64), None),
        ("batches of one", (4, 1), None),
        ("two classes in the labels", (2, 30), rng.integers(5, 7, size=(2, 30))),
    ):
        logits, targets = logits_and_labels(rng, shape, labels)
        cases.append(Case(name, {"outputs": list(logits), "targets": list(targets)}))
    wrong, targets = logits_and_labels(rng, (2, 25))
    cases.append(Case("all wrong", {"outputs": list(wrong), "targets": list((wrong.argmax(-1) + 1) % CLASSES)}))
    return cases


def _evaluation(name: str, logits: np.ndarray, targets: np.ndarray) -> Case:
    return Case(name, {"images": list(logits), "targets": list(targets)})


def evaluation_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, share, shape in (("a quarter ignored", 0.25, (3, 40)), ("nothing ignored", 0.0, (2, 30)),
                               ("nearly all ignored", 0.95, (3, 40)), ("everything ignored", 1.0, (2, 20))):
        logits, targets = logits_and_labels(rng, shape)
        cases.append(_evaluation(name, logits, np.where(rng.random(shape) < share, IGNORE, targets)))
    logits, targets = logits_and_labels(rng, (3, 25))
    targets[1] = IGNORE
    cases.append(_evaluation("one batch ignored", logits, targets))
    logits, targets = logits_and_labels(rng, (2, 33), np.full((2, 33), CLASSES - 1))
    targets[0, ::3] = IGNORE
    cases.append(_evaluation("mostly the last class", logits, targets))
    return cases


def time_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [Case(name, {}, {"times": rng.uniform(low, high, size=count).tolist()})
            for name, low, high, count in (("five steps", 60, 90, 5), ("one step", 0.5, 1.5, 1),
                                           ("a slow step", 1, 9000, 12))]


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
        found.append(_evaluation("batches", logits, np.where(rng.random(targets.shape) < 0.2, IGNORE, targets)))
    return found


def _time_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [Case("steps", {}, {"times": rng.uniform(60, 110, size=1).tolist()}) for _ in range(count)]


LOSS_TRIAL, AGGREGATOR_TRIAL, BATCH_TRIAL, EVALUATION_TRIAL, TIME_TRIAL = (
    Trial(cases) for cases in (_loss_trial, _aggregator_trial, _batch_trial, _evaluation_trial, _time_trial))
