"""Lesson 03: how ``suppress_nan_check`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.notebooks.cells import describe_error
from ....course.plain import Unusable
from ..stage import quietly, torchmetrics


@quietly
def ask_suppress(function, given, device):
    """What metrics of the decorated classes compute: once, by `forward`, cloned, and after a reset. Of NaN only whether
    the given values are left alone, and whether nothing is raised."""
    options = given.options
    kinds = {"nan_strategy": options["strategy"]} if "strategy" in options else {}
    first = [options["first argument"]] if "first argument" in options else []
    place = torch.device("cpu") if options.get("on_cpu") else device
    library = {cls: _parts(cls) for name in options["metrics"] for cls in getattr(torchmetrics(), name).__mro__[:2]}
    classes = [_decorated(function, name, library, "doubles" in options) for name in options["metrics"]]
    metrics = [cls(*first, **kinds, sync_on_compute=False).to(place) for cls in classes]
    if "dtype" in options:
        metrics = [metric.set_dtype(getattr(torch, options["dtype"])) for metric in metrics]
    tensors = [tensor.to(place) for tensor in given.inputs.values()]
    rows = options.get("rows") or [list(row) for row in zip(*(tensor.unbind() for tensor in tensors))]
    strict = options.get("strategy") == "error"
    if strict and all(cls.__module__ == __name__ for cls in classes):
        rows = []  # the class itself, as handed out, may check: the waits are counted elsewhere

    def update(targets, by=lambda metric: metric.update) -> list:
        return [[by(target)(*row[:2 if name == "MeanMetric" else 1]) for row in rows]  # the others take no weight
                for name, target in zip(options["metrics"], targets)]

    yield
    try:
        update(metrics)
    except Exception as error:
        _see_untouched(library)
        if strict and isinstance(error, RuntimeError):
            raise Unusable(f"its update raised {describe_error(error, 'suppress_nan_check')}. The new class must never look "
                           "for NaN: with any `nan_strategy`, on any device, and for Python numbers too.") from error
        if not isinstance(error, (AttributeError, TypeError, ValueError)):
            raise
        raise Unusable(f"its update raised {describe_error(error, 'suppress_nan_check')}. {_no_update(error)}") from error
    yield
    _see_untouched(library)  # its methods, too, leave the library's alone
    if options.get("nan"):
        return "what a NaN does is up to you"
    values = [metric.compute() for metric in metrics]
    copies = [metric.clone() for metric in metrics]
    update(copies)
    found = {"value": values, "value of a clone, updated again": [copy.compute() for copy in copies]}
    found["dtype"] = [str(getattr(value, "dtype", "")) for value in values]
    for metric in metrics:
        metric.reset()
    found["values of calling it"] = update(metrics, by=lambda metric: metric)
    return {**found, "value after a reset": [metric.compute() for metric in metrics],
            "device": all(where.device.type == device.type for where in (*metrics, *values) if hasattr(where, "device"))}


def _no_update(error: Exception) -> str:
    """What to do about an aggregator's update that failed."""
    if "has no attribute" in str(error) and any(kind in str(error) for kind in ("'float'", "'int'", "'NoneType'")):
        return ("The value may be a tensor or a Python number, and the weight a tensor or None: make tensors of them first "
                "(`torch.as_tensor`, `torch.ones_like`), then return both.")
    return ("The method that looks for NaN takes `(self, x, weight=None)`, where `SumMetric` and its siblings give no "
            "weight, and has to return two tensors, the values and the weights.")


def _decorated(function, name: str, library: dict[type, dict], doubles: bool) -> type:
    """The learner's version of an aggregator class, whose own ``update`` ``doubles`` the values or not. Raises Unusable."""
    base = getattr(torchmetrics(), name)

    class Aggregator(base):
        """What the learner's function makes another class of."""

    if doubles:
        Aggregator.update = lambda self, value, *weight: base.update(self, 2 * value, *weight)
    library = library | {Aggregator: _parts(Aggregator)}
    decorated = function(Aggregator)
    if not isinstance(decorated, type):
        raise Unusable(f"it returned a {type(decorated).__name__}; a class is wanted: one that inherits from the one it "
                       "was given.")
    _see_untouched(library)
    if not issubclass(decorated, Aggregator):
        if any(cls.__module__ == __name__ for cls in decorated.__mro__[1:]):
            raise Unusable("it returned the class from an earlier call, which inherits from the class given there: make a "
                           "new one each time.")
        raise Unusable(f"the class does not inherit from the one that was given ({name}): write "
                       "`class …(MetricClass)`, not the name of one of them.")
    if decorated is not Aggregator and function(Aggregator) is decorated:
        raise Unusable("called twice with the same class, it returned the class from an earlier call: make a new one each "
                       "time.")
    return decorated


def _see_untouched(library: dict[type, dict]) -> None:
    """Raises Unusable where a class has not the parts that it had, and puts them back."""
    changed = [cls for cls, before in library.items() if _parts(cls) != before]
    for cls in changed:
        _put_back(cls, library[cls])
    if changed:
        which = "the class that it was given" if changed[0].__module__ == __name__ else (
            f"TorchMetrics' own class {changed[0].__name__}")
        raise Unusable(f"it changed {which}. After `suppress_nan_check(MeanMetric)` the library's own `MeanMetric` must "
                       "still check, as everybody else relies on it: return a new class, which inherits from MetricClass.")


def _parts(cls: type) -> dict:
    """What somebody has written into a class; Python itself keeps notes in it too."""
    return {name: value for name, value in vars(cls).items() if name == "__init__" or not name.startswith(("__", "_abc_"))}


def _put_back(cls: type, before: dict) -> None:
    for name in {*_parts(cls), *before}:
        if vars(cls).get(name) is not before.get(name):
            setattr(cls, name, before[name]) if name in before else delattr(cls, name)
