"""Lesson 05: the inputs of ``lars_step``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given

SHAPES = ((7,), (5, 3), (4, 3, 3, 3), (1,), (11, 2), (6,))
HALVES = ("float32", "float16")


def _parameters(rng: np.random.Generator, name: str, shapes=SHAPES, *, steps: int = 1, dtypes=("float32",),
                size: float = 1.0, zeros=(), zero_grads=(), without=(), layouts=None, **changed) -> Case:
    """Weights, gradients and momenta of these shapes, about as large as ``size``. ``zeros``, ``zero_grads``: places where
    they are all 0; ``layouts``: how the weights, gradients and momenta lie in memory."""
    tensors = {"weights": [rng.normal(size=shape) * rng.uniform(0.3, 3) for shape in shapes],
               "grads": [rng.normal(size=shape) * rng.uniform(0.3, 3) for shape in shapes],
               "momenta": [rng.normal(size=shape) for shape in shapes]}
    for place in zeros:
        tensors["weights"][place][...] = 0
    for place in zero_grads:
        tensors["grads"][place][...] = 0
    inputs = {name: [(size * array).astype(dtypes[place % len(dtypes)]) for place, array in enumerate(arrays)]
              for name, arrays in tensors.items()}
    options = {"steps": steps, "lr": 0.5, "momentum": 0.9, "weight_decay": 0.1, "trust": 0.6,
               "without_gradient": list(without)}
    return Case(name, inputs, options | changed, layouts=layouts or {})


def lars_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    every = range(len(SHAPES))
    return [
        _parameters(rng, "six parameters"),
        _parameters(rng, "one parameter", SHAPES[1:2]),
        _parameters(rng, "two parameters without a gradient", without=(1, 4)),
        _parameters(rng, "weights that are all 0", zeros=(0, 2)),
        _parameters(rng, "gradients that are all 0", zero_grads=(1, 3)),
        _parameters(rng, "weights and gradients that are all 0", zeros=(2, 5), zero_grads=(2, 5), weight_decay=0.0),
        _parameters(rng, "no parameter has a gradient", without=every),
        _parameters(rng, "no weight decay, parameters in channels-last order", weight_decay=0.0,
                    layouts=dict.fromkeys(("weights", "grads", "momenta"), "channels_last")),
        _parameters(rng, "no momentum, transposed gradients", momentum=0.0, layouts={"grads": "transposed"}),
        _parameters(rng, "three steps, transposed parameters", steps=3,
                    layouts=dict.fromkeys(("weights", "momenta"), "transposed")),
        _parameters(rng, "float32 and float16", dtypes=HALVES, size=0.03),  # so small that rounding is below the tolerance
        _large_halves(rng),
        _scaled(rng, "weights a thousand times the gradients", "weights", 1e3),
        _scaled(rng, "gradients of almost 0", "grads", 1e-7),
        _parameters(rng, "odd shapes, one of them without dimensions", ((), (13,), (1, 1, 1), (3, 1, 5), (129,))),
    ]


def _large_halves(rng: np.random.Generator) -> Case:
    """The norm of the weights is more than float16 holds."""
    case = _parameters(rng, "float16, weights whose norm is too large for it", ((6, 3), (9,)), dtypes=("float16",))
    case.inputs["weights"] = [(np.sign(array) * rng.uniform(2e4, 4e4, array.shape)).astype(np.float16)
                              for array in case.inputs["weights"]]
    return case


def _scaled(rng: np.random.Generator, name: str, which: str, factor: float) -> Case:
    case = _parameters(rng, name, weight_decay=0.0)
    case.inputs[which] = [np.asarray(factor * array, dtype=array.dtype) for array in case.inputs[which]]
    return case


def _lars_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shapes = [(int(rng.integers(20, 30)), int(rng.integers(10, 20))) if place % 3 == 0 else (int(rng.integers(20, 30)),)
              for place in range(30)]
    return [_parameters(rng, "thirty parameters", shapes) for _ in range(count)]


# It is the host that sets the pace, here as at full size.
LARS_TRIAL = Trial(_lars_trial)


def resnet18_shapes() -> list[tuple[int, ...]]:
    """The shapes of ResNet-18's 62 parameters (He et al. 2015, table 1; as torchvision has them)."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width in (64, 128, 256, 512):
        for _ in range(2):
            convolutions = [(width, channels, 3, 3), (width, width, 3, 3)]
            if channels != width:
                convolutions.append((width, channels, 1, 1))
            for convolution in convolutions:
                shapes += [convolution, convolution[:1], convolution[:1]]
            channels = width
    return [*shapes, (1000, channels), (1000,)]


def full_lars(device: torch.device) -> Callable[[], Given]:
    """ResNet-18's parameters."""
    inputs = {name: [torch.randn(shape, device=device) for shape in resnet18_shapes()]
              for name in ("weights", "grads", "momenta")}
    options = {"steps": 1, "lr": 0.5, "momentum": 0.9, "weight_decay": 5e-5, "trust": 0.001, "without_gradient": []}
    return lambda: Given(inputs, dict(options))
