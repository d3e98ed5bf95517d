"""Lesson 07: the usual wrong versions of ``attention``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


def _attend(q, k, v, mask, scale=None, **options):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, **options)


ATTENTION = (
    Mistake(lambda q, k, v, mask: _attend(q, k, v, ~mask), (
        "The mask is the wrong way round: True means that a key takes part, here and in `attn_mask`.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, None), "The mask is not used: every query looks at every key."),
    Mistake(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True), (
        "`is_causal=True` is one mask of many: pass the one that was given.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask.to(q.dtype)), (
        "A mask that is not of bool is *added* to the scores: zeros and ones shift them, and forbid nothing. Leave it "
        "bool.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask, scale=1.0), "The scores are to be divided by √D."),
    Mistake(lambda q, k, v, mask: _attend(q / q.shape[-1] ** 0.5, k, v, mask), (
        "The scores are divided by √D twice: `F.scaled_dot_product_attention` does it by itself.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask.transpose(-2, -1)), (
        "The mask was turned: its rows are queries, its columns keys.")),
    Mistake(lambda q, k, v, mask: _attend(k, q, v, mask), "Queries and keys have changed places."),
    Mistake(lambda q, k, v, mask: _attend(q, v, k, mask), "Keys and values have changed places."),
    Mistake(lambda q, k, v, mask: torch.softmax((q @ k.mT / q.shape[-1] ** 0.5) * mask, -1) @ v, (
        "A score of zero is a score like any other. What may not be looked at needs minus infinity before the softmax.")),
    Mistake(lambda q, k, v, mask: (torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) * mask) @ v, (
        "Masked behind the softmax the shares of a row do not add up to 1 any more: mask the scores before it.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask).detach(), "No gradient comes back: was something detached?"),
)
