"""Lightning's ``Trainer`` and ``Fabric``: ``accelerator="auto"`` and ``"gpu"``, and ``"vgpu"`` by name.

Lightning takes its own CUDA accelerator, and what inherits from it, for a GPU; others it puts on the CPU. It casts on
``cuda`` in mixed precision whatever the accelerator is. Seen in Lightning 2.6 (``fabric/connector.py``,
``pytorch/trainer/connectors/accelerator_connector.py``).
"""

# mypy: disable-error-code="attr-defined"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
import warnings

import torch

from ..core.dispatch import check_device
from ..process.state import DEVICE, NAME


def _accelerator(cuda: type) -> type:
    """The virtual GPU as a Lightning accelerator. ``cuda``: Lightning's CUDAAccelerator, of Trainer or of Fabric."""

    class VirtualGPUAccelerator(cuda):
        """One virtual GPU."""

        def setup_device(self, device: torch.device) -> None:
            """Refuse any other device."""
            check_device(device)

        def setup(self, trainer) -> None:
            """Nothing to begin."""

        def teardown(self) -> None:
            """Nothing to end."""

        def get_device_stats(self, device) -> dict[str, int]:
            """Bytes by PyTorch's names."""
            return torch.vgpu.memory_stats()

        @staticmethod
        def parse_devices(devices) -> list[int]:
            """Numbers of devices; RuntimeError for another than the one there is."""
            if isinstance(devices, str):
                devices = [int(each) for each in devices.split(",") if each] if "," in devices else int(devices)
            numbers = list(devices) if isinstance(devices, (list, tuple)) else list(range(1 if devices == -1 else devices))
            for number in numbers:
                check_device(torch.device(NAME, number))
            return numbers

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            """The devices of these numbers."""
            return [torch.device(NAME, number) for number in devices]

        @staticmethod
        def auto_device_count() -> int:
            """One."""
            return 1

        @staticmethod
        def is_available() -> bool:
            """It is."""
            return True

        @staticmethod
        def name() -> str:
            """``vgpu``."""
            return NAME

    return VirtualGPUAccelerator


def _connector(name: str, registry_name: str):
    """What tells the connector class ``name``, which holds Lightning's choices."""

    def tell(module) -> None:
        connector = getattr(module, name)
        accelerator = _accelerator(module.CUDAAccelerator)
        for choice in ("_choose_auto_accelerator", "_choose_gpu_accelerator_backend"):
            getattr(connector, choice)  # AttributeError where Lightning chooses in another way
            setattr(connector, choice, staticmethod(accelerator))
        connector._check_and_init_precision = _precision(connector._check_and_init_precision)
        connector._choose_strategy = _strategy(connector._choose_strategy)
        getattr(module, registry_name).register(NAME, accelerator, description="the virtual GPU", override=True)

    return tell


def _precision(original):
    @functools.wraps(original)
    def check_and_init_precision(self):
        if self.accelerator.name() != NAME:
            return original(self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*CUDA is not available")  # its scaler is made for cuda
            plugin = original(self)
        if getattr(plugin, "device", None) == "cuda":
            plugin.device = NAME
            if plugin.scaler is not None and not plugin.scaler.is_enabled():
                plugin.scaler = torch.amp.GradScaler(NAME)
        return plugin

    return check_and_init_precision


def _strategy(original):
    @functools.wraps(original)
    def choose_strategy(self):
        chosen = original(self)
        if self.accelerator.name() == NAME and getattr(chosen, "_root_device", None) == torch.device("cpu"):
            chosen._root_device = DEVICE  # the accelerator was given by its name
        return chosen

    return choose_strategy


_TRAINER = _connector("_AcceleratorConnector", "AcceleratorRegistry")
_FABRIC = _connector("_Connector", "ACCELERATOR_REGISTRY")
TELLS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": _TRAINER,
    "lightning.fabric.connector": _FABRIC,
    "pytorch_lightning.trainer.connectors.accelerator_connector": _TRAINER,
    "lightning_fabric.connector": _FABRIC,
}
