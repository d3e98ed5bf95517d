"""Lesson 08: right answers by other routes to the exercises on less memory, and wrong ones."""

from contextlib import contextmanager, nullcontext, suppress

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

# -- checkpointed ------------------------------------------------------------------------------------


def cheap(block, x):
    return block.resize(block.drop(F.gelu(block.norm(x))))


@contextmanager
def statistics_put_back(norm):
    """The second run may move the statistics, and they are put back."""
    kept = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in norm.named_buffers():
                buffer.copy_(kept[name])


@contextmanager
def no_news(norm):
    """No momentum, and no count of batches."""
    momentum, count = norm.momentum, norm.num_batches_tracked
    norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        norm.momentum, norm.num_batches_tracked = momentum, count


def with_context(context):
    def checkpointed(model):
        def forward(images):
            x = images
            for block in model.blocks:
                x = checkpoint(cheap, block, block.conv(x), use_reentrant=False,
                               context_fn=lambda norm=block.norm: (nullcontext(), context(norm)))
            return model.head(x)

        return forward

    return checkpointed


def knows_which_run(model):
    """The function itself counts its runs, and calls the norm with copies in the second."""
    def part(block):
        runs = []

        def run(x):
            runs.append(x.shape)
            if len(runs) == 1:
                y = block.norm(x)
            else:
                copies = {name: buffer.clone() for name, buffer in block.norm.named_buffers()}
                y = torch.func.functional_call(block.norm, copies, (x,))
            return block.resize(block.drop(F.gelu(y)))

        return run

    def forward(images):
        x = images
        for block in model.blocks:
            x = checkpoint(part(block), block.conv(x), use_reentrant=False)
        return model.head(x)

    return forward


def selective(model):
    """The whole block is checkpointed, and of what it computes the convolution's output kept."""
    def policy(context, operator, *args, **kwargs):
        keep = "convolution" in str(operator)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    def contexts(norm):
        first, again = create_selective_checkpoint_contexts(policy)

        @contextmanager
        def both():
            with no_news(norm), again:
                yield

        return first, both()

    def forward(images):
        x = images
        for block in model.blocks:
            tracked = block.norm.track_running_stats
            x = checkpoint(lambda x, block=block: cheap(block, block.conv(x)), x, use_reentrant=False,
                           context_fn=(lambda norm=block.norm: contexts(norm)) if tracked else
                           (lambda: create_selective_checkpoint_contexts(policy)))
        return model.head(x)

    return forward


class _Behind(torch.autograd.Function):
    """Norm, GELU, dropout and resizing, of which only the input and the state of the random numbers are saved."""

    @staticmethod
    def forward(context, x, weight, bias, block):
        context.block, context.random = block, torch.get_device_module(x.device).get_rng_state()
        context.save_for_backward(x)
        return cheap(block, x)

    @staticmethod
    def backward(context, gradient):
        block, (x,) = context.block, context.saved_tensors
        copies = {name: buffer.clone() for name, buffer in block.norm.named_buffers()}
        device = torch.get_device_module(x.device)  # its random numbers: the CPU's are others, on CUDA and in grading
        now = device.get_rng_state()
        with torch.enable_grad():
            device.set_rng_state(context.random)
            x = x.detach().requires_grad_()
            y = block.resize(block.drop(F.gelu(torch.func.functional_call(block.norm, copies, (x,)))))
        device.set_rng_state(now)
        wanted = [x, block.norm.weight, block.norm.bias]
        asked = [each for each in wanted if each.requires_grad]
        found = dict(zip(asked, torch.autograd.grad(y, asked, gradient)))
        return *(found.get(each) for each in wanted), None


