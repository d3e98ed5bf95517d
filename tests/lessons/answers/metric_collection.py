"""Lesson 03: right and fast answers that are not what the reference solution does, and wrong ones with what is said of them."""

import torch
import torch.nn.functional as F
from torchmetrics import CatMetric, MaxMetric, MeanMetric, Metric, MetricCollection, RunningMean, SumMetric
from torchmetrics.aggregation import BaseAggregator

from gapless.lessons.metric_collection.stage import CLASSES, IGNORE, METRICS


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


def nothing_for_nan(metric, loss, batch):
    metric.update(loss, torch.where(torch.isnan(loss), 0, torch.ones_like(loss)) * batch)


def nan_counts_nothing(MetricClass):
    class Quiet(MetricClass):
        def _cast_and_nan_check_input(self, x, weight=None):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
            weight = torch.ones_like(x) if weight is None else weight
            nan = torch.isnan(x) | torch.isnan(weight)
            return x.masked_fill(nan, 0.0), weight.masked_fill(nan, 0.0).to(self.dtype)

    return Quiet


def weight_as_it_comes(MetricClass):
    def _cast_and_nan_check_input(self, x, weight=None):
        x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
        return x, torch.ones_like(x) if weight is None else torch.as_tensor(weight).to(x)

    return type(MetricClass.__name__, (MetricClass,), {"_cast_and_nan_check_input": _cast_and_nan_check_input})


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


def skips_an_empty_batch(metric, loss, batch):
    if batch:
        metric.update(loss, torch.full_like(loss, batch))


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


def list_state(device):
    class Mean(Metric):
        def __init__(self):
            super().__init__(sync_on_compute=False)
            self.add_state("times", default=[], dist_reduce_fx="cat")

        def update(self, value):
            self.times.append(torch.tensor(float(value)))

        def compute(self):
            return torch.stack(list(self.times)).mean()

    return Mean()


def without_groups(device):
    return MeanMetric(distributed_available_fn=lambda: False)


