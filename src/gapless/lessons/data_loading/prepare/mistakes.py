"""Lesson 04: the usual wrong versions of ``prepare``, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.mistakes import Mistake


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
