"""A step as one launch: CUDA graphs on the virtual GPU.

PyTorch's name that no device owns is ``torch.accelerator.Graph`` (where this PyTorch has it); ``torch.vgpu.CUDAGraph``,
``graph``, ``make_graphed_callables`` and ``graph_pool_handle`` are what programs for CUDA call. What is captured and what a
replay computes: :mod:`.capture`; what a launch takes: :mod:`..hardware.clock.graphs`. Errors have CUDA's texts (CUDA
runtime API, ``cudaGetErrorString``; c10/cuda/CUDAException.cpp, CUDAMiscFunctions.cpp; ATen, cuda/CUDAGraph.cpp).
"""

# mypy: disable-error-code="assignment, attr-defined, misc"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools
import itertools
import types
import warnings
import weakref
from collections.abc import Sequence
from typing import NoReturn

import torch
from torch.utils import _python_dispatch

from ..core.dispatch import of_the_device
from ..hardware.clock.graphs import Graph
from ..hardware.memory.memory import PrivatePool
from ..ordering import streams
from ..ordering.streams import Stream
from ..process.state import NAME, state
from .capture import Tape

# Name of the error → its number and its text.
ERRORS = {
    "cudaErrorStreamCaptureUnsupported": (900, "operation not permitted when stream is capturing"),
    "cudaErrorStreamCaptureInvalidated": (901, "operation failed due to a previous error during capture"),
    "cudaErrorStreamCaptureUnjoined": (904, "capturing stream has unjoined work"),
    "cudaErrorStreamCaptureIsolation": (905, "dependency created on uncaptured work in another stream"),
    "cudaErrorCapturedEvent": (907, "operation not permitted on an event last recorded in a capturing stream"),
    "cudaErrorIllegalState": (401, "the operation cannot be performed in the present state"),
}
_PAGEABLE = ("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please "
             "use tensor.pin_memory() or allocate the tensor with pin_memory=True.")  # ATen, cuda/Copy.cu
MODES = ("global", "thread_local", "relaxed", "default")

_pools = itertools.count(1)


def fail(error: str) -> NoReturn:
    """Raise torch.AcceleratorError for the error of that name; RuntimeError for a copy that is not pinned."""
    if error == "pageable":
        raise RuntimeError(_PAGEABLE)
    raise _cudas(error)  # nothing here keeps it: else the frame and the error would keep each other, and tensors with them


def _cudas(error: str) -> torch.AcceleratorError:
    number, text = ERRORS[error]
    raised = torch.AcceleratorError(
        f"CUDA error: {text}\nSearch for `{error}' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
        "group__CUDART__TYPES.html for more information.")
    raised.error_code = number
    return raised


# Token of a pool → the memory that graphs share by it.
_shared: weakref.WeakValueDictionary[tuple[int, int], PrivatePool] = weakref.WeakValueDictionary()


class Captured:
    """A graph on the device's side: captured, then replayed. ``is_remote``: the program is in another process."""

    def __init__(self, is_remote: bool = False):
        self._is_remote = is_remote
        self._graph: Graph | None = None
        self._tape: Tape | None = None
        self._pool: PrivatePool | None = None
        self._stream: Stream | None = None

    def begin(self, mode: str, pool: tuple[int, int], generators: Sequence[torch.Generator] = ()) -> None:
        """Capture what the current stream gets from now on. Raises RuntimeError on the default stream,
        torch.AcceleratorError while another capture is under way."""
        timeline = state.timeline
        if timeline.current.number == timeline.DEFAULT_STREAM:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to "
                               "replay them on the default stream.)")
        if timeline.capture is not None:
            timeline.capture.fail("cudaErrorIllegalState")
        timeline.begin_capture("global" if mode == "default" else mode, fail)
        self._stream = timeline.current
        self._tape = Tape([torch.default_generator, *generators], self._is_remote)
        known = _shared.get(pool)
        self._pool = known if known is not None and known.memory is state.memory else PrivatePool(state.memory)
        self._pool.users += 1
        _shared[pool] = state.memory.private = self._pool

    def end(self) -> int:
        """The capture ends; how many nodes the graph has. Raises torch.AcceleratorError where something was refused
        meanwhile, RuntimeError on another stream."""
        timeline = state.timeline
        if self._tape is None or state.tape is not self._tape:
            raise RuntimeError("capture_end() called before capture_begin().")
        if timeline.current is not self._stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        self._stream = None
        end_values()
        if timeline.capture is None:
            raise RuntimeError("the clocks were set to zero during the capture: capture again")
        self._graph = timeline.end_capture()
        return len(self._graph.nodes)

    def replay(self) -> None:
        """One launch on the current stream, and all values again."""
        end_ns = state.timeline.launch_graph(self._graph)
        with _python_dispatch._disable_current_modes():  # what the values take here is no work of the host's
            self._tape.play(end_ns)

    def __del__(self):
        if self._pool is not None:
            self._pool.release()


def end_values() -> None:
    """The capture under way is over for values and memory."""
    state.tape.end()
    state.memory.private = None


def abandon() -> None:
    """Whatever is under way: as if no capture had begun."""
    if state.tape is not None:
        end_values()
    state.timeline.capture = None


