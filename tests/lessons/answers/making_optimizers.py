"""Lesson 06: answers to the exercise on the optimizer."""

import torch


def groups_of(parameters, decay=0.1, matrix=lambda parameter: parameter.dim() > 1):
    parameters = list(parameters)
    groups = [{"params": [each for each in parameters if matrix(each)], "weight_decay": decay},
              {"params": [each for each in parameters if not matrix(each)], "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def fused_in_each_group(parameters):
    """The settings of a group say how it is done; the whole has to know for GradScaler."""
    groups = groups_of(parameters)
    real = all(each.is_floating_point() for group in groups for each in group["params"])
    return torch.optim.AdamW(groups, lr=1e-3, fused=True) if real else torch.optim.AdamW(groups, lr=1e-3, foreach=True)


def by_a_first_try(parameters):
    """PyTorch itself says what cannot be fused, in the first step: here it is asked with parameters of no size."""
    groups = groups_of(parameters)
    tried = [torch.nn.Parameter(each.new_zeros(0)) for group in groups for each in group["params"]]
    for each in tried:
        each.grad = each.detach().clone()
    try:
        torch.optim.AdamW(tried, fused=True).step()
    except RuntimeError:
        return torch.optim.AdamW(groups, lr=1e-3)
    return torch.optim.AdamW(groups, lr=1e-3, fused=True)


def group_after_group(parameters):
    lists = {}
    for parameter in parameters:
        lists.setdefault(0.1 if parameter.dim() > 1 else 0.0, []).append(parameter)
    (decay, first), *others = lists.items()
    fused = not any(each.is_complex() for group in lists.values() for each in group)
    optimizer = torch.optim.AdamW(first, lr=1e-3, weight_decay=decay, fused=fused or None)
    for decay, group in others:
        optimizer.add_param_group({"params": group, "weight_decay": decay})
    return optimizer


def adamw(**options):
    return lambda parameters: torch.optim.AdamW(groups_of(parameters), **{"lr": 1e-3, **options})


def one_group(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)


def used_up(parameters):
    return torch.optim.AdamW([{"params": [each for each in parameters if each.dim() > 1], "weight_decay": 0.1},
                              {"params": [each for each in parameters if each.dim() <= 1], "weight_decay": 0.0}], lr=1e-3)


def matrices_alone(parameters):
    return torch.optim.AdamW([each for each in parameters if each.dim() > 1], lr=1e-3, weight_decay=0.1)


def by_sgd(parameters):
    return torch.optim.SGD(groups_of(parameters), lr=1e-3, fused=True)


def by_adam(parameters):
    return torch.optim.Adam(groups_of(parameters), lr=1e-3)


def fused_or_not(parameters):
    parameters = list(parameters)
    return torch.optim.AdamW(groups_of(parameters), lr=1e-3, fused=not any(each.is_complex() for each in parameters))


def real_ones_in_a_loop(parameters):
    parameters = list(parameters)
    looped = None if any(each.is_complex() for each in parameters) else False
    return torch.optim.AdamW(groups_of(parameters), lr=1e-3, fused=looped)


def the_real_ones_fused(parameters):
    groups = {}
    for each in parameters:
        groups.setdefault((each.dim() > 1, each.is_complex()), []).append(each)
    return torch.optim.AdamW([{"params": group, "weight_decay": 0.1 * matrix, "fused": not complex_one, "foreach": complex_one}
                              for (matrix, complex_one), group in groups.items()], lr=1e-3)


def own_lr_for_biases(parameters):
    groups = groups_of(parameters)
    groups[-1]["lr"] = 2e-3
    return torch.optim.AdamW(groups, lr=1e-3)


def a_group_for_each_shape(parameters):
    groups = {}
    for parameter in parameters:
        groups.setdefault(parameter.shape, []).append(parameter)
    fused = not any(each.is_complex() for group in groups.values() for each in group)
    return torch.optim.AdamW([{"params": group, "weight_decay": 0.1 if len(shape) > 1 else 0.0} for shape, group in groups.items()],
                             lr=1e-3, fused=fused or None)


def fused_if(fuses):
    def make_optimizer(parameters):
        parameters = list(parameters)
        return torch.optim.AdamW(groups_of(parameters), lr=1e-3, fused=fuses(parameters) or None)

    return make_optimizer


fused_in_float32 = fused_if(lambda parameters: all(each.dtype == torch.float32 for each in parameters))


def thaws(parameters):
    return fused_in_each_group([parameter.requires_grad_() for parameter in parameters])


def without_frozen_ones(parameters):
    return fused_in_each_group([parameter for parameter in parameters if parameter.requires_grad])


OPTIMIZER_ROUTES = {"make_optimizer": [fused_in_each_group, by_a_first_try, group_after_group]}

OPTIMIZER_WRONG = [("make_optimizer", *wrong) for wrong in (
    (adamw(fused=True), "all the params to be floating point"),
    (one_group, "Biases and norms decay too"),
    (lambda parameters: torch.optim.AdamW(parameters), "Biases and norms decay too"),
    (used_up, "the optimizer lacks"),
    (matrices_alone, "the optimizer lacks"),
    (by_sgd, "Return a `torch.optim.AdamW`"),
    (by_adam, "Return a `torch.optim.AdamW`"),
    (lambda parameters: None, "is there a `return`"),
    (adamw(lr=1e-4), "learning rate is 0.001"),
    (adamw(betas=(0.9, 0.98)), "betas"),
    (adamw(maximize=True), "it is"),
    (adamw(amsgrad=True), "another method"),
    (adamw(eps=1e-6), "`eps` must be AdamW's default"),
    (own_lr_for_biases, "learning rate"),
    (lambda parameters: torch.optim.AdamW(groups_of(parameters, matrix=lambda each: each.dim() == 2), lr=1e-3),
     "more than two dimensions"),
    (lambda parameters: torch.optim.AdamW(groups_of(parameters, matrix=lambda each: each.dim() < 2), lr=1e-3),
     "groups are swapped"),
    (lambda parameters: torch.optim.AdamW(groups_of(parameters, matrix=lambda each: each.squeeze().dim() > 1), lr=1e-3),
     "did not count the dimensions of size 1"),
    (fused_or_not, "`fused=False` means a loop"),
    (the_real_ones_fused, "lists must update all of them"),
    (fused_if(lambda parameters: all(each.dtype != torch.complex64 for each in parameters)), "all the params to be floating point"),
    (fused_if(lambda parameters: not any(each.is_complex() for each in parameters if each.dim() > 1)), "but torch.complex128"),
    (thaws, "A frozen parameter must stay frozen"),
    (without_frozen_ones, "frozen ones too: they may be trained later"),
)]