OTHER_ROUTES = {
    "update_loss": [filled, scaled_ones, weight_on_the_cpu, copied_without_waiting, once_for_each_image,
                    skips_an_empty_batch, nothing_for_nan],
    "suppress_nan_check": [nan_counts_nothing, weight_as_it_comes],
    "collect": [groups_found_out, all_at_once, confusion_of_all],
    "step_time_metric": [zero_dimensional, list_state, without_groups],
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


@torch.no_grad()
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


# -- exercise 1 ------------------------------------------------------------------------------------


def weight_in_a_byte(metric, loss, batch):
    metric.update(loss, torch.tensor(batch).to(torch.uint8))


def weight_from_the_loss(metric, loss, batch):
    metric.update(loss, loss * 0 + batch)


def reset_first(metric, loss, batch):
    metric.reset()
    metric.update(loss, torch.full_like(loss, batch))


def called_and_updated(metric, loss, batch):
    metric(loss, torch.full_like(loss, batch))
    metric.update(loss, torch.full_like(loss, batch))


_weights = {}


def weight_kept(metric, loss, batch):
    metric.update(loss, _weights.setdefault((batch, loss.dtype, loss.device), torch.full_like(loss, batch)))


def strategy_changed(metric, loss, batch):
    metric.nan_strategy = "ignore"
    metric.update(loss, torch.full_like(loss, batch))


def loss_multiplied(metric, loss, batch):
    loss *= batch
    metric.update(loss, torch.full_like(loss, batch))


def copies_with_a_weight(metric, loss, batch):
    metric.update(loss.expand(batch), torch.full_like(loss, batch))


# -- exercise 2 ------------------------------------------------------------------------------------

def given_class_changed(MetricClass):
    def unchecked(self, x, weight=None):
        if not isinstance(x, torch.Tensor):
            x = torch.as_tensor(x, dtype=self.dtype, device=self.device)
        return x.to(self.dtype), torch.ones_like(x) if weight is None else weight.to(self.dtype)

    MetricClass._cast_and_nan_check_input = unchecked
    return MetricClass


def library_patched(MetricClass):
    BaseAggregator._cast_and_nan_check_input = lambda self, x, weight=None: (x, torch.ones_like(x))
    return MetricClass


def library_patched_at_the_first_update(MetricClass):
    class Own(MetricClass):
        def update(self, *args):
            library_patched(MetricClass)
            super().update(*args)

    return Own


def checking(method):
    """A decorator that puts ``method(metric, x, weight)`` in the place of the one that checks."""

    def decorator(MetricClass):
        return type("Own", (MetricClass,), {"_cast_and_nan_check_input": lambda self, x, weight=None: method(self, x, weight)})

    return decorator


def tensors(metric, x, weight):
    x = torch.as_tensor(x, dtype=metric.dtype, device=metric.device)
    return x, torch.ones_like(x) if weight is None else torch.as_tensor(weight, dtype=metric.dtype, device=metric.device)


def no_numbers_in_place(metric, x, weight):
    x, weight = tensors(metric, x, weight)
    x[torch.isnan(x)] = 0.0
    return x, weight


def weights_multiplied(metric, x, weight):
    x, weight = tensors(metric, x, weight)
    return x * weight, weight


def always_float(metric, x, weight):
    x, weight = tensors(metric, x, weight)
    return x.float(), weight.float()


def keywords_only(MetricClass):
    class Own(weight_as_it_comes(MetricClass)):
        def __init__(self, **options):
            super().__init__(**options)

    return Own


def checked_again(where):
    """Looks for NaN where ``where(metric, x)``."""

    def decorator(MetricClass):
        class Own(weight_as_it_comes(MetricClass)):
            def _cast_and_nan_check_input(self, x, weight=None):
                if where(self, x):
                    return MetricClass._cast_and_nan_check_input(self, x, weight)
                return super()._cast_and_nan_check_input(x, weight)

        return Own

    return decorator


def update_of_the_library(MetricClass):
    class Own(weight_as_it_comes(MetricClass)):
        def update(self, *given):
            MetricClass.__mro__[1].update(self, *given)

    return Own


_classes = {}


def class_kept(MetricClass):
    return _classes.setdefault(MetricClass.__mro__[1], weight_as_it_comes(MetricClass))


def only_the_mean(MetricClass):
    class Own(MetricClass):
        def update(self, value, weight=1.0):
            self.mean_value += (torch.as_tensor(value) * weight).sum()
            self.weight += torch.as_tensor(value).numel()

    return Own


def strategy_set_afterwards(MetricClass):
    class Own(MetricClass):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.nan_strategy = "disable"

    return Own


# -- exercises 3 and 5 -----------------------------------------------------------------------------


def collection(outputs, targets, choose=lambda output: output, **options):
    with outputs[0].device:
        metrics = {name: metric(num_classes=CLASSES, **{"average": "macro", **options}) for name, metric in METRICS.items()}
    found = MetricCollection(metrics, compute_groups=[list(METRICS)])
    for output, target in zip(outputs, targets):
        found.update(choose(output), target)
    return found.compute()


def made_in_the_loop(outputs, targets):
    for output, target in zip(outputs, targets):
        found = collection([output], [target])
    return found


def values_of_calls(outputs, targets):
    with outputs[0].device:
        metrics = {name: metric(num_classes=CLASSES, average="macro") for name, metric in METRICS.items()}
    total = dict.fromkeys(METRICS, 0.0)
    for output, target in zip(outputs, targets):
        total = {name: total[name] + metric(output, target) for name, metric in metrics.items()}
    return total


def nothing_thrown_in(outputs, targets):
    counts = torch.zeros(CLASSES**2, device=outputs[0].device)
    for output, target in zip(outputs, targets):
        cells = target * CLASSES + output.argmax(1)
        counts.scatter_add(0, cells, torch.ones_like(cells, dtype=torch.float32))
    return averages(counts.view(CLASSES, CLASSES))


def written_not_added(outputs, targets):
    counts = torch.zeros(CLASSES, CLASSES, device=outputs[0].device)
    for output, target in zip(outputs, targets):
        counts[target, output.argmax(1)] += 1
    return averages(counts)


def rows_for_columns(outputs, targets):
    counts = torch.zeros(CLASSES**2, device=outputs[0].device)
    for output, target in zip(outputs, targets):
        counts.index_add_(0, output.argmax(1) * CLASSES + target, torch.ones_like(target, dtype=torch.float32))
    return averages(counts.view(CLASSES, CLASSES))


def counted_in_half(outputs, targets):
    counts = torch.zeros(CLASSES**2, device=outputs[0].device)
    for output, target in zip(outputs, targets):
        counts.index_add_(0, target * CLASSES + output.argmax(1), torch.ones_like(target, dtype=torch.float32))
    return averages(counts.clamp(max=2048).view(CLASSES, CLASSES))


_kept = {}


def kept_from_call_to_call(outputs, targets):
    if "metrics" not in _kept:
        _kept["metrics"] = MetricCollection({name: metric(num_classes=CLASSES, average="macro")
                                             for name, metric in METRICS.items()}, compute_groups=[list(METRICS)])
    _kept["metrics"].to(outputs[0].device)
    for output, target in zip(outputs, targets):
        _kept["metrics"].update(output, target)
    return _kept["metrics"].compute()


def f1_of_the_averages(outputs, targets):
    found = collection(outputs, targets)
    precision, recall = found["precision"], found["recall"]
    return {**found, "f1": 2 * precision * recall / (precision + recall).clamp(min=1e-9)}


def lists_emptied(outputs, targets):
    return collection([outputs.pop() for _ in list(outputs)][::-1], targets)


def lists_reversed(outputs, targets):
    outputs.reverse()
    targets.reverse()
    return confusion_of_all(outputs, targets)


def list_overwritten(outputs, targets):
    for i, output in enumerate(outputs):
        outputs[i] = F.one_hot(output.argmax(1), CLASSES).float()
    return confusion_of_all(outputs, targets)


def with_gradients(model, loader, device):
    counts = torch.zeros(CLASSES**2, device=device)
    for images, targets in loader:
        cells = targets.clamp(min=0) * CLASSES + model(images).argmax(1)
        counts.scatter_add_(0, cells, (targets != IGNORE).float())
    return averages(counts.view(CLASSES, CLASSES))


def counted_by(label=lambda targets, seen: targets.clamp(min=0), weight=lambda targets: (targets != IGNORE).float()):
    """evaluate with other labels, or weights, of what is ignored."""

    def evaluate(model, loader, device):
        counts = torch.zeros(CLASSES**2, device=device)
        with torch.no_grad():
            for images, targets in loader:
                seen = model(images).argmax(1)
                counts.scatter_add_(0, label(targets, seen) * CLASSES + seen, weight(targets))
        return averages(counts.view(CLASSES, CLASSES))

    return evaluate


@torch.no_grad()
def counted_in_float16(model, loader, device):
    counts = torch.zeros(CLASSES**2, dtype=torch.float16, device=device)
    for images, targets in loader:
        counts.scatter_add_(0, targets.clamp(min=0) * CLASSES + model(images).argmax(1), (targets != IGNORE).half())
    return averages(counts.float().view(CLASSES, CLASSES))


@torch.no_grad()
def row_left_in(model, loader, device):
    side = CLASSES + 1
    counts = torch.zeros(side**2, device=device)
    for images, targets in loader:
        cells = torch.where(targets == IGNORE, CLASSES, targets) * side + model(images).argmax(1)
        counts.scatter_add_(0, cells, torch.ones_like(cells, dtype=torch.float32))
    counts = counts.view(side, side)
    right, predicted, actual = counts.diag()[:CLASSES], counts.sum(0)[:CLASSES], counts.sum(1)[:CLASSES]
    classes = (predicted + actual > 0).sum().clamp(min=1)

    def mean(top, bottom):
        return torch.where(bottom > 0, top / bottom, 0.0).sum() / classes

    return {"accuracy": mean(right, actual), "precision": mean(right, predicted), "recall": mean(right, actual),
            "f1": mean(2 * right, predicted + actual)}


@torch.no_grad()
def in_the_labels_alone(model, loader, device):
    counts = torch.zeros(CLASSES**2, device=device)
    for images, targets in loader:
        counts.scatter_add_(0, targets.clamp(min=0) * CLASSES + model(images).argmax(1), (targets != IGNORE).float())
    counts = counts.view(CLASSES, CLASSES)
    right, predicted, actual = counts.diag(), counts.sum(0), counts.sum(1)

    def mean(top, bottom, over):
        return torch.where(bottom > 0, top / bottom, 0.0).sum() / over.count_nonzero().clamp(min=1)

    return {"accuracy": mean(right, actual, actual), "precision": mean(right, predicted, predicted),
            "recall": mean(right, actual, actual), "f1": mean(2 * right, predicted + actual, actual)}


@torch.no_grad()
def in_evaluation_mode(model, loader, device):
    return weighted_scatter(model.eval(), loader, device)


def frozen(model, loader, device):
    return weighted_scatter(model.requires_grad_(False), loader, device)


def called_twice(model, loader, device):
    return weighted_scatter(lambda images: (model(images), model(images))[0], loader, device)


def gradients_from_the_second_batch(model, loader, device):
    calls = iter(range(10**6))

    def called(images):
        with torch.set_grad_enabled(next(calls) > 0):
            return model(images)

    return weighted_scatter(called, loader, device)


def indexed_loader(model, loader, device):
    return weighted_scatter(model, [loader[place] for place in range(len(loader))], device)


# -- exercise 4 ------------------------------------------------------------------------------------


def stacked(device):
    class Mean(Metric):
        def __init__(self):
            super().__init__()
            for name in ("total", "count"):
                self.add_state(name, torch.tensor(0.0, device=device))

        def update(self, value):
            self.total += value
            self.count += 1

        def compute(self):
            return self.total / self.count

    return Mean()


def reduced(**reductions):
    """A mean and a count, which become those of all processes by ``reductions``."""

    class Mean(Metric):
        def __init__(self):
            super().__init__()
            for name in ("mean", "count"):
                self.add_state(name, torch.zeros(()), dist_reduce_fx=reductions[name])

        def update(self, value):
            self.count += 1
            self.mean += (torch.tensor(float(value)) - self.mean) / self.count

        def compute(self):
            return self.mean

    return lambda device: Mean().to(device)


def silent_when_called(device):
    class Mean(MeanMetric):
        def forward(self, value):
            self.update(value)

    return Mean(sync_on_compute=False)


def never_moved(device):
    class Mean(MeanMetric):
        def _apply(self, *args, **options):
            return self

    return Mean(sync_on_compute=False)


def own_list(device):
    class Mean(Metric):
        def __init__(self):
            super().__init__(sync_on_compute=False)
            self.times = []

        def update(self, value):
            self.times.append(value)

        def compute(self):
            return torch.tensor(self.times).mean()

        def reset(self):
            super().reset()
            self.times.clear()

    return Mean()


def put_off(device):
    class Mean(MeanMetric):
        def __init__(self):
            super().__init__(sync_on_compute=False)
            self.waiting = []

        def update(self, value):
            self.waiting.append(value)

        def compute(self):
            while self.waiting:
                super().update(self.waiting.pop())
            return super().compute()

    return Mean()


def own_count(device):
    class Mean(Metric):
        def __init__(self):
            super().__init__(sync_on_compute=False)
            self.add_state("total", torch.tensor(0.0))
            self.count = 0

        def update(self, value):
            self.total += value
            self.count += 1

        def compute(self):
            return self.total / self.count

    return Mean()


def halved_each_time(device):
    class Mean(Metric):
        def __init__(self):
            super().__init__(sync_on_compute=False)
            self.add_state("mean", torch.tensor(0.0))

        def update(self, value):
            self.mean = (self.mean + value) / 2

        def compute(self):
            return self.mean

    return Mean()


_one = []


def one_for_all(device):
    if not _one:
        _one.append(MeanMetric(sync_on_compute=False))
    _one[0].reset()
    return _one[0]


WRONG = [
    ("update_loss", weight_kept, "the same tensor as weight"),
    ("update_loss", strategy_changed, "it has changed `metric.nan_strategy`"),
    ("update_loss", loss_multiplied, "it has written into `loss`"),
    ("suppress_nan_check", keywords_only, "takes 1 positional argument"),
    ("suppress_nan_check", checked_again(lambda metric, x: metric.device.type == "cpu"), "must never look for NaN"),
    ("suppress_nan_check", checked_again(lambda metric, x: not isinstance(x, torch.Tensor)), "must never look for NaN"),
    ("suppress_nan_check", checked_again(lambda metric, x: metric.nan_strategy == "error"), "must never look for NaN"),
    ("suppress_nan_check", update_of_the_library, "has an `update` of its own"),
    ("suppress_nan_check", class_kept, "the class from an earlier call"),
    ("step_time_metric", reduced(mean="mean", count="sum"), "A mean of means is neither"),
    ("step_time_metric", reduced(mean="max", count="max"), "A mean of means is neither"),
    ("step_time_metric", silent_when_called, "leave `forward` to the metric"),
    ("step_time_metric", never_moved, "is not moved with the metric"),
    ("evaluate", in_evaluation_mode, "left the model in evaluation mode"),
    ("evaluate", frozen, "without `requires_grad`"),
    ("evaluate", called_twice, "it called the network 4 times for 2 batches"),
    ("evaluate", gradients_from_the_second_batch, "inside `torch.no_grad()`"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss), "counts as much as a full one"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss, torch.ones_like(loss)), "ones is no weight either"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss * batch), "does that itself"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss * batch, batch), "does that itself"),
    ("update_loss", straight_into_the_state, "leaves a NaN out, and the last result is remembered"),
    ("update_loss", lambda metric, loss, batch: None, "counted nothing"),
    ("update_loss", reset_first, "reset before each update"),
    ("update_loss", called_and_updated, "taken in twice"),
    ("update_loss", copies_with_a_weight, "batch × batch"),
    ("update_loss", weight_from_the_loss, "inf × 0 is NaN"),
    ("update_loss", weight_in_a_byte, "uint8 ends at 255"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss.nan_to_num(), batch), "A NaN was counted as a loss of 0"),
    ("update_loss", lambda metric, loss, batch: metric.update(torch.where(loss.isnan(), 0.0, loss), batch), "loss of 0, with its full"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss.int(), batch), "whole number on the way"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss / batch if batch else loss, batch), "is a mean over its batch already"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss, 1 / max(batch, 1)), "small batches count most"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss, batch / 128), "not in size"),
    ("update_loss", lambda metric, loss, batch: metric.update(torch.full_like(loss, batch), loss), "are swapped"),
    ("update_loss", lambda metric, loss, batch: metric.update(loss, batch + 1), "weighted with batch + 1"),
    ("suppress_nan_check", disabled, 'nan_strategy="disable"'),
    ("suppress_nan_check", strategy_set_afterwards, 'nan_strategy="disable"'),
    ("suppress_nan_check", weights_dropped, "mean without the weights"),
    ("suppress_nan_check", weight_demanded, "missing 1 required positional argument"),
    ("suppress_nan_check", numbers_not_converted, "make tensors of them first"),
    ("suppress_nan_check", no_weight_back, "return two tensors"),
    ("suppress_nan_check", lambda MetricClass: None, "a class is wanted"),
    ("suppress_nan_check", lambda MetricClass: MetricClass(), "a class is wanted"),
    ("suppress_nan_check", lambda MetricClass: OfNoOne, "does not inherit from the one that was given (MeanMetric)"),
    ("suppress_nan_check", lambda MetricClass: type("Copied", MetricClass.__bases__, {**vars(MetricClass)}), "does not inherit"),
    ("suppress_nan_check", lambda MetricClass: weight_as_it_comes(MetricClass.__base__), "does not inherit"),
    ("suppress_nan_check", given_class_changed, "it changed the class that it was given"),
    ("suppress_nan_check", library_patched, "it changed TorchMetrics' own class BaseAggregator"),
    ("suppress_nan_check", library_patched_at_the_first_update, "it changed TorchMetrics' own class BaseAggregator"),
    ("suppress_nan_check", checking(no_numbers_in_place), "has overwritten its input `values`"),
    ("suppress_nan_check", checking(weights_multiplied), "`MeanMetric.update` does that itself"),
    ("suppress_nan_check", checking(always_float), "cast to float32"),
    ("suppress_nan_check", checking(lambda metric, x, weight: tensors(metric, x, weight)[::-1]), "are swapped"),
    ("suppress_nan_check", checking(lambda metric, x, weight: tensors(metric, torch.as_tensor(x).nan_to_num(), weight)), "An inf became"),
    ("suppress_nan_check", checking(lambda metric, x, weight: (tensors(metric, x, None)[0], torch.zeros(()))), "NaN is 0 / 0"),
    ("suppress_nan_check", only_the_mean, "divided by the count, not by the sum of the weights"),
    ("collect", micro, 'average="micro"'),
    ("collect", last_batch_only, "Only the last batch counts"),
    ("collect", made_in_the_loop, "made, or reset, inside the loop"),
    ("collect", mean_of_batch_values, "mean of the batches' values"),
    ("collect", values_of_calls, "sum of the batches' values"),
    ("collect", nothing_thrown_in, "thrown away"),
    ("collect", written_not_added, "writes the same cell only once"),
    ("collect", rows_for_columns, "are swapped"),
    ("collect", counted_in_half, "stops at 2048"),
    ("collect", f1_of_the_averages, "F1 was computed from the averages"),
    ("collect", kept_from_call_to_call, "keeps from one call to the next"),
    ("collect", lists_emptied, "hold other batches now"),
    ("collect", lists_reversed, "Leave the lists as they are"),
    ("collect", list_overwritten, "Leave the lists as they are"),
    ("collect", lambda outputs, targets: confusion_of_all([o.round(decimals=2) for o in outputs], targets), "logits were rounded"),
    ("collect", lambda outputs, targets: collection(outputs[:3], targets[:3]), "batch is missing"),
    ("collect", lambda outputs, targets: collection(outputs, targets, average="none"), "a value for each class"),
    ("collect", lambda outputs, targets: collection([*outputs, outputs[0]], [*targets, targets[0]]), "counts twice"),
    ("collect", lambda outputs, targets: collection(outputs, targets, average="weighted"), 'average="weighted"'),
    ("collect", lambda outputs, targets: collection(outputs, targets, lambda output: output.argmin(1)), "`argmin`"),
    ("collect", lambda outputs, targets: collection(outputs, targets, lambda output: output.sigmoid()), "a `sigmoid`"),
    ("collect", lambda outputs, targets: collection(outputs, targets, lambda output: output.half()), "cast to float16"),
    ("collect", lambda outputs, targets: {name: value * 100 for name, value in collection(outputs, targets).items()}, "per cent"),
    ("collect", lambda outputs, targets: [0.1, 0.2, 0.3, 0.4], "a dict with"),
    ("collect", lambda outputs, targets: None, "is there a `return`?"),
    ("collect", lambda outputs, targets: {"accuracy": groups_found_out(outputs, targets)["accuracy"]}, "'precision' is missing"),
    ("collect", collected_on_the_cpu, "'accuracy' is a tensor on the device cpu"),
    ("collect", lambda outputs, targets: {name: value.item() for name, value in groups_found_out(outputs, targets).items()},
     "'accuracy' is a float"),
    ("step_time_metric", lambda device: MeanMetric(), "cannot move a CPU tensor"),
    ("step_time_metric", lambda device: SumMetric(sync_on_compute=False), "sum of the step times"),
    ("step_time_metric", lambda device: MaxMetric(sync_on_compute=False), "longest step"),
    ("step_time_metric", lambda device: CatMetric(sync_on_compute=False), "the step times themselves"),
    ("step_time_metric", lambda device: RunningMean(sync_on_compute=False), "last five steps"),
    ("step_time_metric", lambda device: RunningMean(window=100, sync_on_compute=False), "last hundred steps"),
    ("step_time_metric", lambda device: 0.0, "a metric of TorchMetrics is wanted"),
    ("step_time_metric", stacked, "with `dist_reduce_fx`"),
    ("step_time_metric", lambda device: MeanMetric(sync_on_compute=False).set_dtype(torch.float16), "kept in float16"),
    ("step_time_metric", own_list, "`add_state` has added, is not saved"),
    ("step_time_metric", put_off, "`add_state` has added, is not saved"),
    ("step_time_metric", own_count, "`add_state` has added, is not saved"),
    ("step_time_metric", halved_each_time, "halved with each new time"),
    ("step_time_metric", one_for_all, "should be"),
    ("evaluate", with_gradients, "inside `torch.no_grad()`"),
    ("evaluate", ignored_counted_as_class_zero, "IGNORE must count nowhere"),
    ("evaluate", counted_by(weight=lambda targets: (targets == IGNORE).float()), "the wrong way round"),
    ("evaluate", counted_by(label=lambda targets, seen: torch.where(targets == IGNORE, seen, targets),
                            weight=lambda targets: torch.ones_like(targets, dtype=torch.float32)), "counts as right"),
    ("evaluate", counted_in_float16, "float16 has no 2049"),
    ("evaluate", row_left_in, "still counts as a false positive"),
    ("evaluate", in_the_labels_alone, "over the classes in the labels alone"),
    ("evaluate", indexed_loader, "not subscriptable"),
    ("evaluate", mean_over_all_classes, "All four are 0.5 times"),
    ("evaluate", nothing_kept_from_zero, "0 / 0"),
    ("evaluate", evaluated_on_the_cpu, "'accuracy' is a tensor on the device cpu"),
    ("evaluate", lambda model, loader, device: counted_by()(model, list(loader)[-1:], device), "Only the last batch counts"),
    ("evaluate", lambda model, loader, device: None, "a dict with"),
]
