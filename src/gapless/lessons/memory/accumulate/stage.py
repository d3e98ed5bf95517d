"""Lesson 08: how ``accumulate`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.plain import Unusable
from ..stage import CHANGES, LOSSES, REFUSED, STEPS, make_optimizer, network_of, sampled

CUT, ALONG_N = "how the batch is cut", "along N, into at most `parts` parts of about equal size"
MODE = "the network's mode afterwards"


def _cut(passes: list[tuple[int, int]], length: int, parts: int) -> str:
    """How a batch of sequences of this length is cut, by the N×T of each forward pass."""
    if any(tokens < length for _, tokens in passes):
        return "along T: sequences are cut apart"
    if any(not rows for rows, _ in passes):
        return "into parts of which some are empty"
    if len(passes) > max(parts, 1):
        return f"into {len(passes)} parts, where `parts` is {parts}"
    sizes = [rows for rows, _ in passes]
    if len(sizes) > 1:
        largest = -(-sum(sizes) // parts)
        possible = -(-sum(sizes) // largest)  # as many as `chunk` makes
        if len(sizes) < possible:
            return f"into {len(sizes)} parts, where `parts` is {parts} and {possible} are possible"
    # Twice as large as parts of equal size: neither `chunk` nor the version that was handed out makes one.
    if len(sizes) > 1 and max(sizes) >= 2 * -(-sum(sizes) // len(sizes)):
        return f"into unequal parts, of {min(sizes)} to {max(sizes)} sequences"
    return ALONG_N


def ask_accumulate(function, given, device):
    """The losses of some steps, how many steps the optimizer took, how the batches were cut, and what has become of the
    weights and of the network's mode. Where no step can be taken, an error is an answer too."""
    options = given.options
    model = network_of(given, device)
    if options["evaluating"]:
        model.eval()
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    optimizer = make_optimizer(options["optimizer"], [each for each in model.parameters() if each.requires_grad])
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    if options["earlier_gradients"]:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    refused, losses, cuts = None, [], []
    passes: list[tuple[int, int]] = []
    model.register_forward_hook(lambda _, __, logits: passes.append(tuple(logits.shape[:2])))
    yield
    for tokens, labels in zip(given.inputs["tokens"], given.inputs["labels"]):
        passes.clear()
        try:
            losses.append(function(model, optimizer, tokens, labels, options["parts"]))
        except Exception as error:
            if not options["bad"]:
                raise
            refused = type(error).__name__
        cuts.append(_cut(passes, tokens.shape[1], options["parts"]))
    optimizer.zero_grad()  # before the memory is looked at
    yield
    for loss in losses:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise Unusable(f"it returned a {type(loss).__name__}, not the mean loss, a tensor with one element: is there "
                           "a `return`?")
    return {REFUSED: refused, CUT: next((each for each in cuts if each != ALONG_N), ALONG_N), STEPS: len(steps),
            MODE: "training" if all(module.training for module in model.modules()) else "evaluation",
            LOSSES: [loss.detach().flatten() for loss in losses],
            CHANGES: [sampled(parameter) - old for parameter, old in zip(model.parameters(), before)]}
