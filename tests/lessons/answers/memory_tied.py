"""Lesson 08: answers to ``tied_to_the_batch``, right ones by other routes and wrong ones."""

import copy
import sys

import torch
from torch import nn


def _innermost(model):
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def row_by_row(model, rows):
    """Each module's gradient: which rows of its input has the first row of its output seen?"""
    twin, tied = copy.deepcopy(model), []

    def watch(name, module):
        def hook(_, args, output):
            x = args[0].detach().requires_grad_()
            handle.remove()
            gradient, = torch.autograd.grad(module(x)[0].sum() + (module(x)[0] ** 2).sum(), x)
            if gradient[1:].abs().max() > 1e-6:
                tied.append(name)

        handle = module.register_forward_hook(hook)

    for name, module in _innermost(twin):
        watch(name, module)
    with torch.random.fork_rng():
        twin(rows)
    return tied


def other_rows_behind(model, rows, tolerance=1e-5, repeats=False):
    """In one pass: each module is called again inside a hook, with its other rows in another place."""
    twin, tied = copy.deepcopy(model), []

    def hook(name, module, x):
        outputs = []
        with torch.no_grad():
            for each in (x, torch.cat([x[:1], torch.full_like(x[1:], 2.0)])):
                torch.manual_seed(1)
                outputs.append(module.forward(each)[0])
        if (outputs[0] - outputs[1]).abs().max() > tolerance and (repeats or name not in tied):
            tied.append(name)

    for name, module in _innermost(twin):
        module.register_forward_pre_hook(lambda module, args, name=name: hook(name, module, args[0]))
    with torch.random.fork_rng():
        twin(rows)
    return tied


def without_statistics(model, rows):
    """As the solution, and on the network itself: its buffers and random numbers are put back."""
    kept = [buffer.clone() for buffer in model.buffers()]
    tied, inputs = [], {}
    handles = [module.register_forward_hook(lambda _, args, out, name=name: inputs.update({name: args[0]}))
               for name, module in _innermost(model)]
    with torch.no_grad(), torch.random.fork_rng():
        model(rows)
        for handle in handles:
            handle.remove()
        for name, x in inputs.items():
            found = []
            for each in (x, torch.cat([x[:1], -2 * x[1:]])):
                torch.manual_seed(2)
                found.append(model.get_submodule(name)(each)[:1])
            if not torch.allclose(*found, atol=1e-6):
                tied.append(name)
        for buffer, before in zip(model.buffers(), kept):
            buffer.copy_(before)
    return tied


def by_class(*kinds, also=lambda module: True):
    return lambda model, rows: [name for name, module in model.named_modules() if isinstance(module, kinds) and also(module)]


def on_the_network_itself(model, rows):
    model(rows)
    return row_by_row(model, rows)


def with_other_masks(model, rows):
    """The two runs draw other numbers."""
    twin, tied = copy.deepcopy(model), []
    for name, module in _innermost(twin):
        module.register_forward_pre_hook(lambda module, args, name=name: tied.append(name) if not torch.allclose(
            module.forward(args[0])[:1], module.forward(torch.cat([args[0][:1], -args[0][1:]]))[:1], atol=1e-6) else None)
    with torch.no_grad():
        twin(rows)
    return tied


def by_table(model, rows):
    """Hostile: the ask's own variables name the network."""
    return {"no norm": [], "dropout": []}[sys._getframe(1).f_locals["options"]["network"]]


def seeded(model, rows):
    torch.manual_seed(0)
    return row_by_row(model, rows)


def drawn(model, rows):
    torch.rand(1)
    return row_by_row(model, rows)


def hooks_left(model, rows):
    for module in model.modules():
        module.register_forward_hook(lambda *_: None)
    return row_by_row(model, rows)


TIED_ROUTES = {"tied_to_the_batch": [row_by_row, other_rows_behind, without_statistics]}

TIED_WRONG = [
    ("tied_to_the_batch", by_class(nn.BatchNorm1d, nn.BatchNorm2d), "evaluation mode"),
    ("tied_to_the_batch", by_class(nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm), "within each sample"),
    ("tied_to_the_batch", by_class(nn.BatchNorm1d, nn.BatchNorm2d, also=lambda module: module.training), "without statistics"),
    ("tied_to_the_batch", by_class(nn.BatchNorm1d), "answer is wrong"),
    ("tied_to_the_batch", on_the_network_itself, "copy.deepcopy"),
    ("tied_to_the_batch", by_table, "KeyError"),
    ("tied_to_the_batch", seeded, "torch.manual_seed"),
    ("tied_to_the_batch", drawn, "your test drew or seeded random numbers"),
    ("tied_to_the_batch", lambda model, rows: other_rows_behind(model, rows, tolerance=0.2), "only a little"),
    ("tied_to_the_batch", lambda model, rows: other_rows_behind(model, rows, repeats=True), "Name each module once"),
    ("tied_to_the_batch", hooks_left, "hooks are left"),
    ("tied_to_the_batch", with_other_masks, "draws another mask"),
    ("tied_to_the_batch", lambda model, rows: row_by_row(model.eval(), rows), "looks at no other sample"),
    ("tied_to_the_batch", lambda model, rows: [], "You found nothing"),
    ("tied_to_the_batch", lambda model, rows: len(row_by_row(model, rows)), "a list of names"),
]
