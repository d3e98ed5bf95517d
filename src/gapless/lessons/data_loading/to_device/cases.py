"""Lesson 04: the inputs of ``to_device``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ....course.variants import CONTIGUOUS, covering
from ..workload import BATCH, CHANNELS, SIDE
from .stage import TENSOR

_SHAPES = ((3, 2, 5, 5), (4,), (2, 3), (), (0, 3), (1,))
_IN_A_ROW = 40
_DTYPES = ("uint8", "float32", "int64", "float16", "bool", "float64")
# Name → form, as `build` in the stage reads it.
FORMS = {
    "a tensor": TENSOR,
    "a tuple of images and labels": ["tuple", TENSOR, TENSOR],
    "a list": ["list", TENSOR, TENSOR],
    "a dict": ["dict", ["image", TENSOR], ["label", TENSOR]],
    "a named tuple": ["Sample", TENSOR, TENSOR],
    "an OrderedDict": ["OrderedDict", ["label", TENSOR], ["image", TENSOR]],
    "a defaultdict": ["defaultdict", ["image", TENSOR], ["label", TENSOR]],
    "a dict of lists of tuples": ["dict", ["views", ["list", ["tuple", TENSOR, TENSOR], ["tuple", TENSOR]]],
                                  ["label", TENSOR]],
    "a dict in a tuple in a list": ["list", ["tuple", ["dict", ["image", ["list", TENSOR]]]]],
    "twelve lists, one in the other": reduce(lambda inner, _: ["list", inner], range(12), TENSOR),
    "a named tuple in a list": ["list", ["Sample", TENSOR, ["list", TENSOR, TENSOR]], TENSOR],
    "what is no tensor, among tensors": ["dict", ["image", TENSOR], ["path", ["as it is", "a file's name"]],
                                         ["weight", ["as it is", 0.25]], ["extra", ["as it is", None]],
                                         ["box", ["array", 4]]],
    "only what is no tensor": ["list", ["as it is", 7], ["as it is", "text"], ["as it is", True]],
    "empty containers": ["dict", ["none", ["list"]], ["nothing", ["tuple"]], ["image", TENSOR], ["empty", ["dict"]]],
    "keys that are numbers": ["dict", [1, TENSOR], [0, TENSOR]],
    "a part that is on the device already": ["tuple", TENSOR, ["there", 5]],
}


def _count(form) -> int:
    """How many tensors a form holds."""
    return 1 if form == TENSOR else sum(_count(part) for part in form) if isinstance(form, list) else 0


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in ("uint8", "int64"):
        return np.asarray(rng.integers(0, 256 if dtype == "uint8" else 1000, size=shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def batch_cases(seed: int) -> list[Case]:
    """Each form with tensors of drawn shapes and dtypes; pinned or not, alone or several batches in a row."""
    rng = np.random.default_rng(seed)
    cases = []
    for pick in covering(rng, form=list(FORMS), memory=("pageable", "pinned"), batches=(1, 3, 2),
                         layout=(CONTIGUOUS, "transposed")):
        form, tensors = FORMS[pick["form"]], []
        # Batches in a row are alike in shape, as those of a loader are. The first case of all is a plain one.
        kinds = [(_SHAPES[rng.integers(len(_SHAPES))], str(rng.choice(_DTYPES))) for _ in range(_count(form))]
        kinds = kinds if cases else [(_SHAPES[0], "float32")]
        for _ in range(pick["batches"]):
            tensors += [_array(rng, shape, dtype) for shape, dtype in kinds]
        words = f"{pick['form']}, {pick['memory']}" + (f", {pick['batches']} in a row" if pick["batches"] > 1 else "")
        layouts = {} if pick["layout"] == CONTIGUOUS else {"tensors": pick["layout"]}
        cases.append(Case(words + (", transposed" if layouts else ""), {"tensors": tensors},
                          {"forms": [form] * pick["batches"]}, layouts=layouts, on_host={"tensors": pick["memory"]}))
    # More than anybody has buffers for, which take turns.
    labels = [_array(rng, (4,), "int64") for _ in range(_IN_A_ROW)]
    return [*cases, Case(f"a tensor, pageable, {_IN_A_ROW} in a row", {"tensors": labels}, {"forms": [TENSOR] * _IN_A_ROW},
                         on_host={"tensors": "pageable"})]


# The batches of a call: the host may wait for every type of container and every dtype. The last three are alike, so that two
# buffers in turn are one too few.
_STEP_FORMS = [
    ["dict", ["views", ["list", ["tuple", TENSOR, TENSOR], ["tuple", TENSOR]]], ["label", TENSOR],
     ["sample", ["Sample", TENSOR, TENSOR]], ["more", ["OrderedDict", ["a", TENSOR]]],
     ["else", ["defaultdict", ["b", TENSOR]]], ["seen", ["there", 5]]],
    TENSOR, TENSOR, TENSOR]
_IMAGES, _LABELS = ("uint8", "uint8", "float32"), ("int64", "float64", "bool", "float16", "int64", *["float32"] * 3)


def _batch_trial(rng: np.random.Generator, count: int) -> list[Case]:
    image, labels = (int(rng.integers(14, 19)), 3, 6, 6), (int(rng.integers(14, 19)),)
    kinds = [*((image, dtype) for dtype in _IMAGES), *((labels, dtype) for dtype in _LABELS)]
    return [Case("batches", {"tensors": [_array(rng, *kind) for kind in kinds]}, {"forms": _STEP_FORMS},
                 layouts={"tensors": "transposed"} if number % 2 else {},
                 on_host={"tensors": ("pageable", "pinned")[number % 2]}) for number in range(count)]


def full_batches(device: torch.device) -> Callable[[], Given]:
    # 70,000 labels of a byte each are few, but more than the driver puts aside.
    image, label = (BATCH, CHANNELS, SIDE, SIDE), (BATCH, 70_000 // BATCH)
    tensors = [torch.zeros(shape, dtype=getattr(torch, dtype))
               for shape, dtypes in ((image, _IMAGES), (label, _LABELS)) for dtype in dtypes]
    tensors[-1] = tensors[-1].pin_memory()
    return lambda: Given({"tensors": tensors}, {"forms": _STEP_FORMS})


BATCH_TRIAL = Trial(_batch_trial, slowdown=BATCH / 16 * SIDE**2 / 6**2)
