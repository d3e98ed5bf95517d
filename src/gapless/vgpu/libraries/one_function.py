"""Libraries in which one function chooses: PyTorch Geometric 2.8, ignite 0.5, fastai 2.8, sentence-transformers 6.2."""

from __future__ import annotations

import functools

from ..process.imports import replace
from ..process.state import DEVICE


def _torch_geometric(module) -> None:
    original = module.device

    @functools.wraps(original)
    def device(device):
        return DEVICE if device == "auto" else original(device)

    replace(module, "device", device)


def _ignite(module) -> None:
    _ = module._SerialModel.device  # AttributeError where ignite chooses in another way
    module._SerialModel.device = lambda self: DEVICE


def _fastai(module) -> None:
    original = module.default_device

    @functools.wraps(original)
    def default_device(use=-1):
        chosen = original(use)
        return chosen if module.defaults.use_cuda is False else DEVICE

    replace(module, "default_device", default_device)


def _sentence_transformers(module) -> None:
    replace(module, "get_device_name", lambda: str(DEVICE))


TELLS = {
    "torch_geometric.device": _torch_geometric,
    "ignite.distributed.comp_models.base": _ignite,
    "fastai.torch_core": _fastai,
    "sentence_transformers.util.environment": _sentence_transformers,
}
