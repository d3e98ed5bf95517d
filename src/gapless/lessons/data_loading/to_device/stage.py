"""Lesson 04: how ``to_device`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from functools import partial

import numpy as np
import torch

from ....course.plain import Unusable, same_objects

Sample = namedtuple("Sample", "image label")
TENSOR = "tensor"  # in a form: the next of the case's tensors


def build(form, tensors, device: torch.device):
    """A batch in its ``form``, plain JSON: ``"tensor"`` is the next of the iterator ``tensors``, ``["list", …]``,
    ``["tuple", …]``, ``["Sample", …]``, ``["dict", [key, value], …]``, ``["OrderedDict", …]`` and ``["defaultdict", …]``
    (of lists) hold parts, ``["as it is", value]`` is a value, ``["array", size]`` an array, ``["there", size]`` a tensor
    that is on the device already."""
    if form == TENSOR:
        return next(tensors)
    kind, *parts = form
    if kind == "as it is":
        return parts[0]
    if kind == "array":
        return np.arange(parts[0])
    if kind == "there":
        return torch.arange(parts[0], device=device)
    dicts = {"dict": dict, "OrderedDict": OrderedDict, "defaultdict": partial(defaultdict, list)}
    if kind in dicts:
        return dicts[kind]((key, build(part, tensors, device)) for key, part in parts)
    built = [build(part, tensors, device) for part in parts]
    return Sample(*built) if kind == "Sample" else {"list": list, "tuple": tuple}[kind](built)


def described(batch, tensors: list, device: torch.device, where: str = "the batch") -> str:
    """The batch's structure in words; its tensors are added to ``tensors``. Raises Unusable where one is elsewhere."""
    if isinstance(batch, torch.Tensor):
        if batch.device.type != device.type:
            raise Unusable(f"{where} is a tensor on the {batch.device.type} still: each tensor goes to the device, however "
                           "deep it lies in lists, tuples and dicts.")
        tensors.append(batch)
        return f"{str(batch.dtype).removeprefix('torch.')} {'×'.join(map(str, batch.shape)) or 'scalar'}"
    if isinstance(batch, dict):
        parts = [f"{key!r}: {described(value, tensors, device, f'{where}[{key!r}]')}" for key, value in batch.items()]
        if isinstance(batch, defaultdict):
            parts.append(f"else {getattr(batch.default_factory, '__name__', batch.default_factory)}()")
    elif isinstance(batch, (list, tuple)):
        parts = [described(value, tensors, device, f"{where}[{place}]") for place, value in enumerate(batch)]
    else:
        text = repr(batch)
        return text if len(text) <= 60 and " at 0x" not in text else f"a {type(batch).__name__}"
    return f"{type(batch).__name__}({', '.join(parts)})"


def parts_of(batch) -> list:
    """What a batch holds, in order, containers too."""
    inner = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return [batch, *(each for part in inner for each in parts_of(part))]


def ask_to_device(function, given, device):
    """Batches one after another, none of them waited for; then each is read on the device, as a step would."""
    tensors, forms = iter(given.inputs["tensors"]), given.options["forms"]
    batches = [build(form, tensors, device) for form in forms]
    before = parts_of(batches)
    yield
    found: list[torch.Tensor] = []
    try:
        texts = [described(function(batch, device), found, device) for batch in batches]
    except RecursionError:
        text = " A text's parts are texts again: go only into lists, tuples and dicts." if any(
            isinstance(part, str) for part in parts_of(batches)) else ""
        raise Unusable(f"it calls itself without end.{text}") from None
    read = [tensor.clone() for tensor in found]
    yield
    same_objects("batch", parts_of(batches), before)
    return {"batches": texts, "tensors": read}