def own_function(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = _Behind.apply(block.conv(x), block.norm.weight, block.norm.bias, block)
        return model.head(x)

    return forward


def in_evaluation_again(model):
    @contextmanager
    def evaluation(norm):
        norm.eval()
        yield
        norm.train()

    return with_context(evaluation)(model)


def without_statistics_again(model):
    @contextmanager
    def untracked(norm):
        norm.track_running_stats = False
        yield
        norm.track_running_stats = True

    return with_context(untracked)(model)


def whole_network(model):
    def plain(images):
        x = images
        for block in model.blocks:
            x = cheap(block, block.conv(x))
        return model.head(x)

    return lambda images: checkpoint(plain, images, use_reentrant=False)


def reentrant(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = checkpoint(cheap, block, block.conv(x), use_reentrant=True)
        return model.head(x)

    return forward


def plain_checkpoint(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = checkpoint(cheap, block, block.conv(x), use_reentrant=False)
        return model.head(x)

    return forward


def with_convolutions(model):
    """Right and small; but products are computed twice."""
    def forward(images):
        x = images
        for block in model.blocks:
            x = checkpoint(lambda x, block=block: cheap(block, block.conv(x)), x, use_reentrant=False,
                           context_fn=lambda norm=block.norm: (nullcontext(), statistics_put_back(norm)))
        return model.head(x)

    return forward


def only_the_convolutions(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = cheap(block, checkpoint(block.conv, x, use_reentrant=False))
        return model.head(x)

    return forward


def without_checking_random_numbers(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = checkpoint(cheap, block, block.conv(x), use_reentrant=False, preserve_rng_state=False,
                           context_fn=lambda norm=block.norm: (nullcontext(), statistics_put_back(norm)))
        return model.head(x)

    return forward


def half_precision(model):
    """What is saved is halved, and rounded."""
    def forward(images):
        with torch.autograd.graph.saved_tensors_hooks(
                lambda x: (x.dtype, x.half() if x.dtype == torch.float32 else x), lambda kept: kept[1].to(kept[0])):
            x = images
            for block in model.blocks:
                x = cheap(block, block.conv(x))
            return model.head(x)

    return forward


def detached_where_frozen(model):
    """Of a frozen block neither weights nor input get a gradient."""
    def forward(images):
        x = images
        for block in model.blocks:
            x = block.conv(x)
            learns = any(each.requires_grad for each in block.parameters())
            x = checkpoint(cheap, block, x, use_reentrant=False, context_fn=lambda norm=block.norm: (
                nullcontext(), statistics_put_back(norm))) if learns else cheap(block, x.detach())
        return model.head(x)

    return forward


def detached_images(model):
    right = with_context(statistics_put_back)(model)
    return lambda images: right(images.detach())


def in_place(model):
    """ReLU in place would save a tensor; GELU is not ReLU."""
    def forward(images):
        x = images
        for block in model.blocks:
            x = block.resize(block.drop(F.relu_(block.norm(block.conv(x)))))
        return model.head(x)

    return forward


# -- accumulate --------------------------------------------------------------------------------------


def _check(tokens, parts):
    if parts < 1:
        raise ValueError(f"parts is {parts}")
    if not len(tokens):
        raise ValueError("the batch is empty")


def by_weighted_means(model, optimizer, tokens, labels, parts):
    _check(tokens, parts)
    optimizer.zero_grad()
    count = (labels != -100).sum()
    losses = []
    for some, some_labels in zip(tokens.tensor_split(parts), labels.tensor_split(parts)):
        if not len(some):
            continue
        logits, wanted = model(some).flatten(0, 1), some_labels.flatten()
        loss = F.nll_loss(F.log_softmax(logits, -1), wanted, reduction="none", ignore_index=-100).sum() / count
        del logits
        loss.backward()
        losses.append(loss.detach())
        del loss
    optimizer.step()
    return torch.stack(losses).sum()


def scaled_at_the_end(model, optimizer, tokens, labels, parts):
    """The gradients of the sum, divided once."""
    _check(tokens, parts)
    optimizer.zero_grad()
    total = 0
    size = -(-len(tokens) // parts)
    for start in range(0, len(tokens), size):
        loss = F.cross_entropy(model(tokens[start:start + size]).transpose(1, 2), labels[start:start + size], reduction="sum")
        loss.backward()
        total = total + loss.detach()
    count = labels.ne(-100).sum()
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None:
                param.grad /= count
    optimizer.step()
    return total / count


def by_backward_of_a_weight(model, optimizer, tokens, labels, parts):
    """``backward`` is given the factor; the rows are dealt out like cards."""
    _check(tokens, parts)
    optimizer.zero_grad(set_to_none=False)
    share = 1 / (labels != -100).sum()
    total = torch.zeros((), device=tokens.device)
    for first in range(min(parts, len(tokens))):
        loss = F.cross_entropy(model(tokens[first::parts]).flatten(0, 1), labels[first::parts].flatten(), reduction="sum")
        loss.backward(share)
        total.add_(loss.detach() * share)
    optimizer.step()
    return total


def accumulating(scale, step_each=False, zero_each=False, size_of=lambda tokens, parts: -(-len(tokens) // parts)):
    """``scale(sum of a part's losses, part's labels, all labels, parts)``."""
    def accumulate(model, optimizer, tokens, labels, parts):
        _check(tokens, parts)
        optimizer.zero_grad()
        total = 0
        size = max(1, size_of(tokens, parts))
        for start in range(0, len(tokens), size):
            some = labels[start:start + size]
            if zero_each:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens[start:start + size]).flatten(0, 1), some.flatten(), reduction="sum")
            loss = scale(loss, some, labels, parts)
            loss.backward()
            if step_each:
                optimizer.step()
            total += loss.detach()
        if not step_each:
            optimizer.step()
        return total

    return accumulate


def _right(loss, some, labels, parts):
    return loss / (labels != -100).sum()


def _mean_of_means(loss, some, labels, parts):
    return loss / (some != -100).sum() / parts


def _means(loss, some, labels, parts):
    return loss / (some != -100).sum()


def one_backward(model, optimizer, tokens, labels, parts):
    """All graphs are there at once."""
    _check(tokens, parts)
    optimizer.zero_grad()
    count = (labels != -100).sum()
    losses = [F.cross_entropy(model(some).flatten(0, 1), wanted.flatten(), reduction="sum") / count
              for some, wanted in zip(tokens.chunk(parts), labels.chunk(parts))]
    torch.stack(losses).sum().backward()
    optimizer.step()
    return torch.stack(losses).sum().detach()


def waiting(model, optimizer, tokens, labels, parts):
    """Right, and reads a number in each part."""
    _check(tokens, parts)
    optimizer.zero_grad()
    total = 0.0
    for some, wanted in zip(tokens.chunk(parts), labels.chunk(parts)):
        loss = F.cross_entropy(model(some).flatten(0, 1), wanted.flatten(), reduction="sum") / (labels != -100).sum()
        loss.backward()
        total += loss.item()
    optimizer.step()
    return torch.tensor(total, device=tokens.device)


def nothing_returned(model, optimizer, tokens, labels, parts):
    _check(tokens, parts)
    accumulating(_right)(model, optimizer, tokens, labels, parts)


def unchecked(model, optimizer, tokens, labels, parts):
    optimizer.zero_grad()
    count = (labels != -100).sum()
    total = torch.zeros((), device=tokens.device)
    for some, wanted in zip(tokens.chunk(parts), labels.chunk(parts)):
        loss = F.cross_entropy(model(some).flatten(0, 1), wanted.flatten(), reduction="sum") / count
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total


def cut_by(cut):
    def accumulate(model, optimizer, tokens, labels, parts):
        _check(tokens, parts)
        optimizer.zero_grad()
        count, total = (labels != -100).sum(), torch.zeros((), device=tokens.device)
        for some, wanted in zip(cut(tokens, parts), cut(labels, parts)):
            loss = F.cross_entropy(model(some).flatten(0, 1), wanted.flatten(), reduction="sum") / count
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return accumulate


def rest_in_the_last(tensor, parts):
    parts = min(parts, len(tensor))
    size = len(tensor) // parts
    return [tensor[place * size:None if place == parts - 1 else (place + 1) * size] for place in range(parts)]


def left_in_evaluation(model, optimizer, tokens, labels, parts):
    model.eval()
    return accumulating(_right)(model, optimizer, tokens, labels, parts)


# -- optimizer_in_backward ---------------------------------------------------------------------------


def _trainable(model):
    params = [param for param in model.parameters() if param.requires_grad]
    if not params:
        raise ValueError("nothing to train")
    return params


def plain_loop(params, make_optimizer, max_norm=None):
    optimizer = make_optimizer(params)

    def train(loss):
        optimizer.zero_grad()
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
        optimizer.zero_grad()

    return train, [optimizer]


def limited_where_true(model, make_optimizer, max_norm=None):
    return one_optimizer(model, make_optimizer, max_norm or None)


def one_optimizer(model, make_optimizer, max_norm=None, hooked=slice(None)):
    """It leaves parameters without a gradient alone, and in the hook only one has one."""
    params = _trainable(model)
    if max_norm is not None:
        return plain_loop(params, make_optimizer, max_norm)
    optimizer = make_optimizer(params)

    def step(_):
        optimizer.step()
        optimizer.zero_grad()

    for param in params[hooked]:
        param.register_post_accumulate_grad_hook(step)
    return (lambda loss: loss.backward()), [optimizer]


def by_module(model, make_optimizer, max_norm=None):
    """An optimizer for the parameters of each module, which takes a step when the last of them is ready."""
    params = _trainable(model)
    if max_norm is not None:
        return plain_loop(params, make_optimizer, max_norm)
    optimizers, taken = [], set()
    for module in model.modules():
        own = [param for param in module.parameters(recurse=False) if param.requires_grad and param not in taken]
        taken.update(own)
        for param in own:
            optimizer = make_optimizer([param])
            optimizers.append(optimizer)

            def step(param, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

            param.register_post_accumulate_grad_hook(step)

    def train(loss):
        loss.backward()

    return train, optimizers


def norm_first(model, make_optimizer, max_norm=None):
    """With a limit two backward passes: one for the norm, whose gradients are freed as well, one for the steps."""
    params = _trainable(model)
    optimizers = {param: make_optimizer([param]) for param in params}
    squares, state = [], {"first": False, "factor": None}

    def ready(param):
        if state["first"]:
            squares.append(param.grad.square().sum())
        else:
            if state["factor"] is not None:
                param.grad.mul_(state["factor"])
            optimizers[param].step()
        param.grad = None

    for param in params:
        param.register_post_accumulate_grad_hook(ready)

    def train(loss):
        if max_norm is not None:
            squares.clear()
            state["first"] = True
            loss.backward(retain_graph=True)
            state["first"] = False
            state["factor"] = (max_norm / (torch.stack(squares).sum().sqrt() + 1e-6)).clamp(max=1.0)
        loss.backward()

    return train, list(optimizers.values())


def in_backward(change):
    """Right, but for what ``change(param, optimizer, make_optimizer, max_norm)`` does in the hook."""
    def optimizer_in_backward(model, make_optimizer, max_norm=None):
        optimizers = {param: make_optimizer([param]) for param in _trainable(model)}
        for param, optimizer in optimizers.items():
            param.register_post_accumulate_grad_hook(
                lambda param, optimizer=optimizer: change(param, optimizer, make_optimizer, max_norm))
        return (lambda loss: loss.backward()), list(optimizers.values())

    return optimizer_in_backward


def _own_norm(param, optimizer, make_optimizer, max_norm):
    if max_norm is not None:
        nn.utils.clip_grad_norm_(param, max_norm)
    optimizer.step()
    param.grad = None


def _no_limit(param, optimizer, make_optimizer, max_norm):
    optimizer.step()
    optimizer.zero_grad()


def _new_each_time(param, optimizer, make_optimizer, max_norm):
    make_optimizer([param]).step()
    param.grad = None


def _cleared_first(param, optimizer, make_optimizer, max_norm):
    optimizer.zero_grad()
    optimizer.step()


def all_parameters(model, make_optimizer, max_norm=None):
    """Hooks on frozen parameters too."""
    optimizers = {param: make_optimizer([param]) for param in model.parameters()}
    for param, optimizer in optimizers.items():
        param.register_post_accumulate_grad_hook(lambda param, optimizer=optimizer: _no_limit(param, optimizer, None, None))
    return (lambda loss: loss.backward()), list(optimizers.values())


def only_train(model, make_optimizer, max_norm=None):
    return plain_loop(_trainable(model), make_optimizer, max_norm)[0]


def no_list(model, make_optimizer, max_norm=None):
    return one_optimizer(model, make_optimizer, max_norm)[0], []


def hook_before_accumulation(model, make_optimizer, max_norm=None):
    """Right, and the gradients stay: what the hook returns to is added to `param.grad` once more."""
    params = _trainable(model)
    if max_norm is not None:
        return plain_loop(params, make_optimizer, max_norm)
    optimizers = {param: make_optimizer([param]) for param in params}

    def step(param, grad):
        param.grad = grad
        optimizers[param].step()
        param.grad = None

    for param in params:
        param.register_hook(lambda grad, param=param: step(param, grad))
    return (lambda loss: loss.backward()), list(optimizers.values())


def half_of_the_layers(model, make_optimizer, max_norm=None):
    """Every fourth parameter takes its step in the backward pass, the others after it."""
    params = _trainable(model)
    if max_norm is not None:
        return plain_loop(params, make_optimizer, max_norm)
    train, rest = plain_loop([param for place, param in enumerate(params) if place % 4], make_optimizer)
    optimizers = {param: make_optimizer([param]) for param in params[::4]}
    for param, optimizer in optimizers.items():
        param.register_post_accumulate_grad_hook(lambda param, optimizer=optimizer: _no_limit(param, optimizer, None, None))
    return train, [*rest, *optimizers.values()]


def by_blocks(size, patient):
    """An optimizer for so many parameters, which takes its step when the first of them is ready, or where ``patient`` when all
    have been."""
    def optimizer_in_backward(model, make_optimizer, max_norm=None):
        params = _trainable(model)
        if max_norm is not None:
            return plain_loop(params, make_optimizer, max_norm)
        optimizers = []
        for block in (params[start:start + size] for start in range(0, len(params), size)):
            optimizer, waiting = make_optimizer(block), set(block)
            optimizers.append(optimizer)

            def ready(param, optimizer=optimizer, block=block, waiting=waiting):
                waiting.discard(param)
                if not (waiting if patient else block[0] in waiting):
                    optimizer.step()
                    optimizer.zero_grad()
                    waiting.update(block)

            for param in block:
                param.register_post_accumulate_grad_hook(ready)
        return (lambda loss: loss.backward()), optimizers

    return optimizer_in_backward


_of_all_calls: list[torch.optim.Optimizer] = []


def a_list_for_all_calls(model, make_optimizer, max_norm=None):
    train, optimizers = one_optimizer(model, make_optimizer, max_norm)
    _of_all_calls.extend(optimizers)
    return train, _of_all_calls


def hides_errors(model, make_optimizer, max_norm=None):
    train, optimizers = one_optimizer(model, make_optimizer, max_norm)

    def quiet(loss):
        with suppress(RuntimeError):
            train(loss)

    return quiet, optimizers


def with_dimensions(model, make_optimizer, max_norm=None):
    """Parameters of a single number are left out."""
    params = [param for param in _trainable(model) if param.dim()]
    if max_norm is not None:
        return plain_loop(params, make_optimizer, max_norm)
    optimizers = {param: make_optimizer([param]) for param in params}
    for param, optimizer in optimizers.items():
        param.register_post_accumulate_grad_hook(lambda param, optimizer=optimizer: _no_limit(param, optimizer, None, None))
    return (lambda loss: loss.backward()), list(optimizers.values())


def all_but_the_last(model, make_optimizer, max_norm=None):
    return one_optimizer(model, make_optimizer, max_norm, hooked=slice(-1))


SAVINGS_ROUTES = {
    "checkpointed": [with_context(statistics_put_back), with_context(no_news), knows_which_run, selective, own_function],
    "accumulate": [by_weighted_means, scaled_at_the_end, by_backward_of_a_weight, accumulating(_right)],
    "optimizer_in_backward": [one_optimizer, by_module, norm_first],
}

_SAME = "The function that you were given has them right too"

SAVINGS_WRONG = [
    ("checkpointed", plain_checkpoint, "runs twice"),
    ("checkpointed", reentrant, "use_reentrant=False"),
    ("checkpointed", whole_network, "runs twice"),
    ("checkpointed", in_evaluation_again, "in the same mode"),
    ("checkpointed", without_statistics_again, "Give it copies"),
    ("checkpointed", without_checking_random_numbers, "draws another dropout mask"),
    ("checkpointed", only_the_convolutions, _SAME),
    ("checkpointed", in_place, "another activation"),
    ("checkpointed", half_precision, "the gradients are not"),
    ("checkpointed", detached_where_frozen, "No gradient passes a frozen block"),
    ("checkpointed", detached_images, "Images can require a gradient too"),
    ("checkpointed", lambda model: model, "not the function `forward(images)`"),
    ("checkpointed", lambda model: None, "not the function `forward(images)`"),
    ("accumulate", accumulating(_means), "too large by the number of parts"),
    ("accumulate", accumulating(_mean_of_means), "a mean of the parts' means"),
    ("accumulate", accumulating(lambda loss, some, labels, parts: loss / labels.numel()), "all labels"),
    ("accumulate", accumulating(lambda loss, some, labels, parts: loss / labels.numel() / parts), "answer is wrong"),
    ("accumulate", accumulating(lambda loss, some, labels, parts: loss), "do not divide"),
    ("accumulate", accumulating(_right, step_each=True), "took its own step"),
    ("accumulate", accumulating(_right, step_each=True, zero_each=True), "took its own step"),
    ("accumulate", accumulating(_right, zero_each=True), "only the last part's are left"),
    ("accumulate", nothing_returned, "is there a `return`?"),
    ("accumulate", cut_by(lambda tensor, parts: tensor.chunk(parts, 1)), "Cut along N"),
    ("accumulate", cut_by(torch.tensor_split), "Some parts are empty"),
    ("accumulate", cut_by(torch.split), "takes the *size* of a part"),
    ("accumulate", cut_by(lambda tensor, parts: tensor.split(1)), "Each sequence is its own part"),
    ("accumulate", cut_by(lambda tensor, parts: tensor.split(max(1, len(tensor) // parts))), "makes more parts than `parts`"),
    ("accumulate", cut_by(rest_in_the_last), "The last part has all the sequences that are left"),
    ("accumulate", left_in_evaluation, "still in evaluation mode"),
    ("optimizer_in_backward", limited_where_true, "A limit of 0 is a limit"),
    ("accumulate", unchecked, "should be 'ValueError'"),
    ("optimizer_in_backward", in_backward(_own_norm), "by its own norm"),
    ("optimizer_in_backward", in_backward(_no_limit), "You ignore `max_norm`"),
    ("optimizer_in_backward", in_backward(_new_each_time), "create an optimizer for each step"),
    ("optimizer_in_backward", in_backward(_cleared_first), "No parameter changes"),
    ("optimizer_in_backward", all_parameters, "doesn't require gradient"),
    ("optimizer_in_backward", by_blocks(4, patient=True), "No step was taken for `norm.bias`"),
    ("optimizer_in_backward", by_blocks(4, patient=False), "not in a later call"),
    ("optimizer_in_backward", all_but_the_last, "not in a later call"),
    ("optimizer_in_backward", a_list_for_all_calls, "Create the list inside the function"),
    ("optimizer_in_backward", hides_errors, "must reach the caller"),
    ("optimizer_in_backward", with_dimensions, "which is a single number"),
    ("optimizer_in_backward", only_train, "return `(train, optimizers)`"),
    ("optimizer_in_backward", no_list, "returned list lacks"),
    ("optimizer_in_backward", hook_before_accumulation, _SAME),
    ("optimizer_in_backward", lambda model, make_optimizer, max_norm=None: plain_loop(
        _trainable(model), make_optimizer, max_norm), _SAME),
]