class CUDAGraph:
    """As ``torch.cuda.CUDAGraph``: work that is captured once and launched as one from then on."""

    def __init__(self, keep_graph: bool = False):
        self._keep_graph = keep_graph
        self._captured: Captured | None = None
        self._is_captured = False
        self._generators: list[torch.Generator] = []
        self._pool: tuple[int, int] | None = None

    @of_the_device
    def capture_begin(self, pool=None, capture_error_mode: str = "global", check_input_liveness: bool = False) -> None:
        """Capture what the current stream gets from now on. Raises RuntimeError on the default stream, or where this graph
        has been captured; torch.AcceleratorError while another capture is under way."""
        if self._is_captured:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new "
                               "instance.")
        if capture_error_mode not in MODES:
            raise RuntimeError("Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                               f"{capture_error_mode}")  # torch/csrc/cuda/Graph.cpp
        self._pool = tuple(pool or (next(_pools), 0))
        if state.link is not None and self._generators:
            raise NotImplementedError("a graph of a device in another process draws from the default generator only")
        self._captured = captured = Captured() if state.link is None else state.link.captured()
        captured.begin(capture_error_mode, self._pool, self._generators)

    @of_the_device
    def capture_end(self) -> None:
        """The capture ends. Raises torch.AcceleratorError where something was refused meanwhile."""
        if self._captured is None:
            raise RuntimeError("capture_end() called before capture_begin().")
        nodes = self._captured.end()
        self._is_captured = True
        if not nodes:
            warnings.warn("The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                          "device or stream.", stacklevel=5)

    def instantiate(self) -> None:
        """Nothing: that happens as the capture ends."""
        if not self._is_captured:
            raise RuntimeError("capture_end() must have been called before calling instantiate")

    @of_the_device
    def replay(self) -> None:
        """Launch it on the current stream. Raises RuntimeError before a capture that succeeded."""
        if not self._is_captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self._captured.replay()

    def reset(self) -> None:
        """Forget the graph; another can be captured."""
        self._captured, self._is_captured = None, False

    def pool(self) -> tuple[int, int]:
        """The token of its memory, for another graph that may share it. Raises RuntimeError before a capture."""
        if not self._is_captured:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: torch.Generator) -> None:
        """What is captured may draw from ``generator`` too."""
        self._generators.append(generator)

    def enable_debug_mode(self) -> None:
        """Nothing is kept for :meth:`debug_dump`."""

    def debug_dump(self, path: str) -> None:
        """Not here: NotImplementedError."""
        raise NotImplementedError("the nodes of a graph go to no file: a profile of a replay lists its kernels")


class AcceleratorGraph(CUDAGraph):
    """As ``torch.accelerator.Graph``: the same, and its own context, which captures the current stream."""

    def __init__(self, keep_graph: bool = False, *, pool=None, capture_error_mode: str = "default"):
        super().__init__(keep_graph)
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode

    def capture_begin(self) -> None:
        """Capture what the current stream gets from now on."""
        super().capture_begin(self.graph_pool, self.capture_error_mode)

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        self.capture_begin()

    def __exit__(self, *error) -> None:
        self.capture_end()


class graph:
    """As ``torch.cuda.graph``: inside, work is captured into ``cuda_graph``, on ``stream`` or one of its own."""

    def __init__(self, cuda_graph: CUDAGraph, pool=None, stream: Stream | None = None, capture_error_mode: str = "global",
                 check_input_liveness: bool = False, enable_annotations: bool = False):
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        timeline = state.timeline
        if stream is None and timeline.capture_stream is None:
            timeline.capture_stream = timeline.new_stream()
        self.capture_stream = Stream(_stream=timeline.capture_stream) if stream is None else stream

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        torch.accelerator.empty_cache()
        self.capture_stream.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *error) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.capture_stream.__exit__(*error)


def graph_pool_handle() -> tuple[int, int]:
    """A token of memory that several graphs share."""
    return 0, next(_pools)


def is_current_stream_capturing() -> bool:
    """Whether the current stream is captured."""
    return streams.current_stream().is_capturing()


class _InCudasPlace(types.ModuleType):
    """PyTorch, with ``torch.vgpu`` in the place of ``torch.cuda``."""

    @property
    def cuda(self):
        return getattr(torch, NAME)

    def __getattr__(self, name: str):
        return getattr(torch, name)


_PYTORCHS = torch.cuda.graphs.make_graphed_callables  # now: gapless.vgpu.as_cuda puts ours in its place


@functools.cache
def _make_graphed_callables():
    theirs = _PYTORCHS
    names = {**theirs.__globals__, "torch": _InCudasPlace("torch"), "graph_pool_handle": graph_pool_handle}
    ours = types.FunctionType(theirs.__code__, names, theirs.__name__, theirs.__defaults__, theirs.__closure__)
    ours.__kwdefaults__ = theirs.__kwdefaults__
    return ours


def make_graphed_callables(*args, **kwargs):
    """PyTorch's own: each callable's forward pass is a graph, and its backward pass another."""
    return _make_graphed_callables()(*args, **kwargs)


make_graphed_callables.__doc__ = f"{make_graphed_callables.__doc__}\n\n{torch.cuda.graphs.make_graphed_callables.__doc__}"


# -- optimizers -------------------------------------------------------------------------------------


def _checking(original):
    """PyTorch's check of an optimizer's step, which knows CUDA and XPU by name."""

    @functools.wraps(original)
    def check(self) -> None:
        original(self)
        if is_current_stream_capturing() and not all(group["capturable"] for group in self.param_groups):
            raise RuntimeError(f"Attempting {NAME.upper()} graph capture of step() for an instance of "
                               f"{type(self).__name__} but param_groups' capturable is False.")

    return check


def install() -> None:
    """Let ``torch.accelerator.Graph`` be the device's, and optimizers see a capture."""
    if hasattr(torch.accelerator, "Graph"):
        torch.accelerator.Graph = torch.accelerator.graphs.Graph = AcceleratorGraph
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        if hasattr(torch.optim.Optimizer, name):
            setattr(torch.optim.Optimizer, name, _checking(getattr(torch.optim.Optimizer, name)))
            break
