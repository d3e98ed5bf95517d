"""Lesson 06, all heads at once: right answers by other routes, and wrong ones."""

import torch
import torch.nn.functional as F


def by_bmm(x, weights):
    widths = sum(weight.shape[1] for weight in weights)
    outputs = x.new_empty(x.shape[:-1].numel(), widths)
    if weights:
        rows = x.reshape(len(outputs), x.shape[-1])
        features, width = weights[0].shape
        equal = [weight for weight in weights if weight.shape == (features, width)]
        parts = torch.stack(rows[:, :len(equal) * features].split(features, 1))
        products = torch.bmm(parts, torch.stack(equal)).transpose(0, 1)
        outputs[:, :len(equal) * width] = products.reshape(len(rows), len(equal) * width)
        if len(equal) < len(weights):
            outputs[:, len(equal) * width:] = rows[:, len(equal) * features:] @ weights[-1]
    return outputs.view(*x.shape[:-1], widths)


def padded(x, weights):
    if not weights:
        return x[..., :0]
    features, width = weights[0].shape
    rest, narrow = features - len(weights[-1]), width - weights[-1].shape[1]
    stacked = torch.stack([*weights[:-1], F.pad(weights[-1], (0, narrow, 0, rest))])
    parts = F.pad(x, (0, rest)).unflatten(-1, (len(weights), features)).unsqueeze(-2)
    outputs = (parts @ stacked).flatten(-3)
    return outputs[..., :outputs.shape[-1] - narrow]


def by_vmap(x, weights):
    if not weights:
        return x.new_zeros(*x.shape[:-1], 0)
    *equal, last = weights
    results = [x[..., x.shape[-1] - len(last):] @ last]
    if equal:
        parts = x[..., :x.shape[-1] - len(last)].unflatten(-1, (len(equal), -1))
        results.insert(0, torch.vmap(torch.matmul, (-2, 0), -2)(parts, torch.stack(equal)).flatten(-2))
    return torch.cat(results, -1)


def solved(x, weights, equal=lambda parts, stacked: torch.einsum("...hd,hdw->...hw", parts, stacked).flatten(-2),
           after=lambda outputs: outputs, ragged=True):
    if not weights:
        return x.new_zeros(*x.shape[:-1], 0)
    same = [weight for weight in weights if weight.shape == weights[0].shape]
    count = sum(map(len, same))
    results = [equal(x[..., :count].unflatten(-1, (len(same), -1)), torch.stack(same))]
    if ragged and len(same) < len(weights):
        results.append(x[..., count:] @ weights[-1])
    return after(torch.cat(results, -1))


def without_the_last(x, weights):
    return solved(x, weights, ragged=False)


def not_turned_back(x, weights):
    return solved(x, weights, equal=lambda parts, stacked: torch.einsum("...hd,hdw->h...w", parts, stacked).reshape(
        *parts.shape[:-2], -1))


def dealt_out(x, weights):
    return solved(x, weights, equal=lambda parts, stacked: torch.einsum("...hd,hdw->...wh", parts, stacked).flatten(-2))


def dealt_in(x, weights):
    return solved(x, weights, equal=lambda parts, stacked: torch.einsum(
        "...dh,hdw->...hw", parts.flatten(-2).unflatten(-1, (parts.shape[-1], -1)), stacked).flatten(-2))


def one_weight_for_all(x, weights):
    return solved(x, weights, equal=lambda parts, stacked: (parts @ stacked[0]).flatten(-2))


def added_up(x, weights):
    return solved(x, weights, equal=lambda parts, stacked: torch.einsum("...hd,hdw->...w", parts, stacked))


def stacked_anew(x, weights):
    return solved(x, [torch.tensor(weight.tolist(), device=weight.device, dtype=weight.dtype).view_as(weight)
                      for weight in weights])


def written_into(x, weights):
    with torch.no_grad():
        return solved(x, weights)


def in_float32(x, weights):
    return solved(x.float(), [weight.float() for weight in weights])


def one_block_matrix(x, weights):
    return x @ torch.block_diag(*weights) if weights else x.new_zeros(*x.shape[:-1], 0)


def the_same_columns(x, weights):
    return x[..., :len(weights[0])] @ torch.cat(weights, 1) if weights else x[..., :0]


def nothing_for_no_heads(x, weights):
    return torch.einsum("...hd,hdw->...hw", x.unflatten(-1, (len(weights), -1)), torch.stack(weights)).flatten(-2)


def on_the_host(x, weights):
    return solved(x, weights).cpu()


def pops(x, weights):
    if not weights or weights[-1].shape == weights[0].shape:
        return solved(x, weights)
    last = weights.pop()
    count = sum(map(len, weights))
    return torch.cat([solved(x[..., :count], weights), x[..., count:] @ last], -1)


kept_stacks = {}  # by what the weights are


def keeps_the_stack(x, weights):
    key = tuple(weights)
    if key not in kept_stacks:
        kept_stacks[key] = [weight.clone() for weight in weights]
    return solved(x, kept_stacks[key])


HEAD_ROUTES = [by_bmm, padded, by_vmap]

HEAD_WRONG = [
    ("all_heads", without_the_last, "Every head has its own columns, the last too"),
    ("all_heads", not_turned_back, "the rows of different heads end up side by side"),
    ("all_heads", dealt_out, "are interleaved"),
    ("all_heads", dealt_in, "Head 0 has the *first* columns"),
    ("all_heads", one_weight_for_all, "multiplied by the first head's weight"),
    ("all_heads", added_up, "as wide as all weights together"),
    ("all_heads", stacked_anew, "No gradient comes back to the weights"),
    ("all_heads", written_into, "gradient"),
    ("all_heads", in_float32, "something on the way casts"),
    ("all_heads", one_block_matrix, "turns all into nan"),
    ("all_heads", the_same_columns, "Every head gets the first head's columns"),
    ("all_heads", nothing_for_no_heads, "raised"),
    ("all_heads", pops, "it has changed `weights`"),
    ("all_heads", keeps_the_stack, "Stack the weights in each call"),
    ("all_heads", on_the_host, "stay on the device of `x`"),
    ("all_heads", lambda x, weights: None, "is there a `return`?"),
    ("all_heads", lambda x, weights: solved(x, weights, after=lambda outputs: outputs.half().to(outputs.dtype)), "in a lower precision"),
]
