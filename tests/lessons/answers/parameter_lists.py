"""Lesson 06: answers to the exercises on gradients and averages."""

from itertools import groupby

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from gapless.lessons.launch_overhead.clip.mistakes import clipping

# -- clear_grads ---------------------------------------------------------------------------------------------------------


def deleted(parameters):
    for parameter in parameters:
        del parameter.grad


def by_an_optimizer(parameters):
    parameters = list(parameters)
    if parameters:
        torch.optim.SGD(parameters, lr=0.0).zero_grad()


def by_a_module(parameters):
    holder = nn.ParameterList(parameters)
    holder.zero_grad()


def cleared(change):
    def clear_grads(parameters):
        for parameter in parameters:
            change(parameter)

    return clear_grads


def none_where_there_is_no_graph(parameter):
    if parameter.grad is not None and parameter.grad.abs().sum() == 0:
        parameter.grad = None


def to_none(parameter):
    parameter.grad = None


def half_and_half(parameters):
    for parameter in parameters:
        if parameter.grad is not None and parameter.dim() > 1:
            parameter.grad = None
        elif parameter.grad is not None:
            parameter.grad.zero_()


def zero_by_product(parameters):
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if grads:
        torch._foreach_mul_(grads, 0.0)


def sets_zero_then_none(parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()
            parameter.grad = None


def frozen_too(parameters):
    for parameter in parameters:
        parameter.grad = None
        parameter.requires_grad_(False)


# -- update_average ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_product_and_sum(averages, parameters, decay):
    pairs = [(average, parameter.detach().to(average.dtype)) for average, parameter in zip(averages, parameters)]
    for dtype in {average.dtype for average, _ in pairs}:
        old = [average for average, _ in pairs if average.dtype == dtype]
        torch._foreach_mul_(old, decay)
        torch._foreach_add_(old, [new for average, new in pairs if average.dtype == dtype], alpha=1 - decay)


def by_swa_utils(averages, parameters, decay):
    pairs = sorted(zip(averages, parameters), key=lambda pair: str(pair[0].dtype))
    for dtype, group in groupby(pairs, key=lambda pair: pair[0].dtype):
        old, new = zip(*group)
        get_ema_multi_avg_fn(decay)(list(old), [each.detach().to(dtype) for each in new], None)


@torch.no_grad()
def by_difference(averages, parameters, decay):
    lists = {}
    for average, parameter in zip(averages, parameters):
        pair = lists.setdefault(average.dtype, ([], []))
        pair[0].append(average)
        pair[1].append(parameter.to(average.dtype))
    for old, new in lists.values():
        difference = torch._foreach_sub(new, old)
        torch._foreach_add_(old, difference, alpha=1 - decay)


def averaged(update):
    @torch.no_grad()
    def update_average(averages, parameters, decay):
        for average, parameter in zip(averages, parameters):
            update(average, parameter, decay)

    return update_average


@torch.no_grad()
def one_list(averages, parameters, decay):
    torch._foreach_mul_(averages, decay)
    torch._foreach_add_(averages, list(parameters), alpha=1 - decay)


@torch.no_grad()
def one_list_lerp(averages, parameters, decay):
    parameters = list(parameters)
    if averages:
        torch._foreach_lerp_(averages, parameters, 1 - decay)


@torch.no_grad()
def mixed_lists(averages, parameters, decay):
    """Right, and off the fast path."""
    parameters = list(parameters)
    if averages:
        torch._foreach_mul_(averages, decay)
        torch._foreach_add_(averages, parameters, alpha=1 - decay)


@torch.no_grad()
def keeps_small_dtype(averages, parameters, decay):
    for average, parameter in zip(averages, parameters):
        average.copy_((average.to(parameter.dtype) * decay + parameter * (1 - decay)).half())


@torch.no_grad()
def zeroed(averages, parameters, decay):
    by_product_and_sum(averages, parameters, decay)
    for average in averages:
        average.zero_()


@torch.no_grad()
def with_decay_on_the_device(averages, parameters, decay):
    """Right; the number's dtype is no list's, and it is copied from the host."""
    for average, parameter in zip(averages, parameters):
        average.mul_(torch.tensor(decay, device=average.device)).add_(parameter.to(average.dtype), alpha=1 - decay)


def tracked(averages, parameters, decay):
    for average, parameter in zip(averages, parameters):
        average.mul_(decay).add_(parameter, alpha=1 - decay)


@torch.no_grad()
def lists_in_the_loop(averages, parameters, decay):
    lists = {}
    for average, parameter in zip(averages, parameters):
        old, new = lists.setdefault(average.dtype, ([], []))
        old.append(average)
        new.append(parameter.to(average.dtype))
        for old, new in lists.values():
            torch._foreach_lerp_(old, new, 1 - decay)


@torch.no_grad()
def into_new_memory(averages, parameters, decay):
    for average, parameter in zip(averages, parameters):
        average.data = torch.lerp(average, parameter.to(average.dtype), 1 - decay)


def without_frozen_ones(averages, parameters, decay):
    pairs = [pair for pair in zip(averages, parameters) if pair[1].requires_grad]
    by_product_and_sum([average for average, _ in pairs], [parameter for _, parameter in pairs], decay)


@torch.no_grad()
def by_the_parameters_dtype(averages, parameters, decay):
    lists = {}
    for average, parameter in zip(averages, parameters):
        lists.setdefault(parameter.dtype, []).append((average, parameter))
    for pairs in lists.values():
        old = [average for average, _ in pairs]
        torch._foreach_mul_(old, decay)
        torch._foreach_add_(old, [parameter.to(old[0].dtype) for _, parameter in pairs], alpha=1 - decay)


kept_parameters = []  # of all lists of averages so far


def keeps_the_first_parameters(averages, parameters, decay):
    known = next((kept for held, kept in kept_parameters if held is averages), None)
    if known is None:
        known = list(parameters)
        kept_parameters.append((averages, known))
    by_product_and_sum(averages, known, decay)


places_by_dtype = {}  # by how many averages there are


@torch.no_grad()
def keeps_the_groups(averages, parameters, decay):
    parameters = list(parameters)
    if len(averages) not in places_by_dtype:
        lists = places_by_dtype[len(averages)] = {}
        for place, average in enumerate(averages):
            lists.setdefault(average.dtype, []).append(place)
    for dtype, places in places_by_dtype[len(averages)].items():
        torch._foreach_lerp_([averages[i] for i in places], [parameters[i].to(dtype) for i in places], 1 - decay)


def converts_the_parameters(averages, parameters, decay):
    parameters = list(parameters)
    for average, parameter in zip(averages, parameters):
        parameter.data = parameter.data.to(average.dtype)
    by_product_and_sum(averages, parameters, decay)


# -- clip ----------------------------------------------------------------------------------------------------------------


def by_torch(parameters, max_norm):
    return nn.utils.clip_grad_norm_(parameters, max_norm)


def by_torch_in_two(parameters, max_norm):
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


def squaring(wider):
    """``wider``: what the norms of one dtype are squared in."""
    @torch.no_grad()
    def clip(parameters, max_norm):
        lists = {}
        for parameter in parameters:
            if parameter.grad is not None:
                lists.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        if not lists:
            return torch.tensor(0.0)
        norm = sum(wider(torch.stack(torch._foreach_norm(grads))).square().sum() for grads in lists.values()).sqrt()
        factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        for dtype, grads in lists.items():
            torch._foreach_mul_(grads, factor.to(dtype))
        return norm

    return clip


by_squares, squares_in_the_gradients_dtype = squaring(torch.Tensor.double), squaring(lambda norms: norms)


@torch.no_grad()
def reads_once(parameters, max_norm):
    """Right, with one wait left."""
    parameters = list(parameters)
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return by_torch(parameters, max_norm).item() if grads else 0.0


def no_tensor_without_gradients(parameters, max_norm):
    return by_torch(parameters, max_norm) if any(each.grad is not None for each in parameters) else 0.0


@torch.no_grad()
def forgets_the_empty_list(parameters, max_norm):
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


@torch.no_grad()
def forgets_none(parameters, max_norm):
    grads = [parameter.grad for parameter in parameters]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def gives_none_a_gradient(parameters, max_norm):
    parameters = list(parameters)
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return by_torch(parameters, max_norm)


def returns_nothing(parameters, max_norm):
    by_torch(parameters, max_norm)


def by_l1(parameters, max_norm):
    return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=1.0)


