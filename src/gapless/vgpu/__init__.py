"""A PyTorch device that computes real values on the CPU and keeps a modelled GPU's clocks.

    >>> from gapless import vgpu
    >>> device = vgpu.enable("a100")
    >>> x = torch.ones(3, device=device)
    >>> vgpu.timeline().host_ns

``device=vgpu:0`` then works as ``cuda`` would. Values are exact, or, inside :func:`shape_only`, absent, so
that a step of any size is simulated in milliseconds.

What is not supported is in :data:`UNSUPPORTED`, with the reason and what to do instead. Values are computed when an
operator is called; those of a copy to the host that does not block are there when the host's clock has passed its end, as
on CUDA. Memory that two streams use with nothing between them is a :class:`RaceWarning`, or what :func:`races` says.
"""

from .core.tensor import VirtualTensor, wrap
from .core.tuning import forget as forget_plans
from .core.unsupported import UNSUPPORTED
from .face.backend import enable
from .face.debug_aids import is_launch_blocking, launch_blocking
from .hardware.cards.cardfile import find_card
from .hardware.cards.specs import CARDS, Card, CardError, Host, UnknownCard
from .hardware.clock.timeline import Record, Recording, Timeline, Wait
from .hardware.times.precision import default_precision
from .host import data_loader, host_clock  # noqa: F401  vgpu.host_clock
from .ordering.race_detector import RaceError, RaceWarning, Use, races
from .ordering.streams import Event, Stream
from .process.state import Assumptions, exact, on_card, shape_only, state

__all__ = ["Assumptions", "CARDS", "Card", "CardError", "Event", "Host", "RaceError", "RaceWarning", "Record",
           "Recording", "Stream", "Timeline", "UNSUPPORTED", "UnknownCard", "Use", "VirtualTensor", "Wait", "card",
           "default_precision", "enable", "exact", "find_card", "forget_plans", "is_launch_blocking", "is_shape_only",
           "launch_blocking", "memory", "on_card", "races", "shape_only", "tensor_of", "timeline"]


def timeline() -> Timeline:
    """The clocks of the card in use."""
    return state.timeline


def tensor_of(values) -> VirtualTensor:
    """A tensor on the device with the values of the CPU tensor ``values``, which it takes over. It takes memory and no time.
    Raises torch.OutOfMemoryError."""
    return wrap(values, state.memory)


def memory():
    """The memory of the card in use."""
    return state.memory


def card() -> Card:
    """The card in use."""
    return state.card


def is_shape_only() -> bool:
    """Whether tensors made now have no values (inside :func:`shape_only`)."""
    return state.shape_only is not None
