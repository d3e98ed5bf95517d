"""The kinds of checks, one a file: :class:`Values` first, then those of what is measured."""

from .bus_bytes import BusBytes
from .host_time import HostTime
from .in_its_own_way import InItsOwnWay
from .kernels import Kernels
from .peak_bytes import PeakBytes
from .speed_up import SpeedUp
from .step_time import StepTime
from .values import Values
from .waits import Waits

__all__ = ["BusBytes", "HostTime", "InItsOwnWay", "Kernels", "PeakBytes", "SpeedUp", "StepTime", "Values", "Waits"]
