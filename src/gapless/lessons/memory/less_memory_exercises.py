"""Lesson 08: the exercises on what makes a training step take less memory."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import batch_cases, checkpoint_cases, checkpoint_explain, functions, right_tied, token_cases
from .accumulate_mistakes import ACCUMULATE_MISTAKES
from .backward_mistakes import BACKWARD_MISTAKES
from .batch_mistakes import BATCH_MISTAKES
from .batch_networks import ask_tied_to_the_batch
from .block_network import ask_checkpointed
from .checkpoint_mistakes import CHECKPOINT_MISTAKES
from .token_networks import ask_accumulate, ask_optimizer_in_backward

LESS_MEMORY = (
    Exercise(
        name="checkpointed",
        slow=functions.checkpointed,
        truth_on_device=True,  # it draws the masks of dropout
        cases=checkpoint_cases.checkpoint_cases,
        ask=ask_checkpointed,
        mistakes=CHECKPOINT_MISTAKES,
        explain=checkpoint_explain.checkpointed,
        full=checkpoint_cases.full_checkpoint,
        trial=checkpoint_cases.CHECKPOINT_TRIAL,
        points={"values": 3, "peak_bytes": 2, "step_time": 2},
        max_peak_ratio=0.7,
        max_time_ratio={"step_time": 1.21},  # all blocks with their convolutions take 1.22 to 1.29, as the card has it
        advice={
            "peak_bytes": "Which layers save large tensors and take little time? What a norm, an activation, dropout and "
                          "resizing need in the backward pass can be computed again from the convolution's output. One "
                          "checkpoint around everything saves nothing: all of it comes back at once.",
            "step_time": "Convolutions are computed a second time, or the same layers more than twice: leave products out "
                         "of what is checkpointed. They take most of the time, and save one tensor each.",
        },
        hints=(
            "For each layer of a block: how many bytes does it keep for the backward pass, and how long would it take to "
            "compute its output once more? For which is the one large and the other small? And which layer does something "
            "else besides, each time that it runs?",
            "`torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)` around norm, GELU, dropout and "
            "resizing of one block at a time, behind its convolution. The norm's statistics then move twice: `context_fn=` "
            "takes a function that returns two contexts, one for the first run and one for the second.",
            "`checkpoint(cheap, block, block.conv(x), use_reentrant=False, context_fn=lambda norm=block.norm: "
            "(nullcontext(), on_copies(norm)))`, where `on_copies` is a `@contextmanager`: it keeps "
            "`dict(norm.named_buffers())`, sets a `clone()` of each by `setattr`, yields, and in `finally` sets the kept "
            "ones back.",
        ),
    ),
    Exercise(
        name="accumulate",
        slow=functions.accumulate,
        cases=token_cases.accumulate_cases,
        ask=ask_accumulate,
        mistakes=ACCUMULATE_MISTAKES,
        full=token_cases.full_accumulate,
        trial=token_cases.ACCUMULATE_TRIAL,
        points={"values": 3, "peak_bytes": 2, "syncs": 1},
        max_peak_ratio=0.4,
        advice={
            "peak_bytes": "Each part's graph has to be gone before the next one is made: `backward` for each part by "
                          "itself, and nothing kept of it but detached tensors.",
            "item": "the loss, or the number of labels, was read for each part. Keep both on the device: a tensor divides "
                    "as well as a number",
        },
        hints=(
            "`backward` adds to `param.grad`. If the gradients of the parts are to add up to the batch's, by what has each "
            "part's loss to be divided? Are all labels of a part counted?",
            "`cross_entropy` divides a sum by the number of labels that are not −100. Take the sum of each part "
            "(`reduction=\"sum\"`), and divide by the number in the *whole* batch, a tensor that nobody has to read. The "
            "optimizer takes its step once.",
            "`count = (labels != -100).sum()`; for `some, some_labels` in `zip(tokens.chunk(parts), labels.chunk(parts))`: "
            "`loss = F.cross_entropy(model(some).flatten(0, 1), some_labels.flatten(), reduction=\"sum\") / count`, "
            "`loss.backward()`, `total += loss.detach()`. Clear the gradients before the loop, step after it.",
        ),
    ),
    Exercise(
        name="tied_to_the_batch",
        slow=functions.tied_to_the_batch,
        right=right_tied.tied_to_the_batch,
        cases=batch_cases.tied_cases,
        ask=ask_tied_to_the_batch,
        mistakes=BATCH_MISTAKES,
        points={"values": 3},
        hints=(
            "If one row of a batch changes, which of the other rows may change with it, and in which module's output?",
            "Take a copy of the network (`copy.deepcopy`), and note with `register_forward_hook` what each module without "
            "children gets. Then call each module twice: with what it got, and with the second half of the rows changed. "
            "Only then look at the first half. How do the two calls draw the same numbers?",
            "In a hook: `inputs[name] = module, args[0].detach()`. Then, for each, `torch.manual_seed(0)` before both "
            "calls, `other[half:] += 1` on a clone, and the name is in the list where `module(x)[:half]` and "
            "`module(other)[:half]` are not `torch.allclose`. Remove the hooks first. `torch.random.fork_rng()` leaves the "
            "random numbers as they were.",
        ),
    ),
    Exercise(
        name="optimizer_in_backward",
        slow=functions.optimizer_in_backward,
        cases=token_cases.backward_cases,
        ask=ask_optimizer_in_backward,
        mistakes=BACKWARD_MISTAKES,
        full=token_cases.full_backward,
        trial=token_cases.BACKWARD_TRIAL,
        points={"values": 3, "peak_bytes": 3},
        max_peak_ratio=0.7,
        advice={
            "peak_bytes": "All gradients are there at the end of the backward pass. Each could be used, and set to None, "
                          "as soon as it is ready.",
        },
        hints=(
            "When is a parameter's gradient ready, and who needs it after the optimizer's step for that parameter?",
            "`param.register_post_accumulate_grad_hook(hook)` calls `hook(param)` when `param.grad` is complete. An "
            "optimizer for each parameter, made once, can take its step there. What is to become of `max_norm`, for which "
            "all gradients are needed?",
            "`optimizers = {param: make_optimizer([param]) for param in params}`; the hook does `optimizers[param].step()` "
            "and `param.grad = None`; `train` calls `loss.backward()` and nothing else. Where `max_norm` is given, keep "
            "the loop as it is.",
        ),
    ),
)
