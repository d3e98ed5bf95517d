"""Attention that is written out, in a graph that keeps none of its parts: Inductor makes one fused operator of it.

``torch/_inductor/fx_passes/fuse_attention.py`` looks for two products with a scale, a mask, a softmax and dropout between
them. Here a chain of such operators counts, each read by the next alone; the exact patterns are not compared. The copies of
permuted operands and of the result go too. In float32 only where products may be in TF32, as the fused kernels are
(``_sfdp_params_check``). Graphs that keep the parts for a backward pass stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from .lowering import Call, Form, forms

NAME = "scaled_dot_product_attention"
_COPIES = ("clone", "_to_copy", "copy")
_BETWEEN = ("div", "mul", "add", "masked_fill", *_COPIES)


@dataclass
class Matcher:
    """What is matched. ``float32``: also float32 without TF32; ``where``: also masks by ``where``, as GPT-2's."""

    float32: bool = False
    where: bool = True


_matcher = Matcher()


@contextmanager
def as_in_torch_2_1() -> Iterator[None]:
    """Inside as in the PyTorch of October 2023, which did not ask for TF32 and did not know GPT-2's mask."""
    before = _matcher.float32, _matcher.where
    _matcher.float32, _matcher.where = True, False
    try:
        yield
    finally:
        _matcher.float32, _matcher.where = before


def settings() -> tuple[bool, bool]:
    """What of the rest of the process decides about matches."""
    return _matcher.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32", _matcher.where


def replaced(calls: list[Call], living: set[int]) -> tuple[list[Call | None], set[int]]:
    """The ``calls``, with None for each that is gone, and the places of the calls that are attention now: their arguments
    are query, key, value and mask."""
    readers: dict[int, list[int]] = defaultdict(list)
    writers: dict[int, list[int]] = defaultdict(list)
    for place, call in enumerate(calls):
        for form in forms(call.args):
            readers[form.buffer].append(place)
        for form in call.written:
            writers[form.buffer].append(place)

    def alone(form: Form) -> int | None:
        """The only reader of what was written once."""
        found = readers[form.buffer]
        once = len(found) == 1 and len(writers[form.buffer]) == 1 and form.buffer not in living
        return found[0] if once else None

    found: list[Call | None] = list(calls)
    places = set()
    for place, call in enumerate(calls):
        match = _chain(calls, place, alone) if call.name == "bmm" else None
        if match is None:
            continue
        chain, mask = match
        last = calls[chain[-1]]
        query, key = call.args[:2]
        value = last.args[1]
        written, out = last.written, last.out
        gone = set(chain[:-1])
        operands = []
        for form in (query, key, value):
            source = writers[form.buffer][0] if writers[form.buffer] else None
            if source is not None and calls[source].name in _COPIES and alone(form) is not None:
                gone.add(source)
                form = form._replace(buffer=calls[source].args[0].buffer)
            operands.append(form)
        after = alone(written[0])
        if after is not None and calls[after].name in _COPIES:
            written, out = calls[after].written, calls[after].out
            gone.add(after)
        for each in gone:
            found[each] = None
        found[chain[-1]] = Call(NAME, (*operands, mask), out, written, ("attention",))
        places.add(chain[-1])
    return found, places


def _chain(calls: list[Call], place: int, alone) -> tuple[list[int], Form | None] | None:
    """From the product at ``place`` to the second: the places, and the mask."""
    if calls[place].args[0].dtype == torch.float32 and not settings()[0]:
        return None
    chain, mask, weighed = [place], None, False
    while True:
        here = calls[chain[-1]]
        scores = here.written[0]
        following = alone(scores)
        if following is None:
            return None
        call = calls[following]
        chain.append(following)
        if call.name == "bmm":
            is_left = isinstance(call.args[0], Form) and call.args[0].buffer == scores.buffer
            return (chain, mask) if weighed and is_left else None
        if call.name == "_softmax" and not weighed:
            weighed = True
        elif (call.name == "where" and settings()[1]) or call.name in _BETWEEN:
            others = [form for form in forms(call.args) if form.buffer != scores.buffer and form.numel > 1]
            if call.written[0].numel != scores.numel or len(others) > 1 or (others and weighed):
                return None
            mask = others[0] if others else mask
        else:
            return None
