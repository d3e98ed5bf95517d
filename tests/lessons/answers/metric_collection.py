"""Lesson 03: right and fast answers that are not what the reference solution does, and wrong ones with what is said of them."""

import torch
import torch.nn.functional as F
from torchmetrics import MeanMetric, MetricCollection, SumMetric

from gapless.lessons.metric_collection.functions import CLASSES, IGNORE, METRICS


def filled(metric, loss, batch):
    metric.update(loss, torch.full((), float(batch), device=loss.device))


def scaled_ones(metric, loss, batch):
    metric.update(loss, torch.ones_like(loss) * batch)


def weight_on_the_cpu(metric, loss, batch):
    metric.update(loss, torch.tensor(float(batch)))


def copied_without_waiting(metric, loss, batch):
    metric.update(loss, torch.tensor(float(batch)).to(loss.device, non_blocking=True))


def once_for_each_image(metric, loss, batch):
    metric.update(loss.expand(batch))


def given_class_changed(MetricClass):
    def unchecked(self, x, weight=None):
        if not isinstance(x, torch.Tensor):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
        return x.to(self.dtype), torch.ones_like(x) if weight is None else weight.to(self.dtype)

    MetricClass._cast_and_nan_check_input = unchecked
    return MetricClass


def nan_counts_nothing(MetricClass):
    class Quiet(MetricClass):
        def _cast_and_nan_check_input(self, x, weight=None):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
            weight = torch.ones_like(x) if weight is None else weight
            nan = torch.isnan(x) | torch.isnan(weight)
            return x.masked_fill(nan, 0.0), weight.masked_fill(nan, 0.0).to(self.dtype)

    return Quiet


def groups_found_out(outputs, targets):
    with outputs[0].device:
        collection = MetricCollection({name: metric(num_classes=CLASSES, average="macro") for name, metric in METRICS.items()})
    for output, target in zip(outputs, targets):
        collection.update(output, target)
    return collection.compute()


def all_at_once(outputs, targets):
    outputs, targets = torch.cat(outputs), torch.cat(targets)
    with outputs.device:
        metrics = {name: metric(num_classes=CLASSES, average="macro") for name, metric in METRICS.items()}
    for metric in metrics.values():
        metric.update(outputs, targets)
    return {name: metric.compute() for name, metric in metrics.items()}


def averages(confusion):
    """The four, from a confusion matrix on the device (rows: targets)."""
    right, predicted, actual = confusion.diag(), confusion.sum(0), confusion.sum(1)
    seen = predicted + actual > 0

    def mean(top, bottom):
        return torch.where(bottom > 0, top / bottom, 0.0).sum() / seen.sum().clamp(min=1)

    recall = mean(right, actual)
    return {"accuracy": recall, "precision": mean(right, predicted), "recall": recall, "f1": mean(2 * right, predicted + actual)}


def confusion_of_all(outputs, targets):
    pairs = torch.cat([target * CLASSES + output.argmax(1) for output, target in zip(outputs, targets)])
    counts = torch.zeros(CLASSES**2, device=pairs.device)
    return averages(counts.index_add_(0, pairs, torch.ones_like(pairs, dtype=torch.float32)).view(CLASSES, CLASSES))


def product_of_one_hots(model, loader, device):
    confusion = torch.zeros(CLASSES, CLASSES, device=device)
    with torch.no_grad():
        for images, targets in loader:
            valid = (targets != IGNORE).float().unsqueeze(1)
            actual = F.one_hot(targets.clamp(min=0), CLASSES) * valid
            confusion += actual.T @ F.one_hot(model(images).argmax(1), CLASSES).float()
    return averages(confusion)


def weighted_scatter(model, loader, device):
    counts = torch.zeros(CLASSES**2, device=device)
    with torch.no_grad():
        for images, targets in loader:
            pairs = targets.clamp(min=0) * CLASSES + model(images).argmax(1)
            counts.scatter_add_(0, pairs, (targets != IGNORE).float())
    return averages(counts.view(CLASSES, CLASSES))


def zero_dimensional(device):
    class Mean(MeanMetric):
        def update(self, value, weight=None):
            super().update(torch.tensor(float(value)), weight)

    return Mean().to(device)


def without_groups(device):
    return MeanMetric(distributed_available_fn=lambda: False)


OTHER_ROUTES = {
    "update_loss": [filled, scaled_ones, weight_on_the_cpu, copied_without_waiting, once_for_each_image],
    "suppress_nan_check": [given_class_changed, nan_counts_nothing],
    "collect": [groups_found_out, all_at_once, confusion_of_all],
    "step_time_metric": [zero_dimensional, without_groups],
    "evaluate": [product_of_one_hots, weighted_scatter],
}


def straight_into_the_state(metric, loss, batch):
    metric.mean_value += loss * batch
    metric.weight += batch


def disabled(MetricClass):
    class Disabled(MetricClass):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, nan_strategy="disable", **kwargs)

    return Disabled


