"""Lesson 04: the inputs on which answers are compared, small and middling, and those at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.stage import Given
from ...course.variants import CONTIGUOUS, DTYPES, covering, varied
from ..profiler_tour.disturbances import TRAPS, together
from . import loader_traces
from .loader_traces import SEVERAL, loading_trace, program_trace
from .stage import TENSOR
from .workload import BATCH, CHANNELS, SIDE

# -- traces -------------------------------------------------------------------------------------------

HIDDEN, LAUNCH_BOUND, WAIT_BOUND = "the GPU has work for longer than the loader takes", "bound by launches", "bound by waits"
NESTED, ELSEWHERE, MIRRORED = "a loader inside a loader", "another thread has a loader of its own", "blocks on the GPU's row"
CUT, NO_STEPS, OLDER = "blocks cut off by the first and the last step", "no steps are marked", "from an older profiler"
NO_BLOCKS, NO_WORK, REAL = "no loader at all", "nothing on the GPU", "a real step on CUDA, with loader blocks put in"
SLOW, BESIDE = "a slow loader", "a copy on another stream during the block"
PARTLY = "the GPU is done in the middle of a block"
CARDS = ("t4", "v100", "a10g", "a100", "h100", "h200")


def _trace_case(name: str, events: list[dict]) -> Case:
    return Case(name, {}, {"events": events})


def input_bound_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def pick() -> str:
        return str(rng.choice(CARDS))

    made = {
        SLOW: loading_trace(rng),
        PARTLY: loading_trace(rng, queue=rng.uniform(2.5, 4), kernels=8),
        HIDDEN: loading_trace(rng, queue=25.0, kernels=8, steps=4),
        LAUNCH_BOUND: loading_trace(rng, load=(2, 5), queue=0.2, kernels=20),
        WAIT_BOUND: loading_trace(rng, load=(5, 12), queue=6.0, waits=True),
        "several workers, two streams": loading_trace(rng, queue=4.0, streams=2, name=SEVERAL, steps=4),
        BESIDE: loading_trace(rng, beside=True, streams=2),
        NESTED: loading_trace(rng, nested=True),
        ELSEWHERE: loading_trace(rng, elsewhere=True, queue=2.0),
        MIRRORED: loading_trace(rng, mirrored=True, queue=2.0),
        CUT: loader_traces.cut_off(rng, loading_trace(rng, queue=2.0)),
        NO_STEPS: loader_traces.without_steps(loading_trace(rng, queue=3.0)),
        NO_BLOCKS: loader_traces.without_blocks(loading_trace(rng)),
        NO_WORK: loader_traces.without_work(loading_trace(rng)),
        OLDER: loader_traces.of_an_older_profiler(loading_trace(rng, queue=2.0)),
        "one step": loading_trace(rng, steps=1),
        f"on the clocks of a {pick()}: a slow loader": program_trace(rng, pick(), load=rng.uniform(2, 4), batch=64),
        "on modelled clocks: the host is far ahead": program_trace(rng, pick(), load=0.3, batch=60_000),
        "on modelled clocks: a wait before each batch": program_trace(rng, pick(), load=0.5, batch=40_000, waits=True,
                                                                     name=SEVERAL),
        "on modelled clocks: many small kernels": program_trace(rng, pick(), load=0.02, batch=8),
    }
    for trap in (*TRAPS, together(TRAPS)):
        events = loading_trace(rng, queue=rng.uniform(1.5, 4), streams=int(rng.integers(1, 3)), waits=rng.random() < 0.3)
        events = trap.add(rng, events)
        name = trap.name if trap.name.startswith("all of") else f"a trace with {trap.name}"
        made[name] = [events[i] for i in rng.permutation(len(events))]
    made[REAL] = loader_traces.real_with_blocks(rng)
    return [_trace_case(name, events) for name, events in made.items()]


# -- batches ------------------------------------------------------------------------------------------

_SHAPES = ((3, 2, 5, 5), (4,), (2, 3), (), (0, 3), (1,))
_DTYPES = ("uint8", "float32", "int64", "float16", "bool", "float64")
_AS_IT_IS = ("a file's name", 7, None, 0.25, True)
# Name → form, as `build` in the stage reads it.
FORMS = {
    "a tensor": TENSOR,
    "a tuple of images and labels": ["tuple", TENSOR, TENSOR],
    "a list": ["list", TENSOR, TENSOR],
    "a dict": ["dict", ["image", TENSOR], ["label", TENSOR]],
    "a named tuple": ["Sample", TENSOR, TENSOR],
    "an OrderedDict": ["OrderedDict", ["label", TENSOR], ["image", TENSOR]],
    "a dict of lists of tuples": ["dict", ["views", ["list", ["tuple", TENSOR, TENSOR], ["tuple", TENSOR]]],
                                  ["label", TENSOR]],
    "a named tuple in a list": ["list", ["Sample", TENSOR, ["list", TENSOR, TENSOR]], TENSOR],
    "what is no tensor, among tensors": ["dict", ["image", TENSOR], ["path", ["as it is", "a file's name"]],
                                         ["weight", ["as it is", 0.25]], ["extra", ["as it is", None]]],
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
    return cases


_STEP_FORM = FORMS["a dict of lists of tuples"]
_ROW = 2  # batches a call


def _batch_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape, labels = (int(rng.integers(14, 19)), 3, 6, 6), (int(rng.integers(14, 19)),)
    kinds = [(shape, "uint8"), (shape, "uint8"), (shape, "float32"), (labels, "int64")]
    return [Case("batches", {"tensors": [_array(rng, *kind) for _ in range(_ROW) for kind in kinds]},
                 {"forms": [_STEP_FORM] * _ROW}, on_host={"tensors": "pageable"}) for _ in range(count)]


def full_batches(device: torch.device) -> Callable[[], Given]:
    image, label = (BATCH, CHANNELS, SIDE, SIDE), (BATCH,)
    tensors = [torch.zeros(shape, dtype=dtype) for _ in range(_ROW)
               for shape, dtype in (*[(image, torch.uint8)] * 2, (image, torch.float32), (label, torch.int64))]
    return lambda: Given({"tensors": tensors}, {"forms": [_STEP_FORM] * _ROW})


BATCH_TRIAL = Trial(_batch_trial, slowdown=BATCH / 16 * SIDE**2 / 6**2)

# -- images -------------------------------------------------------------------------------------------

# B×C×H×W. Where a side is as long as there are channels, a mean in the wrong dimension is no error.
_IMAGES = ((2, 3, 5, 7), (2, 3, 4, 3), (4, 1, 6, 6), (3, 4, 3, 4), (1, 3, 1, 1), (3, 3, 3, 3), (0, 3, 5, 5))
_VALUES = ("any bytes", "black", "white", "dark")


def _images(rng: np.random.Generator, shape: tuple[int, ...], values: str = "any bytes") -> np.ndarray:
    low, high = {"any bytes": (0, 256), "black": (0, 1), "white": (255, 256), "dark": (0, 20)}[values]
    return rng.integers(low, high, size=shape).astype(np.uint8)


def _image_case(rng: np.random.Generator, name: str, images: np.ndarray) -> Case:
    channels = images.shape[1]
    return Case(name, {"images": images, "mean": rng.uniform(0.2, 0.7, size=channels).astype(np.float32),
                       "std": rng.uniform(0.1, 0.4, size=channels).astype(np.float32)}, on_host={"images": "pinned"})


def image_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [varied(_image_case(rng, f"{'×'.join(map(str, pick['shape']))}, {pick['values']}",
                               _images(rng, pick["shape"], pick["values"])), pick["dtype"], pick["layout"])
            for pick in covering(rng, shape=_IMAGES, values=_VALUES, dtype=DTYPES,
                                 layout=(CONTIGUOUS, "channels_last", "transposed", "strided"))]


def _image_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(28, 36)), CHANNELS, int(rng.integers(28, 36)), int(rng.integers(28, 36))
    return [_image_case(rng, "images", _images(rng, shape)) for _ in range(count)]


def full_images(device: torch.device) -> Callable[[], Given]:
    images = torch.zeros(BATCH, CHANNELS, SIDE, SIDE, dtype=torch.uint8).pin_memory()
    mean, std = torch.full((CHANNELS,), 0.5, device=device), torch.full((CHANNELS,), 0.25, device=device)
    return lambda: Given({"images": images, "mean": mean, "std": std})


IMAGE_TRIAL = Trial(_image_trial, slowdown=BATCH / 32 * SIDE**2 / 32**2)


