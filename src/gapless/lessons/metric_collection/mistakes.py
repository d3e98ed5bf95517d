"""Lesson 03: known wrong answers, which tell a learner why one is wrong. Those about averages are in ``wrong_averages``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .stage import CLASSES, IGNORE, METRICS

Averages = dict[str, torch.Tensor]
Pairs = list[tuple[torch.Tensor, torch.Tensor]]  # of each batch the predicted classes and the labels, none of them ignored


def confusion(pairs: Pairs, side: int = CLASSES, kind: torch.dtype = torch.float64) -> torch.Tensor:
    """Rows: labels; columns: predictions."""
    cells = torch.cat([labels * side + seen for seen, labels in pairs])
    return torch.bincount(cells, minlength=side * side).view(side, side).to(kind)


def four(right, predicted, actual, mean, wrong=None) -> Averages:
    """The four from what each class counts; ``mean(top, bottom)`` makes an average of fractions."""
    wrong = {} if wrong is None else wrong
    found = {"accuracy": mean(right, actual), "precision": mean(right, predicted), "recall": mean(right, actual),
             "f1": mean(2 * right, predicted + actual)} | wrong
    return {name: torch.as_tensor(value, dtype=torch.float32) for name, value in found.items()}


def share(top, bottom):
    """Element by element; 0 where there is nothing to divide."""
    return torch.where(bottom > 0, top / bottom.clamp(min=1), torch.zeros_like(top))


def averaged(pairs: Pairs, over=lambda right, predicted, actual: predicted + actual > 0, fraction=share, wrong=None,
             matrix=None) -> Averages:
    """The four macro averages: the mean over the classes that ``over`` picks of each class's ``fraction``.
    ``wrong(right, predicted, actual, mean)`` replaces some of them."""
    matrix = confusion(pairs) if matrix is None else matrix
    right, predicted, actual = matrix.diag(), matrix.sum(0), matrix.sum(1)
    classes = over(right, predicted, actual).to(matrix.dtype)

    def mean(top, bottom):
        return (fraction(top, bottom) * classes).sum() / classes.sum().clamp(min=1)

    return four(right, predicted, actual, mean, None if wrong is None else wrong(right, predicted, actual, mean))


def _each(average: Callable[[Pairs], Averages], weigh=lambda labels: 1.0) -> Callable[[Pairs], Averages]:
    """The mean of what each batch gives."""

    def mean(pairs: Pairs) -> Averages:
        weights = [weigh(labels) for _, labels in pairs]
        values = [average([pair]) for pair in pairs]
        total = max(sum(weights), 1e-9)
        return {name: sum(w * value[name] for w, value in zip(weights, values)) / total for name in METRICS}

    return mean


def _of_one_batch(choose: Callable) -> Callable[[Pairs], Averages]:
    """Of what each batch gives the largest, or the smallest."""

    def chosen(pairs: Pairs) -> Averages:
        values = [averaged([pair]) for pair in pairs]
        return {name: choose(value[name] for value in values) for name in METRICS}

    return chosen


def micro(pairs: Pairs) -> Averages:
    """One number for all classes together."""
    matrix = confusion(pairs)
    return dict.fromkeys(METRICS, share(matrix.diag().sum(), matrix.sum()).to(torch.float32))


def _weighted(pairs: Pairs) -> Averages:
    """Averages in which a class counts as often as it occurs."""
    matrix = confusion(pairs)
    actual = matrix.sum(1)

    def mean(top, bottom):
        return (share(top, bottom) * actual).sum() / actual.sum().clamp(min=1)

    return four(matrix.diag(), matrix.sum(0), actual, mean)


def _counted_in(kind: torch.dtype, most: int | None = None) -> Callable[[Pairs], Averages]:
    """Counts in ``kind``: a byte wraps around, float16 stops."""

    def average(pairs: Pairs) -> Averages:
        counts = confusion(pairs)
        counts = counts.clamp(max=most) if most is not None else counts.to(torch.int64).to(kind).to(torch.float64)
        return averaged(pairs, matrix=counts)

    return average


def _written_not_added(pairs: Pairs) -> torch.Tensor:
    """What ``counts[cells] += 1`` counts: each cell once for each batch."""
    return sum(confusion([pair]).clamp(max=1) for pair in pairs)


def _f1_of_averages(right, predicted, actual, mean) -> Averages:
    precision, recall = mean(right, predicted), mean(right, actual)
    return {"f1": share(2 * precision * recall, torch.ones_like(precision)) / (precision + recall).clamp(min=1e-12)}


def _true_negatives_count(right, predicted, actual, mean) -> Averages:
    total = actual.sum()
    return {"accuracy": mean(total - predicted - actual + 2 * right, total.expand_as(right))}


def _all_classes(right, predicted, actual):
    return torch.ones_like(right)


def _present(right, predicted, actual):
    return actual > 0


_SKIPPED = ("A class that occurs in the labels alone or in the predictions alone was left out of the mean: it counts, with "
            "0 where its fraction is 0 / 0.")
# In order of likelihood. Each names what is different from the right averages.
FORMULAS: tuple[tuple[Callable[[Pairs], Averages], str], ...] = (
    (micro,
     "All four are the same number: that is what average=\"micro\" gives (every error is a false positive of one class and "
     "a false negative of another). Return macro averages."),
    (_each(averaged),
     "That is the mean of the batches' values. The batches have to be counted together, and the averages computed once from "
     "the counts: `update` for each batch, `compute` at the end."),
    (_each(averaged, len),
     "That is the mean of the batches' values, weighted by their sizes. A macro average is no mean over images: count the "
     "batches together, and compute the averages once from the counts."),
    (lambda pairs: {name: len(pairs) * value for name, value in _each(averaged)(pairs).items()},
     "That is the sum of the batches' values. Count the batches together, and compute the averages once from the counts."),
    (_of_one_batch(max),
     "Those are the largest of the batches' values. Count the batches together, and compute the averages once from the "
     "counts."),
    (_of_one_batch(min),
     "Those are the smallest of the batches' values. Count the batches together, and compute the averages once from the "
     "counts."),
    (_each(micro),
     "That is the mean of the batches' micro averages. Count the batches together, and take macro averages."),
    (lambda pairs: averaged(pairs[-1:]),
     "Only the last batch counts. Is the metric made, or reset, inside the loop? Or is it the value that calling the metric "
     "returned, which is the batch's own?"),
    (lambda pairs: averaged([*pairs, *pairs[:1]]),
     "The first batch counts twice: was the collection updated with it before the loop, to find its groups? `reset` it, or "
     "give `compute_groups`."),
    (lambda pairs: averaged(pairs[:1]), "Only the first batch counts. Is there a `return` inside the loop?"),
    (lambda pairs: averaged(pairs[:-1] or pairs), "The last batch is missing: every batch has to count."),
    (lambda pairs: averaged(pairs[1:] or pairs), "The first batch is missing: every batch has to count."),
    (_weighted,
     "Those are averages weighted by how often each class occurs (average=\"weighted\"). In a macro average each class "
     "counts "
     "alike."),
    (lambda pairs: averaged(pairs, over=_all_classes),
     f"The sum over the classes was divided by all {CLASSES} classes. Classes that occur neither in the labels nor in the "
     "predictions do not belong to the mean."),
    (lambda pairs: averaged(pairs, over=_present),
     "The mean is over the classes in the labels alone. A class that is predicted and never right belongs to it too, "
     "with 0."),
    (lambda pairs: averaged(pairs, over=lambda right, predicted, actual: predicted > 0),
     "The mean is over the classes in the predictions alone. A class that occurs and is never found belongs to it too, with "
     "0."),
    (lambda pairs: averaged(pairs, over=lambda right, predicted, actual: (predicted > 0) & (actual > 0)), _SKIPPED),
    (lambda pairs: averaged(pairs, over=lambda right, predicted, actual: right > 0),
     "The mean is over the classes that were found at least once. A class that is never right counts, with 0."),
    (lambda pairs: _each_over_its_own(pairs), _SKIPPED),
    (lambda pairs: {name: CLASSES * value for name, value in averaged(pairs, over=_all_classes).items()},
     "That is a sum over the classes: divide it by the number of classes that occur in the labels or the predictions."),
    (lambda pairs: averaged(pairs, matrix=confusion(pairs).T.contiguous()),
     "Labels and predictions are swapped: precision is the right ones among the predictions of a class (false positives "
     "count), recall among its labels (false negatives count). Which is the row of your matrix? In TorchMetrics: "
     "`update(predictions, labels)`."),
    (lambda pairs: averaged(pairs, wrong=_f1_of_averages),
     "F1 was computed from the averages of precision and recall. The macro F1 is the mean of the classes' F1: 2·tp / "
     "(2·tp + "
     "fp + fn) for each class, then the mean."),
    (lambda pairs: averaged(pairs, wrong=lambda right, predicted, actual, mean:
                            {"f1": mean(right, predicted + actual - right)}),
     "That is tp / (tp + fp + fn), the Jaccard index (IoU). F1 counts tp twice: 2·tp / (2·tp + fp + fn)."),
    (lambda pairs: averaged(pairs, wrong=lambda right, predicted, actual, mean: {"f1": mean(right, predicted + actual)}),
     "F1 is half of what it should be: 2·tp / (2·tp + fp + fn)."),
    (lambda pairs: averaged(pairs, wrong=lambda right, predicted, actual, mean:
                            {"accuracy": share(right.sum(), actual.sum())}),
     "That accuracy is the share of all images that are right: the micro average. The macro accuracy is the mean over the "
     "classes of the share of a class's images that are right, the same as the macro recall."),
    (lambda pairs: averaged(pairs, wrong=_true_negatives_count),
     "That accuracy counts true negatives, (tp + tn) / all. TorchMetrics' macro accuracy is tp / (tp + fn) for each "
     "class, the "
     "same as recall."),
    (lambda pairs: averaged(pairs, wrong=lambda right, predicted, actual, mean:
                            {"accuracy": mean(right, predicted + actual - right)}),
     "That accuracy is tp / (tp + fp + fn), the Jaccard index (IoU). TorchMetrics' macro accuracy is tp / (tp + fn) for "
     "each "
     "class, the same as recall."),
    (lambda pairs: averaged(pairs, wrong=lambda right, predicted, actual, mean: {"accuracy": mean(right, predicted)}),
     "That accuracy is the precision: divide by the labels of the class (tp + fn), not by its predictions."),
    (lambda pairs: averaged(pairs, fraction=lambda top, bottom: torch.where(bottom > 0, top / bottom.clamp(min=1), 1.0)),
     "A class whose fraction is 0 / 0 counts as 1. It counts as 0."),
    (lambda pairs: averaged(pairs, over=_all_classes, fraction=lambda top, bottom: top / bottom),
     "NaN is 0 / 0. A class that occurs and is never found has the fraction 0, and where no class occurs at all the mean is "
     "0: see to it that nothing is divided by 0 (`torch.where`, `clamp(min=1)`)."),
    (lambda pairs: averaged(pairs, matrix=_written_not_added(pairs)),
     "Each cell counts once a batch, however often it occurs: `counts[cells] += 1` writes the same cell only once. Use "
     "`scatter_add_` or `index_add_`, which add."),
    (lambda pairs: averaged(pairs, matrix=confusion(pairs).clamp(max=1)),
     "Each cell counts once, however often it occurs: was it written (`counts[cells] = 1`, `scatter_`) where it has to be "
     "added (`scatter_add_`)?"),
    (_counted_in(torch.uint8), "A count has overflowed: uint8 wraps around after 255. Count in int64, or in float32."),
    (_counted_in(torch.int8), "A count has overflowed: int8 ends at 127. Count in int64, or in float32."),
    (_counted_in(torch.float16, 2048), "A count stops at 2048: float16 has no 2049. Count in int64, or in float32."),
    (_counted_in(torch.bfloat16, 256), "A count stops at 256: bfloat16 cannot add 1 to it. Count in int64, or in "
                                       "float32."),
    (lambda pairs: averaged([(seen % (CLASSES - 1), labels % (CLASSES - 1)) for seen, labels in pairs]),
     f"The last class, {CLASSES - 1}, is counted as class 0: there are {CLASSES} classes, 0 … {CLASSES - 1}."),
    (lambda pairs: averaged([(seen[kept], labels[kept]) for seen, labels in pairs for kept in [labels != CLASSES - 1]]),
     f"Labels of the last class, {CLASSES - 1}, are left out: there are {CLASSES} classes, 0 … {CLASSES - 1}."),
    (lambda pairs: averaged([(seen[kept], labels[kept]) for seen, labels in pairs for kept in [labels != 0]]),
     "Labels of class 0 are left out: 0 is a class like any other."),
    (lambda pairs: averaged(pairs, matrix=_without(pairs, slice(None, CLASSES - 1))),
     f"The last class, {CLASSES - 1}, was cut off: there are {CLASSES} classes, 0 … {CLASSES - 1}."),
    (lambda pairs: averaged(pairs, matrix=_without(pairs, slice(1, None))), "Class 0 was cut off: 0 is a class like any "
                                                                            "other."),
    (lambda pairs: dict.fromkeys(METRICS, pairs[0][0].new_zeros((), dtype=torch.float32)),
     "All four are 0: nothing is counted, or a whole-number division (`//`, `.long()`) cut every fraction off. Was the "
     "result of a `scatter_add` (without the `_`) thrown away?"),
    (lambda pairs: averaged([(torch.zeros_like(seen), labels) for seen, labels in pairs]),
     "All predictions are taken for class 0: were the logits made whole numbers, or were they all equal after a "
     "`sigmoid` or "
     "`softmax`? `argmax(1)` of the logits gives the classes."),
    (lambda pairs: averaged(pairs, fraction=lambda top, bottom: 100 * share(top, bottom)),
     "That is in per cent. Return a share between 0 and 1."),
)


def _without(pairs: Pairs, kept: slice) -> torch.Tensor:
    """The counts of the classes ``kept``, and 0 for the others."""
    counts = confusion(pairs)
    left = torch.zeros_like(counts)
    left[kept, kept] = counts[kept, kept]
    return left


def _each_over_its_own(pairs: Pairs) -> Averages:
    """A mean over the classes in which the fraction is no 0 / 0, another for each."""
    matrix = confusion(pairs)

    def mean(top, bottom):
        return share(top, bottom).sum() / (bottom > 0).sum().clamp(min=1)

    return four(matrix.diag(), matrix.sum(0), matrix.sum(1), mean)


# (which classes are seen in the logits, why that is wrong)
CHOICES: tuple[tuple[Callable, str], ...] = (
    (lambda output: output.argmin(1), "The class of the *smallest* logit was taken (`argmin`, or a sort the other way "
                                      "round)."),
    (lambda output: output.abs().argmax(1), "The logits' signs are lost: the largest logit wins, not the largest size."),
    (lambda output: output.square().argmax(1), "The logits' signs are lost: the largest logit wins, not the largest size."),
    (lambda output: output.topk(2, 1).indices[:, 1], "The second largest logit's class was taken."),
    (lambda output: output.sigmoid().argmax(1), "The logits went through a `sigmoid`, where all large ones become 1 (and "
                                                "all "
                                                "small ones 0): take `argmax(1)` of the logits."),
    (lambda output: output.clamp(0, 1).argmax(1), "The logits were cut off (`clamp`, `relu`): take `argmax(1)` of them "
                                                  "as they "
                                                  "are."),
    (lambda output: output.relu().argmax(1), "The logits below 0 were made 0 (`relu`, `clamp`): take `argmax(1)` of them as "
                                             "they are."),
    *((lambda output, limit=limit: (output > limit).int().argmax(1),
       "The *first* logit above a threshold was taken, not the largest.") for limit in (0, 0.5)),
    (lambda output: output.softmax(0).argmax(1), "The `softmax` goes over the images, as dimension 0: the classes are "
                                                 "dimension 1."),
    (lambda output: output.long().argmax(1), "The logits were converted to whole numbers before the largest was looked "
                                             "for."),
    *((lambda output, decimals=decimals: output.round(decimals=decimals).argmax(1),
       "The logits were rounded before the largest was looked for.") for decimals in (0, 1, 2)),
    (lambda output: output.half().argmax(1), "The logits, or what was made of them, were cast to float16 (or rounded): "
                                             "then two "
                                             "different ones are equal, and the first one wins. Take `argmax(1)` of the "
                                             "logits."),
    (lambda output: output.softmax(1).half().argmax(1),
     "The probabilities were cast to float16 (or rounded): then two different ones are equal, and the first one wins. Take "
     "`argmax(1)` of the logits."),
    (lambda output: output.argmax(0)[: len(output)] if len(output) <= CLASSES else output.argmax(1),
     "`argmax(0)` goes over the images. The largest logit of each image is `argmax(1)`."),
)


def counting(pairs: Pairs) -> Pairs:
    """Without the images whose label is IGNORE."""
    return [(seen[labels != IGNORE], labels[labels != IGNORE]) for seen, labels in pairs]


def _each_batch(change: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple]) -> Callable[[Pairs], Pairs]:
    """``change(seen, labels, ignored)`` of each batch."""
    return lambda pairs: [change(seen, labels, labels == IGNORE) for seen, labels in pairs]


def _relabelled(label: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Pairs], Pairs]:
    return _each_batch(lambda seen, labels, ignored: (seen, torch.where(ignored, label(seen), labels)))


def _whole_batches(pairs: Pairs) -> Pairs:
    return [(seen, labels) for seen, labels in pairs if not (labels == IGNORE).any()] or _nothing(pairs)


def _until_all_ignored(pairs: Pairs) -> Pairs:
    ignored = [bool((labels == IGNORE).all()) for _, labels in pairs]
    return counting(pairs[:ignored.index(True)] if True in ignored else pairs) or _nothing(pairs)


def _nothing(pairs: Pairs) -> Pairs:
    return [(seen[:0], labels[:0]) for seen, labels in pairs]


_NOWHERE = "An image whose target is IGNORE must count nowhere, as a prediction neither. "
# What is done about images that are ignored, and what is wrong with that.
IGNORING: tuple[tuple[Callable[[Pairs], Pairs], str], ...] = (
    (_relabelled(torch.zeros_like),
     f"{_NOWHERE}Here it counts as an image of class 0: a `clamp(min=0)` alone does not leave it out."),
    (_relabelled(lambda seen: torch.full_like(seen, CLASSES - 1)),
     f"{_NOWHERE}Here it counts as an image of the last class: −1 as an index is the last one."),
    (_relabelled(lambda seen: seen), f"{_NOWHERE}Here it counts as right: its label was replaced by what was predicted."),
    (_each_batch(lambda seen, labels, ignored: (seen.masked_fill(ignored, 0), labels.masked_fill(ignored, 0))),
     f"{_NOWHERE}Here it counts as a right prediction of class 0: multiplying by a mask, or `masked_fill` with 0, makes a "
     "class of it. Give it the weight 0, or a class of its own that is cut off."),
    (_each_batch(lambda seen, labels, ignored: (seen[ignored], labels[ignored].clamp(min=0))),
     "The mask is the wrong way round: only what has to be ignored counts."),
    (_whole_batches, "A whole batch is left out as soon as one of its targets is IGNORE: leave out the images, not the "
                     "batch."),
    (_until_all_ignored, "The loop ends at a batch that is ignored as a whole: `continue`, not `break`."),
)


def _with_a_class_more(over: int) -> Callable[[Pairs], Averages]:
    """What is ignored is counted as a class of its own, and the first ``over`` classes are averaged."""

    def average(pairs: Pairs) -> Averages:
        matrix = confusion([(seen, labels % (CLASSES + 1)) for seen, labels in pairs], CLASSES + 1)
        right, predicted, actual = (counts[:over] for counts in (matrix.diag(), matrix.sum(0), matrix.sum(1)))
        classes = (predicted + actual > 0).sum().clamp(min=1)
        return four(right, predicted, actual, lambda top, bottom: share(top, bottom).sum() / classes)

    return average


LEFT_IN: tuple[tuple[Callable[[Pairs], Averages], str], ...] = (
    (_with_a_class_more(CLASSES),
     f"{_NOWHERE}Its label is left out, but what was predicted for it still counts as a false positive. Cut off the ignored "
     "images' row before the columns are summed, or weight them with 0."),
    (_with_a_class_more(CLASSES + 1),
     "What is ignored counts as a class of its own: cut it off before the averages are computed "
     f"(`[:{CLASSES}, :{CLASSES}]`)."),
)


def _local(metric_class, **options):
    return lambda device: metric_class(sync_on_compute=False, **options)
