"""Hugging Face's accelerate and transformers: ``Accelerator``, ``Trainer``, ``pipeline``, ``device_map="auto"``, and mixed
precision in each. Seen in accelerate 1.15 (``state.py``, ``accelerator.py``, ``utils/modeling.py``) and transformers 4.57
(``training_args.py``, ``pipelines/base.py``, ``utils/import_utils.py``)."""

# mypy: disable-error-code="attr-defined"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from ..process.imports import replace
from ..process.state import DEVICE, NAME


def _state(module) -> None:
    """The device of a process: ``ACCELERATE_TORCH_DEVICE`` and ``cpu=True`` still go first."""
    _ = module.PartialState.default_device  # AttributeError where accelerate chooses in another way
    module.PartialState.default_device = property(lambda self: DEVICE, doc="The virtual GPU.")


def _accelerator(module) -> None:
    """float16: the devices that have it are a tuple in the constructor, and the scaler is CUDA's."""
    init = module.Accelerator.__init__
    function = init
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    consts = tuple((*each, NAME) if isinstance(each, tuple) and {"cuda", "npu", "mps"} <= set(each) else each
                   for each in code.co_consts)
    if consts == code.co_consts:
        raise LookupError("no list of the devices with float16")
    function.__code__ = code.replace(co_consts=consts)
    original = module.get_grad_scaler

    @functools.wraps(original)
    def get_grad_scaler(distributed_type=None, **kwargs):
        if getattr(distributed_type, "value", distributed_type) == "FSDP":
            return original(distributed_type, **kwargs)
        return torch.amp.GradScaler(NAME, **kwargs)

    replace(module, "get_grad_scaler", get_grad_scaler)


def _modeling(module) -> None:
    """``device_map="auto"`` puts a model on the one card that there is. Parts in the host's memory are not modelled."""
    original = module.infer_auto_device_map

    @functools.wraps(original)
    def infer_auto_device_map(model, max_memory=None, *args, **kwargs):
        if max_memory is not None and set(max_memory) - {"cpu", "disk"}:
            return original(model, max_memory, *args, **kwargs)
        return {"": DEVICE}

    replace(module, "infer_auto_device_map", infer_auto_device_map)


def _training_args(module) -> None:
    """The Trainer's device."""
    prepared = vars(module.TrainingArguments)["_setup_devices"]
    original = prepared.fget if hasattr(prepared, "fget") else prepared.func

    @functools.wraps(original)
    def setup_devices(self):
        device = original(self)
        state = self.distributed_state
        if self.use_cpu or state is None or state.device.type != NAME:
            return device
        self._n_gpu = 1
        return state.device

    kept = module.TrainingArguments._setup_devices = functools.cached_property(setup_devices)
    kept.__set_name__(module.TrainingArguments, "_setup_devices")


def _import_utils(module) -> None:
    """Whether there is a GPU with bfloat16."""
    original = module.is_torch_bf16_gpu_available

    @functools.wraps(original)
    def is_torch_bf16_gpu_available() -> bool:
        return torch.vgpu.is_bf16_supported()

    replace(module, "is_torch_bf16_gpu_available", is_torch_bf16_gpu_available)


def _pipelines(module) -> None:
    """A pipeline's device: the GPU unless another is named; a number is the GPU's."""
    original = module.Pipeline.__init__

    @functools.wraps(original)
    def init(self, model, *args, device=None, **kwargs):
        if device is None and getattr(model, "hf_device_map", None) is None:
            device = DEVICE
        elif isinstance(device, int) and device >= 0:
            device = torch.device(NAME, device)
        original(self, model, *args, device=device, **kwargs)

    module.Pipeline.__init__ = init


TELLS: dict[str, Callable] = {
    "accelerate.state": _state,
    "accelerate.accelerator": _accelerator,
    "accelerate.utils.modeling": _modeling,
    "transformers.utils.import_utils": _import_utils,
    "transformers.training_args": _training_args,
    "transformers.pipelines.base": _pipelines,
}
