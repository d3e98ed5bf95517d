"""torchmetrics: update twice, compute."""

from __future__ import annotations

import torch

from . import add

SCORES = (torch.rand, (16, 4)), (torch.randint, (0, 4, (16,)))
BINARY = (torch.rand, (16,)), (torch.randint, (0, 2, (16,)))
LABELS = (torch.rand, (16, 4)), (torch.randint, (0, 2, (16, 4)))
NUMBERS = (torch.randn, (16,)), (torch.randn, (16,))
PICTURES = (torch.rand, (2, 3, 32, 32)), (torch.rand, (2, 3, 32, 32))
SOUNDS = (torch.randn, (2, 200)), (torch.randn, (2, 200))
CLASSES = (torch.randint, (0, 4, (16,))), (torch.randint, (0, 4, (16,)))

METRICS = [
    *[(name, {"task": "multiclass", "num_classes": 4}, SCORES) for name in (
        "Accuracy", "Precision", "Recall", "F1Score", "AUROC", "AveragePrecision", "ConfusionMatrix", "CohenKappa",
        "JaccardIndex", "MatthewsCorrCoef", "CalibrationError", "Specificity", "StatScores", "ExactMatch", "HammingDistance")
      if name != "ExactMatch"],
    *[(name, {"task": "binary"}, BINARY) for name in ("ROC", "PrecisionRecallCurve", "HingeLoss", "AUROC")],
    *[(name, {"task": "multilabel", "num_labels": 4}, LABELS) for name in ("AveragePrecision", "F1Score", "AUROC")],
    *[(name, {}, NUMBERS) for name in (
        "MeanSquaredError", "MeanAbsoluteError", "PearsonCorrCoef", "SpearmanCorrCoef", "R2Score", "ExplainedVariance",
        "KendallRankCorrCoef", "ConcordanceCorrCoef", "LogCoshError", "SymmetricMeanAbsolutePercentageError")],
    *[(name, {}, PICTURES) for name in (
        "image.PeakSignalNoiseRatio", "image.StructuralSimilarityIndexMeasure", "image.TotalVariation",
        "image.UniversalImageQualityIndex", "image.SpectralAngleMapper")],
    *[(name, {}, SOUNDS) for name in (
        "audio.SignalNoiseRatio", "audio.ScaleInvariantSignalDistortionRatio", "audio.SignalDistortionRatio")],
    *[(name, {}, CLASSES) for name in (
        "clustering.MutualInfoScore", "clustering.AdjustedRandScore", "clustering.VMeasureScore")],
    ("MeanMetric", {}, NUMBERS[:1]), ("SumMetric", {}, NUMBERS[:1]), ("CatMetric", {}, NUMBERS[:1]),
]


def _metric(name, arguments, sources):
    def run(device):
        import torchmetrics

        kind = torchmetrics
        for part in name.split("."):
            kind = getattr(kind, part)
        metric, updates = kind(**arguments).to(device), sources[:1] if name.endswith("TotalVariation") else sources
        for _ in range(2):
            values = [make(*(shape if make is torch.randint else (shape,))) for make, shape in updates]
            metric.update(*(value.to(device) for value in values))
        result = metric.compute()
        results = result if isinstance(result, (tuple, list)) else [result]
        return {str(number): value for number, value in enumerate(results)}

    return run


for name, arguments, sources in METRICS:
    add("torchmetrics", " ".join([name, *map(str, arguments.values())]), _metric(name, arguments, sources), "torchmetrics")
