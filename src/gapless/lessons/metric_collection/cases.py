"""Lesson 03: the inputs on which answers are compared, and how each exercise's function is asked."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ...course.cells import describe_error
from ...course.evidence import Case
from ...course.plain import Unusable
from .functions import CLASSES, IGNORE, evaluate, torchmetrics
from .workload import device_group


def loss_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, count: int, *, nan: bool = False) -> Case:
        losses = rng.uniform(0.5, 7.0, size=count).astype(np.float32)
        batches = np.full(count, 2 ** rng.integers(2, 8))
        batches[-1] = rng.integers(1, 4)
        if nan:
            losses[rng.integers(count - 1)] = np.nan
        return Case(name, {"losses": losses, "batches": batches})

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
        return Case(name, inputs, {"metric": metric, **options})

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
        cases.append(Case(name, {"outputs": logits, "targets": targets}))
    wrong, targets = logits_and_labels(rng, (2, 25))
    cases.append(Case("all wrong", {"outputs": wrong, "targets": (wrong.argmax(-1) + 1) % CLASSES}))
    return cases


def evaluation_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for name, share, shape in (("a quarter ignored", 0.25, (3, 40)), ("nothing ignored", 0.0, (2, 30)),
                               ("nearly all ignored", 0.95, (3, 40)), ("everything ignored", 1.0, (2, 20))):
        logits, targets = logits_and_labels(rng, shape)
        cases.append(Case(name, {"images": logits, "targets": np.where(rng.random(shape) < share, IGNORE, targets)}))
    logits, targets = logits_and_labels(rng, (3, 25))
    targets[1] = IGNORE
    cases.append(Case("one batch ignored", {"images": logits, "targets": targets}))
    logits, targets = logits_and_labels(rng, (2, 33), np.full((2, 33), CLASSES - 1))
    targets[0, ::3] = IGNORE
    cases.append(Case("mostly the last class", {"images": logits, "targets": targets}))
    return cases


def time_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [Case(name, {"times": rng.uniform(low, high, size=count)})
            for name, low, high, count in (("five steps", 60, 90, 5), ("one step", 0.5, 1.5, 1),
                                           ("a slow step", 1, 9000, 12))]


# -- how each is asked -----------------------------------------------------------------------------


def quietly(ask: Callable) -> Callable:
    """TorchMetrics warns of a NaN, and of a compute before an update: not what a learner should read here."""

    def quiet(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ask(*args)

    return quiet


def ask_update_loss(function, case, device):
    metric = torchmetrics().MeanMetric().to(device)
    losses = torch.from_numpy(np.array(case.inputs["losses"])).to(device)
    batches = case.inputs["batches"].tolist()

    def mean(count: int) -> float:
        for loss, batch in zip(losses[:count].unbind(), batches[:count]):
            function(metric, loss, batch)
        return metric.compute().item()

    found = {"mean": mean(len(batches)), "mean after another update": mean(1), "number of updates": metric.update_count}
    metric.reset()
    return {**found, "mean after a reset": mean(len(batches))}


def explain_update_loss(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not isinstance(found.get("mean"), float):
        return None
    if math.isnan(found["mean"]):
        return "The metric took nothing in (or a NaN, which its check removes)."
    if math.isclose(found["mean"], float(np.nanmean(case.inputs["losses"])), rel_tol=1e-5):
        return "That is the mean without the weights: a last batch of three images counts as much as a full one."
    losses, batches = case.inputs["losses"], case.inputs["batches"]
    seen = ~np.isnan(losses)
    weighted_twice = np.average(losses[seen] * batches[seen], weights=batches[seen])
    if any(math.isclose(found["mean"], mean, rel_tol=1e-5) for mean in (np.mean((losses * batches)[seen]), weighted_twice)):
        return ("The loss was multiplied by its weight before: TorchMetrics does that itself. Give it the loss as it is, "
                "and the weight beside it.")
    if math.isclose(found["mean"], wanted["mean"], rel_tol=1e-5):
        return ("The first result is right, and a later one is not: a metric remembers its last result and counts its "
                "updates, both in `update`. Call that; do not write into its state.")
    return None


def ask_suppress(function, case, device):
    base = getattr(torchmetrics(), case.options["metric"])

    class Aggregator(base):
        """The learner's decorator may change this class or make another of it."""

    decorated = function(Aggregator)
    if not isinstance(decorated, type):
        raise Unusable(f"it returned a {type(decorated).__name__}; a class is wanted: the one it was given, changed, or "
                       "a new one that inherits from it.")
    if not issubclass(decorated, base):
        raise Unusable(f"the class does not inherit from the one that was given ({base.__name__}): write "
                       "`class …(MetricClass)`, not the name of one of them.")
    metric = decorated(sync_on_compute=False).to(device)
    numbers = bool(case.options.get("as_numbers"))

    def update(target) -> None:
        for row, value in enumerate(case.inputs["values"]):
            given = [value] + ([case.inputs["weights"][row]] if "weights" in case.inputs else [])
            target.update(*[float(v) if numbers else torch.from_numpy(np.array(v)).to(device) for v in given])

    try:
        function.run(lambda: update(metric))
    except (AttributeError, TypeError, ValueError) as error:
        raise Unusable(f"its update raised {describe_error(error, 'suppress_nan_check')}. The method that looks for NaN "
                       "takes `(self, x, weight=None)`, where `SumMetric` and the like give no weight, and has to "
                       "return two tensors, the values and the weights.") from error
    found = {"value": metric.compute()}
    copy = metric.clone()
    update(copy)
    found["value of a clone, updated again"] = copy.compute()
    metric.reset()
    update(metric)
    return {**found, "value after a reset": metric.compute(), "device": metric.device.type == device.type}


