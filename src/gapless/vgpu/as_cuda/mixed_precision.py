"""``torch.autocast("cuda")``, ``GradScaler("cuda")`` and what asks for them: the virtual GPU's."""

from __future__ import annotations

import functools
import inspect

import torch

from ..process.state import NAME


def _named(function, *, default: str | None = None):
    """``function`` with its argument ``device_type`` or ``device`` translated: the first one, not counting ``self``."""
    names = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
    place = 1 if names[:1] == ["self"] else 0

    @functools.wraps(function)
    def call(*args, **kwargs):
        if len(args) > place and args[place] == "cuda":
            args = (*args[:place], NAME, *args[place + 1:])
        for name in ("device_type", "device"):
            if kwargs.get(name) == "cuda":
                kwargs[name] = NAME
        if default is not None and len(args) <= place and not {"device_type", "device"} & set(kwargs):
            args = (*args, default)
        return function(*args, **kwargs)

    return call


def install(replaced) -> None:
    """Translate from now on."""
    replaced.put(torch.amp.autocast_mode.autocast, "__init__", _named(torch.amp.autocast_mode.autocast.__init__))
    replaced.put(torch.amp.grad_scaler.GradScaler, "__init__",
                 _named(torch.amp.grad_scaler.GradScaler.__init__, default=NAME))
    # Without an argument these speak of CUDA.
    for name in ("is_autocast_enabled", "get_autocast_dtype"):
        replaced.put(torch, name, _named(getattr(torch, name), default=NAME if name.startswith("is_") else None))
    for name in ("set_autocast_enabled", "set_autocast_dtype"):
        replaced.put(torch, name, _named(getattr(torch, name)))
    replaced.put(torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype(NAME))
    for name in ("custom_fwd", "custom_bwd"):
        plain = getattr(torch.amp, name)

        @functools.wraps(plain)
        def marked(*args, device_type: str, _plain=plain, **kwargs):
            return _plain(*args, device_type=NAME if device_type == "cuda" else device_type, **kwargs)

        replaced.put(torch.amp, name, marked)
