"""Lesson 04: the usual wrong versions of ``to_device``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.mistakes import Mistake


def _asynchronous(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    on_host = tensor.device.type == "cpu" and device.type != "cpu"
    return (tensor.pin_memory() if on_host else tensor).to(device, non_blocking=True)


def _moved(batch, device, *, tensor: Callable = _asynchronous, dict_: Callable | None = None, named: Callable | None = None,
           sequence: Callable | None = None, other: Callable = lambda value: value):
    """Right as it stands. ``dict_``, ``named`` and ``sequence`` make a dict, a named tuple, a list or tuple of what was
    moved: (the old one, the new parts)."""

    def part(value):
        return _moved(value, device, tensor=tensor, dict_=dict_, named=named, sequence=sequence, other=other)

    if isinstance(batch, torch.Tensor):
        return tensor(batch, device)
    if isinstance(batch, dict):
        return (dict_ or (lambda old, new: type(old)(new)))(batch, {key: part(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return (named or (lambda old, new: type(old)(*new)))(batch, [part(value) for value in batch])
    if isinstance(batch, (list, tuple)):
        return (sequence or (lambda old, new: type(old)(new)))(batch, [part(value) for value in batch])
    return other(batch)


def _version(**wrong) -> Callable:
    return lambda batch, device: _moved(batch, device, **wrong)


def _of_values(batch, device):
    return _moved(batch, device, dict_=lambda old, new: list(new.values()))


_TYPE = "comes back as another type: keep it, as code that reads the batch goes by it (`batch.label`, `batch[\"label\"]`)."
_NUMBER = "A number became a tensor: what is no tensor stays as it is. What belongs to each sample the loader joins."
BATCH_MISTAKES = (
    Mistake(lambda batch, device: [_asynchronous(part, device) for part in batch],
            "A tensor was taken apart: going through one gives its rows. Ask first what the batch is, a tensor, a list, a "
            "tuple or a dictionary, and go through the latter three only."),
    Mistake(_version(sequence=lambda old, new: list(new)), f"A tuple {_TYPE}"),
    Mistake(_version(sequence=lambda old, new: tuple(new)), f"A list {_TYPE}"),
    Mistake(_version(named=lambda old, new: tuple(new)), f"A named tuple {_TYPE} It takes its parts one by one: "
                                                         "`type(batch)(*parts)`."),
    Mistake(_version(named=lambda old, new: list(new), sequence=lambda old, new: list(new)), f"A tuple {_TYPE}"),
    Mistake(_version(named=lambda old, new: dict(zip(old._fields, new))), f"A named tuple {_TYPE}"),
    Mistake(_version(dict_=lambda old, new: new), f"An OrderedDict {_TYPE}"),
    Mistake(_of_values, "A dict comes back without its keys."),
    Mistake(_version(dict_=lambda old, new: {str(key): value for key, value in new.items()}),
            "The keys of a dict became text: keep them as they are."),
    Mistake(_version(dict_=lambda old, new: type(old)(sorted(new.items(), key=lambda pair: str(pair[0])))),
            "A dict keeps the order of its keys: here they come back sorted."),
    Mistake(_version(dict_=lambda old, new: type(old)((k, v) for k, v in new.items() if isinstance(v, torch.Tensor))),
            "What is no tensor has gone: names, numbers and None belong to the batch, and so do containers."),
    Mistake(_version(dict_=lambda old, new: type(old)((k, v) for k, v in new.items()
                                                       if isinstance(v, torch.Tensor) or v)),
            "What counts as false (an empty list, None, a zero) has gone from a dict: keep it."),
    Mistake(_version(other=lambda value: None), "What is no tensor became None: leave it as it is."),
    Mistake(_version(other=str), "What is no tensor became text: leave it as it is."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t, d).float()), "Every tensor became float32: a copy changes "
                                                                       "no dtype."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t, d).float() if t.is_floating_point() else _asynchronous(t, d)),
            "float64 and float16 became float32: a copy changes no dtype."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t, d).float() if t.dtype == torch.uint8 else _asynchronous(t, d)),
            "Bytes became float32: a copy changes no dtype. What an image needs is the next exercise's business."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t, d).int() if t.dtype == torch.int64 else _asynchronous(t, d)),
            "int64 became int32: a copy changes no dtype."),
    Mistake(lambda batch, device: _moved(batch, device, other=lambda value: (
        torch.tensor(value, device=device) if isinstance(value, (int, float)) else value)),
            _NUMBER),
    Mistake(lambda batch, device: _moved(batch, device, other=lambda value: (
        torch.tensor(value, device=device) if type(value) in (int, float) else value)),
            _NUMBER),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t, d).t() if t.dim() == 2 else _asynchronous(t, d)),
            "A tensor was transposed: a copy changes no shape."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t.reshape(-1), d)), "A tensor has lost its shape."),
    Mistake(_version(tensor=lambda t, d: _asynchronous(t.unsqueeze(0) if t.dim() == 0 else t, d)),
            "A tensor of no dimensions got one."),
    Mistake(_version(tensor=lambda t, d: torch.zeros_like(t, device=d)), "The memory on the device was made, and nothing "
                                                                         "copied into it."),
)
