"""Libraries that choose the device themselves: they ask for CUDA, and for others by a list of names, and else train on the
CPU. Here each learns of the virtual GPU, by what it has for that where it has something, else by replacing the function
that chooses. Nothing is imported that the program does not import itself.

A version in which the function is not found is a :class:`NotToldWarning` with the line that names the device.
"""

from __future__ import annotations

import warnings

from ..process.imports import after_import
from . import hugging_face, lightning, one_function

# Module of a library → what tells it. After its import, or at once where it is imported already.
TELLS = {**hugging_face.TELLS, **lightning.TELLS, **one_function.TELLS}

# Library → the line that names the device: needed where the library is not told, or chooses in another way in its version.
LINES = {
    "accelerate": 'before its import: os.environ["ACCELERATE_TORCH_DEVICE"] = "vgpu:0"',
    "transformers": 'before its import: os.environ["ACCELERATE_TORCH_DEVICE"] = "vgpu:0"; pipeline(…, device="vgpu:0")',
    "lightning": 'Trainer(strategy=SingleDeviceStrategy("vgpu:0"), plugins=[MixedPrecision("16-mixed", "vgpu")])',
    "torch_geometric": 'torch_geometric.device("vgpu:0")',
    "ignite": 'create_supervised_trainer(…, device="vgpu:0")',
    "fastai": 'learner.dls.device = torch.device("vgpu:0")',
    "sentence_transformers": 'SentenceTransformer(…, device="vgpu:0")',
}
LINES["pytorch_lightning"] = LINES["lightning_fabric"] = LINES["lightning"]

TOLD = frozenset(name.partition(".")[0] for name in TELLS)


class NotToldWarning(UserWarning):
    """A library of this version chooses its device in another way than those that were tried: it may take the CPU."""


def _telling(name: str, tell):
    def run(module) -> None:
        try:
            tell(module)
        except (AttributeError, LookupError, TypeError) as error:
            library = name.partition(".")[0]
            warnings.warn(f"{library} of this version cannot be made to use the virtual GPU ({name}: {error}) and may run "
                          f"on the CPU: {LINES[library]}", NotToldWarning, stacklevel=2)

    return run


def install() -> None:
    """Tell those that are imported now, and others when they are."""
    for name, tell in TELLS.items():
        after_import(name, _telling(name, tell))
