"""Random operators on a DTensor: each shard draws numbers of its own, and all ranks go on from one state.

On CUDA a state is 16 bytes, a seed and an offset, and a shard begins at an offset of its own
(torch.distributed.tensor._random, ``OffsetBasedRNGTracker``). The generator here is the CPU's, which has no offset: a
shard's numbers come from a seed that the common state and the shard's place give. So, as on CUDA, the values depend on the
seed and on how the tensor is cut.
"""

# mypy: disable-error-code="attr-defined, misc, valid-type"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

from contextlib import contextmanager

import torch
import torch.distributed as dist

from ..process.imports import after_import
from ..process.state import DEVICE, NAME, state


def _tracker(original):
    class OffsetBasedRNGTracker(original):
        __doc__ = original.__doc__

        def __init__(self, device_mesh, run_state_sync: bool = True):
            here = device_mesh.device_type == NAME
            super().__init__(device_mesh, run_state_sync and not here)
            if here and run_state_sync and state.shape_only is None:
                shared = torch.vgpu.get_rng_state().to(DEVICE)
                dist.broadcast(shared, 0)
                torch.vgpu.set_rng_state(shared.cpu())

        @contextmanager
        def _distribute_region(self, spec, generator=None):
            if self._device.type != NAME:
                with super()._distribute_region(spec, generator):
                    yield
                return
            seed = int(torch.randint(2**62, (), generator=generator))
            # The operator is called without ``generator``, whose state CUDA gives to its default generator for as long.
            drawn_from = torch.default_generator
            following = drawn_from.get_state()
            drawn_from.manual_seed(seed + self._compute_rng_offsets(spec)[0])
            try:
                yield
            finally:
                drawn_from.set_state(following)

    return OffsetBasedRNGTracker


def _change(module) -> None:
    module.OffsetBasedRNGTracker = _tracker(module.OffsetBasedRNGTracker)


def install() -> None:
    """Let DTensor's random operators draw so on the device."""
    after_import("torch.distributed.tensor._random", _change)
