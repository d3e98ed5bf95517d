"""Lesson 04: the usual wrong versions of functions that move batches, and what to say of each. Those of ``input_bound`` are
in :mod:`.mistaken_bounds`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.mistakes import Mistake

# -- to_device ----------------------------------------------------------------------------------------


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


# -- prepare ------------------------------------------------------------------------------------------


def _prepared(images, mean, std, *, unit=lambda x: x.float() / 255, normal=lambda x, mean, std: (x - mean) / std,
              place=lambda t: t.view(-1, 1, 1), result=lambda x: x):
    """Right as it stands, in the dtypes of the function as handed out."""
    x = unit(images.to(mean.device, non_blocking=True))
    return result(normal(x, place(mean), place(std)))


def _image(**wrong) -> Callable:
    return lambda images, mean, std: _prepared(images, mean, std, **wrong)


_BYTES = "The bytes run from 0 to 255, and `mean` and `std` are those of values from 0 to 1: "
_TWICE = "The bytes were divided by 255, and `mean` multiplied by it too: one of the two."
IMAGE_MISTAKES = (
    Mistake(_image(unit=lambda x: x.float()), f"{_BYTES}divide by 255 first."),
    Mistake(_image(unit=lambda x: x.float() / 256), f"{_BYTES}the largest byte is 255, so divide by that and not by 256."),
    Mistake(_image(unit=lambda x: x.float() / 128 - 1), f"{_BYTES}divide by 255, without making it −1 … 1."),
    Mistake(_image(unit=lambda x: (x // 255).float()), "The division by 255 was done in bytes: it leaves only 0 and 1. Make "
                                                       "floats first, or divide with `/`."),
    Mistake(_image(unit=lambda x: (x / 255).to(torch.uint8)), "The values were put back into bytes: what is below 1 "
                                                              "is lost."),
    Mistake(_image(unit=lambda x: (x.half() / 255).float()), "It was computed in half precision on the way: bytes over the "
                                                             "bus, and float32 on the device."),
    Mistake(_image(unit=lambda x: (x.bfloat16() / 255).float()), "It was computed in bfloat16 on the way: bytes over the "
                                                                 "bus, and float32 on the device."),
    Mistake(_image(unit=lambda x: x.to(torch.int8).float() / 255), "Bytes from 128 on became negative: int8 holds "
                                                                   "−128 … 127. "
                                                                   "Leave them uint8 until they are floats."),
    Mistake(_image(normal=lambda x, mean, std: x - mean / std), "Brackets: the whole difference is divided by `std`, "
                                                                "`(x - mean) / std`."),
    Mistake(_image(normal=lambda x, mean, std: (x - mean) * std), "It was multiplied by `std`: divide by it."),
    Mistake(_image(normal=lambda x, mean, std: (x + mean) / std), "The mean was added: subtract it."),
    Mistake(_image(normal=lambda x, mean, std: (mean - x) / std), "The sign is wrong: `x - mean`, not `mean - x`."),
    Mistake(_image(normal=lambda x, mean, std: x - mean), "The division by `std` is missing."),
    Mistake(_image(normal=lambda x, mean, std: x / std), "The mean is not subtracted."),
    Mistake(_image(normal=lambda x, mean, std: x), "The mean and `std` are not used."),
    Mistake(_image(normal=lambda x, mean, std: (x - mean) / std**2), "It was divided by the variance: `std` is its root."),
    Mistake(_image(normal=lambda x, mean, std: (x - mean) / (std + 1e-3)), "Something is added to `std`: leave it as "
                                                                           "it is."),
    Mistake(_image(normal=lambda x, mean, std: (x - std) / mean), "`mean` and `std` have changed places."),
    Mistake(_image(normal=lambda x, mean, std: (255 * x - mean) / std), f"{_BYTES}divide before the mean is subtracted."),
    Mistake(_image(place=lambda t: t.mean()), "One mean was used for all channels: each has its own."),
    Mistake(_image(place=lambda t: t[:1].view(-1, 1, 1)), "The first channel's mean was used for all: each has its own."),
    Mistake(_image(place=lambda t: t.flip(0).view(-1, 1, 1)), "The channels' order is turned round (BGR?): the first "
                                                              "mean is "
                                                              "the first channel's."),
    Mistake(_image(normal=lambda x, mean, std: (x - 255 * mean) / std), _TWICE),
    Mistake(_image(normal=lambda x, mean, std: (x - 255 * mean) / (255 * std)), _TWICE),
    Mistake(_image(unit=lambda x: x.float() / 127.5 - 1), f"{_BYTES}divide by 255, without making it −1 … 1."),
    Mistake(_image(normal=lambda x, mean, std: (x - mean) / std.sqrt()), "It was divided by the root of `std`, which is a "
                                                                         "root already."),
    Mistake(lambda images, mean, std: _prepared(
        images.to(mean.device) - (255 * mean).to(torch.uint8).view(-1, 1, 1), mean, std,
        normal=lambda x, mean, std: x / std),
            "The mean was subtracted from bytes, which cannot be negative: 10 − 20 is 246 there. Make floats first."),
    Mistake(_image(result=lambda x: x.round(decimals=2)), "The result was rounded: return it as it is."),
    Mistake(_image(result=lambda x: x.round(decimals=3)), "The result was rounded: return it as it is."),
    Mistake(_image(result=lambda x: x.clamp(-1, 1)), "The result was cut off at −1 and 1."),
    Mistake(lambda images, mean, std: _prepared(images, images.float().mean((0, 2, 3)).to(mean) / 255,
                                                images.float().var((0, 2, 3), correction=0).sqrt().to(std) / 255)
            if images.numel() else images.to(mean) / 255,
            "The batch's own mean and deviation were used: those that were given are the data set's."),
)
