"""Lesson 05, large batches: the largest, its learning rate, LARS: right answers by other routes, and wrong ones."""

import inspect
import math

import torch


def doubled_then_bisected(step, most):
    def fits(batch):
        try:
            step(batch)
        except torch.OutOfMemoryError:
            return False
        return True

    if most < 8 or not fits(8):
        return 0
    low = 1
    while 16 * low <= most and fits(16 * low):
        low *= 2
    high = min(2 * low, most // 8 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(8 * middle) else (low, middle)
    return 8 * low


def found_recursively(step, most):
    def search(fitting, failing):
        if failing - fitting <= 8:
            return fitting
        middle = (fitting + failing) // 16 * 8
        failed = False
        try:
            step(middle)
        except torch.OutOfMemoryError:
            failed = True
        return search(fitting, middle) if failed else search(middle, failing)

    return search(0, most // 8 * 8 + 8)


def found_by_bits(step, most):
    found, bit = 0, 1 << (most // 8).bit_length()
    while bit:
        batch = 8 * (found + bit)
        if batch <= most:
            try:
                step(batch)
                found += bit
            except RuntimeError as error:
                if "out of memory" not in str(error):
                    raise
        bit //= 2
    return 8 * found


class OwnSchedule(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, factor, warmup, total):
        self.factor, self.warmup, self.total = factor, warmup, total
        super().__init__(optimizer)

    def get_lr(self):
        step = self.last_epoch
        share = 0.0 if step < self.warmup else min(1.0, (step - self.warmup) / (self.total - self.warmup))
        ramp = step / self.warmup if step < self.warmup else 1.0
        return [lr * ((1 - ramp) + ramp * self.factor * math.cos(math.pi * share / 2) ** 2) for lr in self.base_lrs]


def two_lambdas(optimizer, factor, warmup, total, kind=torch.optim.lr_scheduler.LambdaLR):
    def ramp(step):
        return 1 + (factor - 1) * min(step / warmup if warmup else 1.0, 1.0)

    def decay(step):
        return 0.5 + 0.5 * math.cos(math.pi * min(max(step - warmup, 0) / (total - warmup), 1))

    return kind(optimizer, lambda step: ramp(step) * decay(step))


def from_a_table(optimizer, factor, warmup, total):
    import numpy as np

    up = np.linspace(1, factor, warmup + 1)[:-1] if warmup else np.zeros(0)
    down = factor * (1 + np.cos(np.linspace(0, np.pi, total - warmup + 1))) / 2
    table = [float(each) for each in (*up, *down)]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: table[min(step, total)])


@torch.no_grad()
def ratios_by_addition(params, momenta, lr, momentum, weight_decay, trust):
    """Norms one list after the other, and the rates spread by lists of products."""
    places = [i for i, param in enumerate(params) if param.grad is not None]
    if places:
        weights = [params[i] for i in places]
        updates = [params[i].grad.clone() for i in places]
        both = torch.stack(torch._foreach_norm([*weights, *updates], 2, torch.float32)).view(2, -1)
        ratio = trust * both[0] / (both[1] + weight_decay * both[0])
        ratio = ratio.masked_fill((both == 0).any(0), 1.0) * lr
        torch._foreach_add_(updates, weights, alpha=weight_decay)
        torch._foreach_mul_(updates, list(ratio))
        own = [momenta[i] for i in places]
        torch._foreach_mul_(own, momentum)
        torch._foreach_add_(own, updates)
        torch._foreach_add_(weights, own, alpha=-1)


@torch.no_grad()
def flat(params, momenta, lr, momentum, weight_decay, trust):
    """A flat tensor for each dtype."""
    kinds = {param.dtype for param in params}
    for kind in kinds:
        own = [(param, moment) for param, moment in zip(params, momenta) if param.grad is not None and param.dtype == kind]
        if not own:
            continue
        weights, moments = (list(each) for each in zip(*own))
        grads = [param.grad for param in weights]
        norms = torch.stack(torch._foreach_norm([*weights, *grads], 2, torch.float32))
        weight, grad = norms[:len(own)], norms[len(own):]
        rates = lr * torch.where(weight.mul(grad) > 0, trust * weight / (grad + weight_decay * weight), 1.0)
        whole = torch.cat([each.flatten() for each in grads]).add_(torch.cat([each.flatten() for each in weights]),
                                                                   alpha=weight_decay)
        parts = list(whole.split([each.numel() for each in grads]))
        torch._foreach_mul_(parts, list(rates.unbind()))
        updates = [part.view_as(param) for part, param in zip(parts, weights)]
        torch._foreach_mul_(moments, momentum)
        torch._foreach_add_(moments, updates)
        torch._foreach_sub_(weights, moments)


@torch.no_grad()
def rates_by_lerp(params, momenta, lr, momentum, weight_decay, trust):
    """The weights as they will be are computed first, and copied."""
    having = [(param, moment) for param, moment in zip(params, momenta) if param.grad is not None]
    if not having:
        return
    weights, moments = ([each[0] for each in having], [each[1] for each in having])
    grads = [param.grad for param in weights]
    norms = [torch.stack(torch._foreach_norm(each, 2, torch.float32)) for each in (weights, grads)]
    rates = torch.where((norms[0] == 0) | (norms[1] == 0), lr, lr * trust * norms[0] / (norms[1] + weight_decay * norms[0]))
    step = torch._foreach_add(grads, torch._foreach_mul(weights, weight_decay))
    torch._foreach_mul_(step, list(rates))
    torch._foreach_add_(step, torch._foreach_mul(moments, momentum))
    torch._foreach_copy_(moments, step)
    torch._foreach_copy_(weights, torch._foreach_sub(weights, step))


def bisected(catch=torch.OutOfMemoryError, kept=None, least=8, bound=lambda most: most + 8, share=1.0):
    def largest_batch(step, most):
        held, low, high = [], 0, bound(most) // least * least
        while high - low > least:
            middle = (low + high) // 2 // least * least
            try:
                if kept == "results":
                    held.append(step(middle))
                else:
                    step(middle)
                low = middle
            except catch as error:
                high = middle
                if kept == "errors":
                    held.append(error)
        return int(share * low) // 8 * 8 if share < 1 else low

    return largest_batch


def tries_again_in_except(step, most):
    def search(low, high):
        if high - low <= 8:
            return low
        middle = (low + high) // 16 * 8
        try:
            step(middle)
        except torch.OutOfMemoryError:
            return search(low, middle)
        return search(middle, high)

    return search(0, most // 8 * 8 + 8)


def one_result_back(step, most):
    low, high = 0, most // 8 + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            loss = step(8 * middle)  # while the next step runs, the last one's is still there
            assert loss is not None
            low = middle
        except torch.OutOfMemoryError:
            high = middle
    return 8 * low


def powers_of_two(step, most):
    batch = 8
    while 2 * batch <= most:
        try:
            step(2 * batch)
        except torch.OutOfMemoryError:
            break
        batch *= 2
    return batch


def one_by_one(step, most):
    for batch in range(most // 8 * 8, 0, -8):
        try:
            step(batch)
            return batch
        except torch.OutOfMemoryError:
            pass
    return 0


def factor_of(of):
    """A schedule from ``of(step, factor, warmup, total)``."""
    return lambda optimizer, factor, warmup, total: torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: of(step, factor, warmup, total))


def cosine(share):
    return (1 + math.cos(math.pi * min(share, 1.0))) / 2


def then_cosine(ramp, early=0):
    return factor_of(lambda step, factor, warmup, total: ramp(step, factor, warmup) if step < warmup else
                     factor * cosine((step - warmup) / max(total - warmup - early, 1)))


def lars(rate=None, norm=None, decay=None, last=lambda param, moment: param.sub_(moment)):
    """LARS in a loop that does not wait, with a part exchanged."""

    @torch.no_grad()
    def lars_step(params, momenta, lr, momentum, weight_decay, trust):
        for param, moment in zip(params, momenta):
            if param.grad is None:
                if decay is not None:
                    param.mul_(decay)
                continue
            w, g = ((norm or (lambda x: torch.linalg.vector_norm(x, dtype=torch.float32)))(each) for each in (param, param.grad))
            ratio = torch.where((w > 0) & (g > 0), trust * w / (g + weight_decay * w), 1.0)
            ratio = ratio if rate is None else rate(w, g, weight_decay, trust)
            moment.mul_(momentum).add_(lr * ratio * (param.grad + weight_decay * param))
            last(param, moment)

    return lars_step


@torch.no_grad()
def decays_by_itself(params, momenta, lr, momentum, weight_decay, trust):
    for param, moment in zip(params, momenta):
        if param.grad is None:
            continue
        w, g = (torch.linalg.vector_norm(each, dtype=torch.float32) for each in (param, param.grad))
        moment.mul_(momentum).add_(lr * torch.where((w > 0) & (g > 0), trust * w / (g + weight_decay * w), 1.0) * param.grad)
        param.sub_(moment).mul_(1 - lr * weight_decay)


@torch.no_grad()
def looks_ahead(params, momenta, lr, momentum, weight_decay, trust):
    lars()(params, momenta, lr, momentum, weight_decay, trust)
    torch._foreach_sub_([param for param in params if param.grad is not None],
                        [momentum * moment for param, moment in zip(params, momenta) if param.grad is not None])


@torch.no_grad()
def overwrites_gradients(params, momenta, lr, momentum, weight_decay, trust):
    for param in params:
        if param.grad is not None:
            param.grad.add_(param, alpha=weight_decay)
    lars()(params, momenta, lr, momentum, 0.0, trust)


@torch.no_grad()
def all_momenta_shrink(params, momenta, lr, momentum, weight_decay, trust):
    torch._foreach_mul_(momenta, momentum)
    lars()(params, momenta, lr, 1.0, weight_decay, trust)


@torch.no_grad()
def forgets_the_empty_list(params, momenta, lr, momentum, weight_decay, trust):
    having = [(param, moment) for param, moment in zip(params, momenta) if param.grad is not None]
    torch._foreach_norm([param for param, _ in having], 2, torch.float32)
    lars()(params, momenta, lr, momentum, weight_decay, trust)


def known_beforehand(step, most):
    """By the closure of the step: no trial."""
    block_of = inspect.getclosurevars(step).nonlocals["block_of"]
    known = inspect.getclosurevars(block_of).nonlocals
    if inspect.getclosurevars(step).nonlocals["options"]["broken"]:
        step(8)
    return min(most, known["memory_bytes"] // known["options"]["sample_bytes"]) // 8 * 8


def by_sixteens(step, most):
    low, high = 0, most // 16 + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = True
        try:
            step(16 * middle)
        except torch.OutOfMemoryError:
            fits = False
        low, high = (middle, high) if fits else (low, middle)
    return 16 * low


def another_momentum(optimizer, factor, warmup, total):
    for group in optimizer.param_groups:
        group["momentum"] = 0.9
    return two_lambdas(optimizer, factor, warmup, total)


def rate_for_a_factor(optimizer, factor, warmup, total):
    rate = optimizer.param_groups[0]["lr"]
    decay = two_lambdas(optimizer, factor, warmup, total).lr_lambdas[0]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate * decay(step))


BATCH_ROUTES = {
    "largest_batch": [doubled_then_bisected, found_recursively, found_by_bits],
    "warmup_schedule": [OwnSchedule, two_lambdas, from_a_table],
    "lars_step": [ratios_by_addition, flat, rates_by_lerp],
}

BATCH_WRONG = [
    ("largest_batch", bisected(RuntimeError), "errors that are not about the device's memory"),
    ("largest_batch", bisected(Exception), "errors that are not about the device's memory"),
    ("largest_batch", bisected(kept="errors"), "Something still holds the memory"),
    ("largest_batch", bisected(kept="results"), "Something still holds the memory"),
    ("largest_batch", one_result_back, "another trial inside the `except`"),
    ("largest_batch", tries_again_in_except, "Something still holds the memory"),
    ("largest_batch", bisected(least=1), "Look among 8, 16, 24"),
    ("largest_batch", bisected(bound=lambda most: 2 * most), "Look among 8, 16, 24"),
    ("largest_batch", bisected(bound=lambda most: most), "`most` itself belongs to the range"),
    ("largest_batch", powers_of_two, "Doubling until it fails"),
    ("largest_batch", one_by_one, "one size after the other, from above"),
    ("largest_batch", lambda step, most: most // 8 * 8, "it is"),
    ("largest_batch", lambda step, most: bisected()(step, most) + 8, "the largest size that fitted"),
    ("largest_batch", lambda step, most: bisected()(step, most) / 1, "divide with `//`"),
    ("largest_batch", lambda step, most: None, "is there a `return`"),
    ("largest_batch", known_beforehand, "none of your trials shows it"),
    ("largest_batch", lambda step, most: step.__self__.memory_bytes // step.__self__.sample_bytes, "it raised AttributeError"),
    ("largest_batch", lambda step, most: max(8, bisected()(step, most)), "Your own trial shows that 8 does not fit"),
    ("largest_batch", by_sixteens, "the search ends too early"),
    ("warmup_schedule", then_cosine(lambda step, factor, warmup: factor * step / warmup), "begins at 0"),
    ("warmup_schedule", then_cosine(lambda step, factor, warmup: factor * (step + 1) / warmup), "fraction of the full rate"),
    ("warmup_schedule", then_cosine(lambda step, factor, warmup: 1 + (factor - 1) * (step + 1) / warmup), "one step too early"),
    ("warmup_schedule", then_cosine(lambda step, factor, warmup: factor), "no warm-up"),
    ("warmup_schedule", factor_of(lambda step, factor, warmup, total: 1 + (factor - 1) * min(step / max(warmup, 1), 1)),
     "stays high"),
    ("warmup_schedule", factor_of(lambda step, factor, warmup, total: (1 + (factor - 1) * min(step / max(warmup, 1), 1))
                                  * (1 - min(step / total, 1))), "it is"),
    ("warmup_schedule", lambda optimizer, factor, warmup, total: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total),
     "it is"),
    ("warmup_schedule", factor_of(lambda step, factor, warmup, total: 1 + (factor - 1) * step / warmup if step < warmup else
                                  factor * (1 + math.cos(180 * min((step - warmup) / (total - warmup), 1))) / 2), "takes radians"),
    ("warmup_schedule", factor_of(lambda step, factor, warmup, total: 1 + (factor - 1) * (
        step / warmup if step < warmup else cosine((step - warmup) / (total - warmup)))), "ends at the optimizer's own rate"),
    ("warmup_schedule", another_momentum, "Change only the learning rate"),
    ("warmup_schedule", rate_for_a_factor, "a factor, not a rate"),
    ("warmup_schedule", lambda *given: two_lambdas(*given, kind=torch.optim.lr_scheduler.MultiplicativeLR), "previous step's rate"),
    ("warmup_schedule", lambda optimizer, *rest: None, "not a scheduler of torch.optim.lr_scheduler"),
    ("warmup_schedule", lambda optimizer, factor, warmup, total: 0.1 * factor, "not a scheduler of torch.optim.lr_scheduler"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: trust * w / (g + decay * w)), "If a norm is 0"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: trust * w / (g + decay * w + 1e-9)), "Select with `torch.where`"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: trust * w / (g + decay * w).clamp(min=1e-6)), "Select with `torch.where`"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: trust), "it is"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: 1.0), "The trust ratio is missing"),
    ("lars_step", lars(rate=lambda w, g, decay, trust: torch.where((w > 0) & (g > 0), trust * w / g, 1.0)), "lacks the weight decay"),
    ("lars_step", lars(norm=torch.linalg.vector_norm), "compute a norm in float16"),
    ("lars_step", lars(norm=lambda x: x.float().square().sum()), "the square root is missing"),
    ("lars_step", lars(decay=0.9), "it is"),
    ("lars_step", lars(last=lambda param, moment: param.add_(moment)), "Subtract the momentum from the weights"),
    ("lars_step", lars(last=lambda param, moment: None), "it is"),
    ("lars_step", lambda params, momenta, lr, *rest: lars()(params, momenta, lr**2, *rest), "in the rate twice"),
    ("lars_step", all_momenta_shrink, "has no gradient: leave it and its momentum"),
    ("lars_step", decays_by_itself, "as AdamW does"),
    ("lars_step", looks_ahead, "Nesterov's momentum"),
    ("lars_step", overwrites_gradients, "it is"),
    ("lars_step", forgets_the_empty_list, "A list of tensors is empty"),
    ("lars_step", lambda params, momenta, *numbers: None, "it is"),
    ("largest_batch", bisected(share=0.9), "larger size fitted in one of your trials"),
    ("warmup_schedule", then_cosine(lambda step, factor, warmup: 1 + (factor - 1) * step / warmup, early=1),
     "not at `total - 1`"),
]
