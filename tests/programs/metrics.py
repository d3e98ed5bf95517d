"""torchmetrics: update twice, compute."""

from __future__ import annotations

import importlib

import torch

from . import add


def reals(*shape):
    return lambda: torch.rand(shape)


def normals(*shape):
    return lambda: torch.randn(shape)


def classes(count, *shape):
    return lambda: torch.randint(0, count, shape)


SCORES = reals(16, 4), classes(4, 16)
BINARY = reals(16), classes(2, 16)
LABELS = reals(16, 4), classes(2, 16, 4)
NUMBERS = normals(16), normals(16)
PICTURES = reals(2, 3, 32, 32), reals(2, 3, 32, 32)
SOUNDS = normals(2, 200), normals(2, 200)
CLASSES = classes(4, 16), classes(4, 16)

METRICS = [
    *[(name, {"task": "multiclass", "num_classes": 4}, SCORES) for name in (
        "Accuracy", "Precision", "Recall", "F1Score", "AUROC", "AveragePrecision", "ConfusionMatrix", "CohenKappa",
        "JaccardIndex", "MatthewsCorrCoef", "CalibrationError", "Specificity", "StatScores", "HammingDistance")],
    *[(name, {"task": "binary"}, BINARY) for name in ("ROC", "PrecisionRecallCurve", "HingeLoss", "AUROC")],
    *[(name, {"task": "multilabel", "num_labels": 4}, LABELS) for name in ("AveragePrecision", "F1Score", "AUROC")],
    *[(name, {}, NUMBERS) for name in (
        "MeanSquaredError", "MeanAbsoluteError", "PearsonCorrCoef", "SpearmanCorrCoef", "R2Score", "ExplainedVariance",
        "KendallRankCorrCoef", "ConcordanceCorrCoef", "LogCoshError", "SymmetricMeanAbsolutePercentageError")],
    *[(name, {}, PICTURES) for name in (
        "image.StructuralSimilarityIndexMeasure", "image.TotalVariation",
        "image.UniversalImageQualityIndex", "image.SpectralAngleMapper")],
    *[(name, {}, SOUNDS) for name in (
        "audio.SignalNoiseRatio", "audio.ScaleInvariantSignalDistortionRatio", "audio.SignalDistortionRatio")],
    *[(name, {}, CLASSES) for name in (
        "clustering.MutualInfoScore", "clustering.AdjustedRandScore", "clustering.VMeasureScore")],
    ("image.PeakSignalNoiseRatio", {"data_range": 1.0}, PICTURES), ("MeanMetric", {}, NUMBERS[:1]), ("SumMetric", {}, NUMBERS[:1]), ("CatMetric", {}, NUMBERS[:1]),
]


def _metric(name, arguments, sources):
    def run(device):
        module, _, kind = f"torchmetrics.{name}".rpartition(".")
        metric = getattr(importlib.import_module(module), kind)(**arguments).to(device)
        updates = sources[:1] if kind == "TotalVariation" else sources
        for _ in range(2):
            metric.update(*(make().to(device) for make in updates))
        result = metric.compute()
        results = result if isinstance(result, (tuple, list)) else [result]
        return {str(number): value for number, value in enumerate(results)}

    return run


for name, arguments, sources in METRICS:
    add("torchmetrics", " ".join([name, *map(str, arguments.values())]), _metric(name, arguments, sources), "torchmetrics")
