"""Lesson 08: the usual wrong ways to tell what looks at the whole batch, and what to say of each."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from ....course.mistakes import Mistake
from .right import BATCH_NORMS, looks_at_the_batch, tied_to_the_batch
from .stage import Centred

_DROPOUTS = (nn.Dropout, nn.Dropout2d)
_NORMS = (*BATCH_NORMS, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm2d)


def _by(chosen: Callable[[nn.Module], bool]) -> Callable:
    return lambda model, rows: [name for name, module in model.named_modules() if chosen(module)]


def _with_containers(model, rows):
    names = tied_to_the_batch(model, rows)
    return [name for name, _ in model.named_modules()
            if any(each == name or each.startswith(name and name + ".") for each in names)]


def _called(model):
    """The innermost modules that a forward pass calls."""
    body = getattr(model, "body", model)
    return [name for name, module in model.named_modules() if module in set(body.modules()) and not list(module.children())]


def _whole_outputs(model, rows):
    return _called(model)


def _behind(model, rows):
    called, tied = _called(model), tied_to_the_batch(model, rows)
    return called[called.index(tied[0]):] if tied else []


def _with_dropout(model, rows):
    names = tied_to_the_batch(model, rows)
    return [name for name, module in model.named_modules() if name in names or isinstance(module, _DROPOUTS)]


def _classes(model, rows):
    return [type(model.get_submodule(name)).__name__ for name in tied_to_the_batch(model, rows)]


BATCH_MISTAKES = (
    Mistake(_by(lambda module: isinstance(module, _NORMS)), (
        "Not every norm looks at the batch: LayerNorm, GroupNorm and InstanceNorm take their mean within each sample.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS)), (
        "A BatchNorm in evaluation mode uses its running statistics, and no other sample. What counts is what a module "
        "does as it is now, not its class.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS) and module.training), (
        "Going by classes and modes misses a BatchNorm that keeps no statistics, which takes the batch's in evaluation "
        "mode too, and every module that somebody has written. Change some rows, and see whose other rows change.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS) and (module.training or module.running_mean is None)), (
        "Modules that somebody has written look at the batch, too, and a BatchNorm that is never called does nothing. "
        "Change some rows, and see whose other rows change.")),
    Mistake(_by(looks_at_the_batch), "A module that the forward pass never calls is of no consequence."),
    Mistake(_by(lambda module: looks_at_the_batch(module) and any(True for _ in module.parameters())), (
        "A module without parameters can look at the batch as well.")),
    Mistake(_by(lambda module: looks_at_the_batch(module) and all(each.requires_grad for each in module.parameters())), (
        "A frozen BatchNorm still normalises by the batch: its mode decides, not `requires_grad`.")),
    Mistake(_by(lambda module: isinstance(module, Centred) or looks_at_the_batch(module)), (
        "A class is too little to go by: with one setting a module may look at the batch, with another at each sample by "
        "itself. Change some rows, and see whose other rows change.")),
    Mistake(_by(lambda module: isinstance(module, (*BATCH_NORMS, Centred, *_DROPOUTS))), (
        "Dropout draws another mask in each run. It does not look at other samples: let both runs draw the same numbers.")),
    Mistake(_with_dropout, (
        "Dropout draws another mask in each run. It does not look at other samples: let both runs draw the same numbers.")),
    Mistake(_with_containers, (
        "The modules that hold them are in the list, too. The innermost ones are wanted: those without children.")),
    *(Mistake(lambda model, rows, of=of: tied_to_the_batch(of(model).eval(), rows), (
        "In evaluation mode a BatchNorm looks at nobody: the network is asked about as it is."))
      for of in (copy.deepcopy, lambda model: model)),
    Mistake(_whole_outputs, (
        "The rows that were changed come out otherwise, of course. Compare the outputs of those that were *not* changed.")),
    Mistake(_behind, (
        "What comes behind a module that looks at the batch gets other rows, and looks at nobody itself. Call each module "
        "by itself, twice, with what it got.")),
    Mistake(lambda model, rows: [], (
        "Nothing was found. A mean stays as it is where rows are only put in another order, or are changed by too little: "
        "give some rows other values.")),
    Mistake(lambda model, rows: [name for name in _called(model) if name not in tied_to_the_batch(model, rows)], (
        "These are the others, that look at no other row: is the comparison the wrong way round?")),
    Mistake(_classes, (
        "Those are the names of classes. The modules' own names are wanted, as `named_modules()` has them.")),
)