def weights_dropped(MetricClass):
    class Dropped(MetricClass):
        def _cast_and_nan_check_input(self, x, weight=None):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
            return x, torch.ones_like(x)

    return Dropped


def weight_demanded(MetricClass):
    class Demanding(MetricClass):
        def _cast_and_nan_check_input(self, x, weight):
            return x, weight

    return Demanding


def no_weight_back(MetricClass):
    class Alone(MetricClass):
        def _cast_and_nan_check_input(self, x, weight=None):
            return torch.as_tensor(x)

    return Alone


def numbers_not_converted(MetricClass):
    class Fast(MetricClass):
        def _cast_and_nan_check_input(self, x, weight=None):
            return x, weight

    return Fast


def micro(outputs, targets):
    with outputs[0].device:
        metrics = {name: metric(num_classes=CLASSES, average="micro") for name, metric in METRICS.items()}
    collection = MetricCollection(metrics, compute_groups=[list(METRICS)])
    for output, target in zip(outputs, targets):
        collection.update(output, target)
    return collection.compute()


def mean_of_batch_values(outputs, targets):
    each = [groups_found_out([output], [target]) for output, target in zip(outputs, targets)]
    return {name: torch.stack([values[name] for values in each]).mean() for name in METRICS}


def last_batch_only(outputs, targets):
    return groups_found_out(outputs[-1:], targets[-1:])


def ignored_counted_as_class_zero(model, loader, device):
    return confusion_of_all([model(images) for images, _ in loader], [targets.clamp(min=0) for _, targets in loader])


def mean_over_all_classes(model, loader, device):
    found = weighted_scatter(model, loader, device)
    return {name: value / 2 for name, value in found.items()}


def nothing_kept_from_zero(model, loader, device):
    counts = torch.zeros(CLASSES**2, device=device)
    with torch.no_grad():
        for images, targets in loader:
            counts.scatter_add_(0, targets.clamp(min=0) * CLASSES + model(images).argmax(1), (targets != IGNORE).float())
    confusion = counts.view(CLASSES, CLASSES)
    right, predicted, actual = confusion.diag(), confusion.sum(0), confusion.sum(1)
    return {name: (right / (predicted + actual)).mean() for name in METRICS}


def collected_on_the_cpu(outputs, targets):
    return groups_found_out([output.cpu() for output in outputs], [target.cpu() for target in targets])


def evaluated_on_the_cpu(model, loader, device):
    model.cpu()
    found = weighted_scatter(model, [(images.cpu(), targets.cpu()) for images, targets in loader], torch.device("cpu"))
    model.to(device)
    return found


class OfNoOne(MeanMetric):
    pass


WRONG = [
    ("update_loss", lambda metric, loss, batch: metric.update(loss), "counts as much as a full one"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss * batch), "does that itself"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss * batch, batch), "does that itself"),
    ("update_loss", straight_into_the_state, "remembers its last result"),
    ("update_loss", lambda metric, loss, batch: None, "took nothing in"),
    ("suppress_nan_check", disabled, 'nan_strategy="disable"'),
    ("suppress_nan_check", weights_dropped, "mean without the weights"),
    ("suppress_nan_check", weight_demanded, "missing 1 required positional argument"),
    ("suppress_nan_check", numbers_not_converted, "has to return two tensors"),
    ("suppress_nan_check", no_weight_back, "return two tensors"),
    ("suppress_nan_check", lambda MetricClass: None, "a class is wanted"),
    ("suppress_nan_check", lambda MetricClass: MetricClass(), "a class is wanted"),
    ("suppress_nan_check", lambda MetricClass: OfNoOne, "does not inherit from the one that was given (SumMetric)"),
    ("collect", micro, 'average="micro"'),
    ("collect", last_batch_only, "Every batch has to count"),
    ("collect", mean_of_batch_values, "mean of the batches' values"),
    ("collect", lambda outputs, targets: [0.1, 0.2, 0.3, 0.4], "a dict with"),
    ("collect", lambda outputs, targets: {"accuracy": groups_found_out(outputs, targets)["accuracy"]}, "'precision' is missing"),
    ("collect", collected_on_the_cpu, "'accuracy' is a tensor on the device cpu"),
    ("collect", lambda outputs, targets: {name: value.item() for name, value in groups_found_out(outputs, targets).items()},
     "'accuracy' is a float"),
    ("step_time_metric", lambda device: MeanMetric(), "cannot move a CPU tensor"),
    ("step_time_metric", lambda device: SumMetric(sync_on_compute=False), "should be"),
    ("step_time_metric", lambda device: 0.0, "a metric of TorchMetrics is wanted"),
    ("evaluate", ignored_counted_as_class_zero, "IGNORE must count nowhere"),
    ("evaluate", mean_over_all_classes, "should be"),
    ("evaluate", nothing_kept_from_zero, "NaN is 0 / 0"),
    ("evaluate", evaluated_on_the_cpu, "'accuracy' is a tensor on the device cpu"),
    ("evaluate", lambda model, loader, device: None, "a dict with"),
]
