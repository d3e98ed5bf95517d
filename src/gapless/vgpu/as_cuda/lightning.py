"""Lightning's ``accelerator="cuda"``: the virtual GPU, as ``"gpu"`` and ``"auto"`` are (:mod:`gapless.vgpu.libraries`)."""

from __future__ import annotations

from ..process.imports import after_import
from ..process.state import NAME
from . import asking


def _name(registry_name: str):
    def tell(module) -> None:
        registry = getattr(module, registry_name, None)
        if asking.numbering is not None and registry is not None and NAME in registry:
            registry.register("cuda", registry[NAME]["accelerator"], description="the virtual GPU", override=True)

    return tell


def install(replaced) -> None:
    """Tell Lightning when it is imported, or now. This stays."""
    for name, registry in {"lightning.pytorch.trainer.connectors.accelerator_connector": "AcceleratorRegistry",
                           "lightning.fabric.connector": "ACCELERATOR_REGISTRY",
                           "pytorch_lightning.trainer.connectors.accelerator_connector": "AcceleratorRegistry",
                           "lightning_fabric.connector": "ACCELERATOR_REGISTRY"}.items():
        after_import(name, _name(registry))