def by_inf(parameters, max_norm):
    return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=float("inf"))


@torch.no_grad()
def last_dtype_alone(parameters, max_norm):
    kinds, norm = {}, torch.zeros(())
    for parameter in parameters:
        if parameter.grad is not None:
            kinds.setdefault(parameter.grad.dtype, []).append(parameter.grad)
    for grads in kinds.values():
        norm = torch.stack(torch._foreach_norm(grads)).norm()
    for kind, grads in kinds.items():
        torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0).to(kind))
    return norm


def by_value(parameters, max_norm):
    parameters = list(parameters)
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    nn.utils.clip_grad_value_(parameters, max_norm)
    return norm


def by_the_weights(parameters, max_norm):
    return nn.utils.get_total_norm(list(parameters))


def raises_on_nan(parameters, max_norm):
    return nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=True)


def one_after_the_other(parameters, max_norm):
    norms = [nn.utils.clip_grad_norm_(parameter, max_norm) for parameter in parameters]
    return torch.stack(norms).norm() if norms else torch.tensor(0.0)


def of_what_numpy_knows(parameters, max_norm):
    return by_torch([each for each in parameters if each.dtype != torch.bfloat16], max_norm)


@torch.no_grad()
def into_new_gradients(parameters, max_norm):
    with_gradient = [each for each in parameters if each.grad is not None]
    norm = nn.utils.get_total_norm([each.grad for each in with_gradient])
    for each in with_gradient:
        each.grad = (each.grad * (max_norm / (norm + 1e-6)).clamp(max=1.0)).to(each.dtype)
    return norm