def explain_suppress(case, found, wanted) -> str | None:
    if "weights" not in case.inputs or not isinstance(found, dict):
        return None
    plain = float(case.inputs["values"].mean())
    if isinstance(found.get("value"), float) and abs(found["value"] - plain) < 1e-4 * max(1, abs(plain)):
        return ("That is the mean without the weights. `nan_strategy=\"disable\"` does this in TorchMetrics 1.9.0: it "
                "replaces the weights that it is given by ones, and says nothing. Replace the method that checks, and "
                "hand the weights on.")
    return None


def check_where(found, device: torch.device) -> None:
    """Raises Unusable where ``found`` is a dict and one of its values is not on the device: what the host counts is on no
    device's clock."""
    for name, value in found.items() if isinstance(found, dict) else ():
        if not isinstance(value, torch.Tensor):
            raise Unusable(f"{name!r} is a {type(value).__name__}; a scalar tensor on the device is wanted: whoever wants "
                           "the number can read it later.")
        if value.device.type != device.type:
            raise Unusable(f"{name!r} is a tensor on the device {value.device}; it is wanted where the batches are: "
                           "count there.")


def _scalars(found, device: torch.device):
    """Name → number, where it is a dict of scalars."""
    check_where(found, device)
    if isinstance(found, dict):
        return {name: value.item() if value.numel() == 1 else value for name, value in found.items()}
    return found


def on_device(device, array) -> list[torch.Tensor]:
    return [torch.from_numpy(np.array(part)).to(device) for part in array]


def ask_collect(function, case, device):
    outputs, targets = (on_device(device, case.inputs[name]) for name in ("outputs", "targets"))
    return _scalars(function(outputs, targets), device)


def ask_evaluate(function, case, device):
    # Images that are the logits: a network of no layers.
    images = [image[:, :, None, None] for image in on_device(device, case.inputs["images"])]
    loader = list(zip(images, on_device(device, case.inputs["targets"])))
    return _scalars(function(nn.Flatten(), loader, device), device)


def explain_averages(case, found, wanted) -> str | None:
    if not isinstance(found, dict) or not all(isinstance(found.get(name), float) for name in wanted):
        return None
    own = [found[name] for name in wanted]
    if any(map(math.isnan, own)):
        return ("NaN is 0 / 0. A class that occurs and is never found has the share 0, and where no class occurs at all the "
                "mean is 0: see to it that nothing is divided by 0 (`torch.where`, `clamp(min=1)`).")
    if len(set(own)) == 1 and len(set(wanted.values())) > 1:
        return ("All four are the same number: that is what average=\"micro\" gives (every error is a false positive "
                "of one class and a false negative of another). Macro averages are wanted.")
    if all(math.isclose(found[name], value, rel_tol=1e-5) for name, value in _mean_of_batches(case).items()):
        return ("That is the mean of the batches' values. The batches have to be counted together, and the averages "
                "computed once from the counts: `update` for each batch, `compute` at the end.")
    if "images" in case.inputs and (case.inputs["targets"] == IGNORE).any():
        return ("Two things are easily missed: a target that is IGNORE must count nowhere, as a prediction neither; "
                "and the macro average is over the classes that occur in the labels or in the predictions that count.")
    return "Every batch has to count, and once; count all of them, and compute the averages from the counts."


def _mean_of_batches(case) -> dict[str, float]:
    """What the averages of each batch alone are on average."""
    cpu, each = torch.device("cpu"), []
    logits = case.inputs["images"] if "images" in case.inputs else case.inputs["outputs"]
    for output, target in zip(on_device(cpu, logits), on_device(cpu, case.inputs["targets"])):
        each.append(evaluate(nn.Identity(), [(output, target)], cpu))
    return {name: float(np.mean([values[name] for values in each])) for name in each[0]}


def ask_step_time(function, case, device):
    metric = function(device)
    times = case.inputs["times"].tolist()
    if not isinstance(metric, torchmetrics().Metric):
        raise Unusable(f"it returned a {type(metric).__name__}; a metric of TorchMetrics is wanted, so that it can "
                       "be kept, saved and reset like the others.")

    def mean() -> float:
        for time in times:
            metric.update(time)
        return float(metric.compute())

    found = {"mean": mean()}
    metric.update(2 * times[0])
    found["mean after another update"] = float(metric.compute())
    metric.reset()
    found["mean after a reset"] = mean()
    metric.reset()
    with device_group(device):
        try:
            found["mean under DDP"] = mean()
        except RuntimeError as error:
            if "No backend type" not in str(error):
                raise
            raise Unusable(
                f"its `compute` raised \"{error}\" under DDP. `compute` gathers the metric's state from all processes, and "
                "a process group for GPUs (NCCL's) cannot move a CPU tensor. Either each process keeps its own mean (an "
                "option of every metric), or the state lives on the GPU: then see that the update does not wait.") from error
    return found
