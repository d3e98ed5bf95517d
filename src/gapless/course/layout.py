"""How a tensor's elements lie in memory: the same values, with other strides."""

from __future__ import annotations

import torch

# Name → in words, for the name of a case.
LAYOUTS = {"transposed": "transposed in memory", "strided": "every second element of a larger tensor",
           "channels_last": "channels last in memory"}


def laid_out(tensor: torch.Tensor, layout: str | None) -> torch.Tensor:
    """The values of a contiguous ``tensor``, laid out in memory as ``layout`` says (a key of LAYOUTS; None: as it is). Where
    a tensor has too few dimensions for it, it is a part of a larger one.

    Raises ValueError for another layout.
    """
    if layout is None:
        return tensor
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; there are {', '.join(LAYOUTS)}")
    if layout == "channels_last" and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if layout == "transposed" and tensor.dim() > 1:
        turned = tuple(reversed(range(tensor.dim())))
        return tensor.permute(turned).contiguous().permute(turned)
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    return torch.stack([tensor, tensor], dim=-1)[..., 0]