kept_gradients = {}  # by what the parameters are


@torch.no_grad()
def keeps_the_first_gradients(parameters, max_norm):
    parameters = tuple(parameters)
    if parameters not in kept_gradients:
        kept_gradients[parameters] = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = nn.utils.get_total_norm(kept_gradients[parameters])
    for grad in kept_gradients[parameters]:
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


PARAMETER_ROUTES = {
    "clear_grads": [deleted, by_an_optimizer, by_a_module, cleared(to_none)],
    "update_average": [by_product_and_sum, by_swa_utils, by_difference],
    "clip": [by_torch, by_torch_in_two, by_squares],
}

PARAMETER_WRONG = [
    ("clear_grads", zero_by_product, "A gradient of zero is a gradient"),
    ("clear_grads", half_and_half, "no parameter may have a gradient"),
    ("clear_grads", cleared(lambda parameter: parameter.grad.zero_()), "object has no attribute"),
    ("clear_grads", cleared(none_where_there_is_no_graph), "Nothing was cleared"),
    ("clear_grads", sets_zero_then_none, "Other code, such as a log, held the gradients"),
    ("clear_grads", frozen_too, "does not require grad"),
    ("clear_grads", lambda parameters: [to_none(parameter) for parameter in parameters if parameter.requires_grad],
     "A frozen parameter keeps its gradient"),
    ("clear_grads", lambda parameters: [to_none(parameter) for parameter in list(parameters)[:-1]], "no parameter may have"),
    ("clear_grads", lambda parameters: None, "Nothing was cleared"),
    ("clear_grads", lambda parameters: [to_none(each) for each in parameters if each.grad is not None and each.grad.any()],
     "\"gradients of an earlier step, one of them 0\""),
    ("clear_grads", lambda parameters: to_none(next(iter(parameters))), "Only the first"),
    ("clear_grads", lambda parameters: parameters.zero_grad(), "object has no attribute"),
    ("update_average", one_list, "A list of tensors is empty"),
    ("update_average", one_list_lerp, "it raised"),
    ("update_average", averaged(lambda a, p, d: a.lerp_(p, 1 - d)), "it raised"),
    ("update_average", tracked, "belong to autograd's graph"),
    ("update_average", lists_in_the_loop, "inside the loop that fills them"),
    ("update_average", averaged(lambda a, p, d: setattr(a, "data", d * a + (1 - d) * p)), "Change them in place"),
    ("update_average", averaged(lambda a, p, d: a.lerp_(p.to(a.dtype), d)), "two shares are swapped"),
    ("update_average", averaged(lambda a, p, d: a.mul_(d).add_(p)), "You add the whole parameter"),
    ("update_average", averaged(lambda a, p, d: a.mul_(d)), "it is"),
    ("update_average", averaged(lambda a, p, d: p.copy_(a * d + p * (1 - d))), "it is"),
    ("update_average", averaged(lambda a, p, d: a.lerp(p.to(a.dtype), 1 - d)), "The averages have not changed"),
    ("update_average", averaged(lambda a, p, d: a.copy_(d * a + (1 - d) * p).mul_(d)), "it is"),
    ("update_average", keeps_small_dtype, "it is"),
    ("update_average", zeroed, "it is"),
    ("update_average", lambda averages, parameters, decay: by_product_and_sum(averages[:-1], parameters, decay), "has not changed"),
    ("clip", forgets_the_empty_list, "A list of tensors is empty"),
    ("clip", forgets_none, "it raised"),
    ("clip", gives_none_a_gradient, "gradients"),
    ("clip", returns_nothing, "it is None"),
    ("clip", by_l1, "it is"),
    ("clip", by_inf, "largest element"),
    ("clip", by_value, "limited each element separately"),
    ("clip", raises_on_nan, "it raised"),
    ("clip", one_after_the_other, "clipped each gradient by its own norm"),
    ("clip", lambda parameters, max_norm: torch.zeros(()), "norm: it is 0"),
    ("clip", by_the_weights, "`parameter.grad`. The parameters themselves are 0"),
    ("clip", clipping(factor_of=lambda norm, limit: (limit / norm).clamp(min=1.0)), "never down"),
    ("clip", clipping(norm_of=lambda grads: torch.stack([grad.float().norm() for grad in grads]).mean()), "mean of the norms"),
    ("clip", clipping(factor_of=lambda norm, limit: torch.minimum(limit / norm, torch.ones_like(norm))), "10⁻⁶"),
    ("clip", clipping(factor_of=lambda norm, limit: limit / torch.clamp(norm + 1e-6, min=limit)), "inf / inf"),
    ("clip", clipping(factor_of=lambda norm, limit: (limit / (norm + 0.01)).clamp(max=1.0)), "You add too much to the norm"),
    ("clip", last_dtype_alone, "of one dtype's gradients"),
    ("clip", lambda parameters, max_norm: no_tensor_without_gradients(list(parameters), max_norm), "a tensor in both cases"),
    ("update_average", lambda averages, parameters, decay: by_product_and_sum(averages, parameters, 0.999), "You do not use `decay`"),
    ("update_average", lambda averages, parameters, decay: by_product_and_sum(averages, parameters, min(decay, 0.7)), "0.3 of its parameter"),
    ("clear_grads", lambda parameters: [by_an_optimizer([each.requires_grad_()]) for each in parameters], "no longer frozen"),
    ("clip", clipping(returned=lambda norm, factor: norm.half()), "largest number is 65 504"),
    ("update_average", into_new_memory, "The averages are in new memory"),
    ("update_average", without_frozen_ones, "Its parameter is frozen"),
    ("update_average", by_the_parameters_dtype, "Group by the average's dtype"),
    ("update_average", keeps_the_first_parameters, "keep nothing from one call to the next"),
    ("update_average", lambda averages, parameters, decay: by_product_and_sum(averages, parameters, 1 - round(1 - decay, 3)),
     "You round the share"),
    ("update_average", keeps_the_groups, "Group them again in each call"),
    ("update_average", converts_the_parameters, "You have changed the parameters themselves"),
    ("update_average", lambda averages, parameters, decay: by_product_and_sum(
        *zip(*[pair for pair in zip(averages, parameters) if pair[0].dtype != torch.bfloat16] or [((), ())]), decay),
     "in bfloat16, has not changed"),
    ("clip", of_what_numpy_knows, "lacks the gradients in bfloat16"),
    ("clip", into_new_gradients, "The gradients are new tensors"),
    ("clip", squaring(torch.Tensor.float), "overflows in float32"),
    ("clip", keeps_the_first_gradients, "keep nothing from one call to the next"),
    ("clip", squares_in_the_gradients_dtype, "overflows in float16"),
    ("clip", lambda parameters, max_norm: by_torch([each for each in parameters if each.requires_grad], max_norm),
     "You left out the frozen parameters"),
]
