"""Lesson 07: the usual wrong versions of ``head_loss``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


def _head(x, residual, gate, weight, projection, target, *, value=0.5, eps=1e-6, norm=None, after=lambda h: h, **options):
    h = torch.addcmul(residual, gate, x, value=value)
    h = F.rms_norm(h, h.shape[-1:], weight, eps) if norm is None else norm(h, weight)
    return F.cross_entropy(after(h @ projection.T), target, **options)


def _layer_norm(h, weight):
    return F.layer_norm(h, h.shape[-1:], weight, eps=1e-6)


def _counted_all(*args, **inputs):
    return _head(*args, **inputs, reduction="sum") / len(args[-1] if args else inputs["target"])


HEAD_LOSS = (
    Mistake(lambda *args, **inputs: _head(*args, **inputs, value=1.0), "The factor 0.5 of gate · x is missing: "
                                                                       "`value=0.5`."),
    Mistake(lambda x, residual, gate, weight, projection, target: _head(gate, x, residual, weight, projection, target), (
        "`torch.addcmul(a, b, c)` is a + b · c: the residual comes first.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=_layer_norm), (
        "A layer norm subtracts the mean first; this norm only divides: `F.rms_norm`.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=lambda h, weight: F.normalize(h, dim=-1) * weight), (
        "`F.normalize` divides by the root of the *sum* of squares; here it is that of their mean.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=lambda h, weight: F.rms_norm(h, h.shape[-1:], None, 1e-6)), (
        "The norm's `weight` is missing.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, eps=None), (
        "`F.rms_norm` takes another eps unless told otherwise: here it is 1e-6, which shows where a row is near zero.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, eps=1e-5), "Here eps is 1e-6: it shows where a row is near "
                                                                      "zero."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, after=lambda logits: torch.softmax(logits, -1)), (
        "`F.cross_entropy` takes logits: it has the softmax in it.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, reduction="sum"), "The mean is wanted, not the sum."),
    Mistake(_counted_all, "The mean is over the targets that count: those of -100 are no rows of it."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, label_smoothing=0.1), "No label smoothing is asked for."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs).detach(), "No gradient comes back: was something detached?"),
)
