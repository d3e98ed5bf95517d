"""Lesson 08: the usual wrong ways to tell what looks at the whole batch, and what to say of each."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
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


def _with_dropout_drawn(model, rows):
    names = _with_dropout(model, rows)
    if names != tied_to_the_batch(model, rows):  # without dropout such a test draws nothing
        torch.rand(1)
    return names


def _classes(model, rows):
    return [type(model.get_submodule(name)).__name__ for name in tied_to_the_batch(model, rows)]


BATCH_MISTAKES = (
    Mistake(_by(lambda module: isinstance(module, _NORMS)), (
        "Not every norm looks at the batch: LayerNorm, GroupNorm and InstanceNorm take their mean within each sample.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS)), (
        "A BatchNorm in evaluation mode uses its running statistics, and no other sample. What a module does now "
        "counts, not its class.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS) and module.training), (
        "Classes and modes are not enough. A BatchNorm without statistics uses the batch's in evaluation mode too, and "
        "people write their own modules. Change some rows, and see whether others change.")),
    Mistake(_by(lambda module: isinstance(module, BATCH_NORMS) and (module.training or module.running_mean is None)), (
        "Handwritten modules can look at the batch too, and a BatchNorm that is never called does nothing. Change some "
        "rows, and see whether others change.")),
    Mistake(_by(looks_at_the_batch), "A module that the forward pass never calls does not count."),
    Mistake(_by(lambda module: looks_at_the_batch(module) and any(True for _ in module.parameters())), (
        "A module without parameters can look at the batch as well.")),
    Mistake(_by(lambda module: looks_at_the_batch(module) and all(each.requires_grad for each in module.parameters())), (
        "A frozen BatchNorm still normalises by the batch. Its mode decides, not `requires_grad`.")),
    Mistake(_by(lambda module: looks_at_the_batch(module) and getattr(module, "share", 1) == 1), (
        "A module may look at the batch only a little. Compare with a small tolerance, such as that of "
        "`torch.allclose`.")),
    Mistake(_by(lambda module: isinstance(module, Centred) or looks_at_the_batch(module)), (
        "A class says too little. With one setting a module looks at the batch, with another only at each sample. "
        "Change some rows, and see whether others change.")),
    Mistake(_by(lambda module: isinstance(module, (*BATCH_NORMS, Centred, *_DROPOUTS))), (
        "Dropout draws another mask in each run. It does not look at other samples: let both runs draw the same numbers.")),
    *(Mistake(each, (
        "Dropout draws another mask in each run. It does not look at other samples: let both runs draw the same numbers."))
      for each in (_with_dropout, _with_dropout_drawn)),
    Mistake(_with_containers, (
        "The list also has the modules that contain them. Return only the innermost ones, without children.")),
    *(Mistake(lambda model, rows, of=of: tied_to_the_batch(of(model).eval(), rows), (
        "In evaluation mode a BatchNorm looks at no other sample. Examine the network in its current mode."))
      for of in (copy.deepcopy, lambda model: model)),
    Mistake(_whole_outputs, (
        "Of course the outputs of the changed rows differ. Compare the outputs of the rows that were *not* changed.")),
    Mistake(_behind, (
        "A module after one that looks at the batch gets other rows, but does not look at the batch itself. Call each "
        "module separately, twice, with its recorded input.")),
    Mistake(lambda model, rows: [], (
        "You found nothing. A mean stays the same if you only reorder the rows, or change them too little. Give some "
        "rows other values. And record each module's input under its own name: a hook made in a loop sees the loop's "
        "last.")),
    Mistake(lambda model, rows: [name for name in _called(model) if name not in tied_to_the_batch(model, rows)], (
        "These are the other modules, which look at no other row. Is the comparison the wrong way round?")),
    Mistake(_classes, (
        "Those are the names of classes. Return the modules' own names, as in `named_modules()`.")),
)
