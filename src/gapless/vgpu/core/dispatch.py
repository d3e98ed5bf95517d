"""One call of an operator on the virtual GPU: values from the CPU (or meta), time on the timeline."""

# mypy: disable-error-code="assignment"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import ClassVar

import torch

from ..hardware.cards.specs import Host
from ..hardware.kernels import costs, multi_tensor, syncs
from ..hardware.memory.memory import OutOfMemory
from ..hardware.times import geometry
from ..ordering import arrivals, backward_streams, race_detector
from ..process import forks, lazy_bits
from ..process.eager import eager
from ..process.state import DEVICE, state
from . import (
    custom_operators,
    data_dependence,
    inputs,
    nondeterministic,
    operands,
    out_arguments,
    random_numbers,
    refused_dtypes,
    shapes,
    shrunk,
    tuning,
    view_operators,
    wider,
)
from .tensor import VirtualTensor, wrap

# Operator → how it is done, where that differs from "compute, then launch its kernels".
HANDLERS: dict[str, Callable] = {}

# Operators that PyTorch makes of others and CUDA has a kernel of its own for, with an entry in HANDLERS.
COMPOSITE_HANDLED: set[str] = {"silu_backward", "mish_backward"}

# Overload → what makes it of others as CUDA does, or answers NotImplemented where it is one operator.
COMPOSITES: dict[torch._ops.OpOverload, Callable] = {}


# Of these, those that handle ``out=``.
_HANDLED_WITH_OUT: set[str] = set()


def handles(*names: str, out: bool = False):
    """Decorator: the function runs these operators (names without ``aten::``) in place of ``run``. ``out``: also the
    overloads with ``out=``; else what it gives is written there."""
    if out:
        _HANDLED_WITH_OUT.update(names)

    def register(handler):
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


# Operators that make a view though their schema does not say so, lest autograd take it for one.
_HIDDEN_VIEWS = ("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "lift", "lift_fresh")

# Operators that resize an argument though their schema does not say so: ranges and scales of channels, empty at first
# (ATen, quantized/cuda/FusedObsFakeQuant.cu); what is added to and broadcasts (LinearAlgebra.cpp, ``addbmm_``).
_RESIZE = ("fused_moving_avg_obs_fake_quant", "_fused_moving_avg_obs_fq_helper", "addbmm_")

# Operators that find their kernel through cuBLAS or cuDNN, which takes the host longer.
LIBRARY_OPERATORS = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "_addmm_activation", "convolution",
    "convolution_backward", "_convolution", "cudnn_convolution", "convolution_overrideable", "native_batch_norm",
    "native_batch_norm_backward", "cudnn_batch_norm", "cudnn_batch_norm_backward",
})


class Operator:
    """What dispatch needs to know of an ``OpOverload``, worked out once."""

    __slots__ = ("func", "name", "full_name", "is_view", "mutates", "reshapes", "handler", "multi_tensor", "composite",
                 "is_custom", "is_empty", "is_doubtful", "numbers", "makes_new", "written", "is_library",
                 "wants_host", "reads", "wider", "draws", "spoils", "proven", "refused", "nondeterministic", "call",
                 "unknown_size", "may_read_back", "draws_by_value", "is_plain_view")
    known: ClassVar[dict[int, Operator]] = {}  # by the ``id`` of its ``func``, whose hash PyTorch works out in Python

    @classmethod
    def of(cls, func) -> Operator:
        """What is known of ``func``."""
        found = cls.known.get(id(func))
        if found is None:
            found = cls.known[id(func)] = cls(func)
        return found

    def __init__(self, func):
        schema = func._schema
        self.func, self.call = func, func._op  # the latter without a step in Python
        self.full_name = schema.name
        self.name = schema.name.split("::", 1)[1]
        self.mutates = schema.is_mutable
        self.written = [(place, argument.name) for place, argument in enumerate(schema.arguments)
                        if argument.alias_info is not None and argument.alias_info.is_write]
        self.refused = refused_dtypes.rule(self.name)
        self.nondeterministic = nondeterministic.rule(func)
        # Where the CPU has no kernel for a dtype (:mod:`.wider`).
        self.wider: dict = wider.known(self.name)
        self.proven: frozenset = frozenset()
        self.draws = any(str(argument.type) == "Optional[Generator]" for argument in schema.arguments)
        self.spoils = self.draws or any(a.alias_info is not None and a.alias_info.is_write and not a.is_out
                                        for a in schema.arguments)
        in_place_view = torch.Tag.inplace_view in func.tags  # squeeze_, t_, resize_, …
        self.is_view = in_place_view or self.name in _HIDDEN_VIEWS or (
            not self.mutates and any(r.alias_info is not None for r in schema.returns))
        self.reshapes = in_place_view or self.name in _RESIZE or any(a.is_out for a in schema.arguments)
        self.handler = HANDLERS.get(self.full_name) or HANDLERS.get(self.name)
        if self.handler is not None and self.name not in _HANDLED_WITH_OUT and out_arguments.names(func):
            self.handler = out_arguments.filled(self.handler, Operator(out_arguments.without(func)))
        self.is_plain_view = view_operators.is_plain(self)
        self.unknown_size = UNKNOWN_SIZES.get(self.name)
        self.draws_by_value = self.name in random_numbers.DRAW_BY_VALUE
        self.may_read_back = syncs.is_known(self.name)
        self.is_library = self.name in LIBRARY_OPERATORS
        self.wants_host = func in operands.WANTED
        self.is_empty = self.name.startswith(("empty", "new_empty"))
        self.makes_new = self.name.startswith("new_") or self.name.endswith("_like")  # of a shape, not of values
        # Whether it looks at values, or writes them, in memory that is there before.
        self.reads = not ((self.is_view and self.handler is None) or self.is_empty or self.makes_new or self.name == "set_")
        self.multi_tensor = (self.name.startswith(("_foreach_", "_fused_")) and bool(schema.arguments)
                             and str(schema.arguments[0].type) == "List[Tensor]")
        # Autograd takes these apart before they get here; in inference mode there is no autograd to do it.
        is_composite = self.name not in COMPOSITE_HANDLED and torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), "CompositeImplicitAutograd")
        self.composite = COMPOSITES.get(func, func.decompose if is_composite else None)
        self.is_custom = custom_operators.is_custom(func)
        self.numbers = data_dependence.number_places(schema)
        self.is_doubtful = (not self.is_view and not self.multi_tensor and self.handler is None
                            and data_dependence.is_doubtful(func))
        if data_dependence.is_cpu_only(self.name):
            raise NotImplementedError(f"{func.name()} is for the CPU; {DEVICE} has what CUDA has")

    def written_of(self, args, kwargs) -> list:
        """The arguments that it writes to."""
        return [args[place] if place < len(args) else kwargs.get(name) for place, name in self.written]


def dispatch(func, args, kwargs):
    """Run ``func`` on the virtual GPU. The entry for every operator with a tensor or a device argument."""
    try:
        operator = Operator.known[id(func)]
    except KeyError:
        operator = Operator.of(func)
    unseen = lazy_bits.see()
    try:
        if operator.composite is not None:
            out = operator.composite(*args, **kwargs)
            if out is not NotImplemented:
                return out
        if operator.is_custom:
            return custom_operators.run(func, args, kwargs)
        counting = state.counting
        if counting is None or not counting.pause():
            return _dispatch(operator, args, kwargs)
        state.counting = None  # `aside`, written out: each call more is one more for Python's profile function
        try:
            return _dispatch(operator, args, kwargs)
        finally:
            state.counting = counting
            counting.resume()
    finally:
        if unseen:
            lazy_bits.unsee()


@eager
def _torch_dispatch(cls, func, types, args=(), kwargs=None):
    if len(types) > 1 and not all(issubclass(kind, VirtualTensor) for kind in types):
        return _of_others(func, types, args, {} if kwargs is None else kwargs)
    return dispatch(func, args, {} if kwargs is None else kwargs)


def _of_others(func, types, args, kwargs):
    """A tensor made of others, such as DTensor, knows what to do with them. It may have been asked already, and have refused
    because it does not know VirtualTensor: CUDA's tensors are no class of their own, so ``types`` has none for them."""
    known = tuple(kind for kind in types if not issubclass(kind, VirtualTensor))
    for kind in known:
        found = kind.__torch_dispatch__(func, known, args, kwargs)
        if found is not NotImplemented:
            return found
    return NotImplemented


VirtualTensor.__torch_dispatch__ = classmethod(_torch_dispatch)


def aside(function, *args, **kwargs):
    """Call ``function``, which does the device's work: what Python it calls is on no clock (:mod:`..host.host_clock`)."""
    counting = state.counting
    if counting is None or not counting.pause():
        return function(*args, **kwargs)
    state.counting = None
    try:
        return function(*args, **kwargs)
    finally:
        state.counting = counting
        counting.resume()


def of_the_device(function):
    """Decorator: calls of the function go :func:`aside`."""

    @functools.wraps(function)
    @eager
    def call(*args, **kwargs):
        return aside(function, *args, **kwargs)

    return call


def _dispatch(operator: Operator, args, kwargs):
    if operator.is_plain_view:
        result = view_operators.run(operator, args, kwargs)
        if result is not NotImplemented:
            return result
    func = operator.func
    if operator.makes_new and is_elsewhere(kwargs.get("device")) and args[0].layout is torch.strided:
        form = torch.empty_strided(args[0].shape, args[0].stride(), dtype=args[0].dtype, device="meta")
        return func(form, *args[1:], **kwargs)
    args, kwargs = data_dependence.read_numbers(operator.numbers, args, kwargs)
    if state.forked:
        forks.refuse()
    if state.shrunk and operator.reads:
        shrunk.check(operator, args, kwargs)
    if operator.refused is not None:
        refused_dtypes.check(operator.refused, args)
    if operator.nondeterministic is not None:
        operator.nondeterministic.check(args, kwargs)
    if state.link is not None:
        with _as_its_base(operator, args):
            return state.link.run(func, args, kwargs)
    timeline = state.timeline
    watched = state.watched
    if watched:
        backward_streams.follow()
    region = state.regions.enter() if state.regions is not None else None
    count = timeline.current.count
    timeline.begin_op(operator.full_name, cost_ns(operator, timeline.host))
    if timeline.recording is not None and timeline.recording.shapes:
        timeline.note_inputs(inputs.describe(func, args, kwargs))
    try:
        if region is None and state.regions is not None:
            state.regions.read(args, kwargs)
        tape = state.tape
        if tape is not None and not tape.begins(operator, args, kwargs):
            tape = None
        result = run(operator, args, kwargs) if operator.handler is None else operator.handler(operator, args, kwargs)
        if tape is not None:
            tape.note(operator, args, kwargs, result)
        if operator.is_empty and result.allocation is not None:
            result.allocation.made = None
        if watched:
            race_detector.note(operator, args, kwargs, result, count)
        elif operator.mutates:
            race_detector.stamp(operator, args, kwargs, count)
        if region is not None:
            region.note(operator, args, kwargs, result)
        return result
    except OutOfMemory as error:
        raise torch.OutOfMemoryError(str(error)) from None
    except NotImplementedError as error:
        # PyTorch's own text speaks of the devices of the inner tensors.
        if "Meta tensors" in str(error):
            raise NotImplementedError(f"{operator.full_name} is not supported in vgpu.shape_only()") from error
        if str(error).startswith("Could not run"):
            raise NotImplementedError(f"{operator.full_name} is not supported on {DEVICE}") from error
        raise
    finally:
        timeline.end_op()
        if region is not None:
            region.leave()


def cost_ns(operator: Operator, host: Host) -> int:
    """The host's part of one operator, without launches."""
    if operator.is_view:
        return host.view_ns
    return host.library_op_ns if operator.is_library else host.op_ns


def begin(name: str) -> None:
    """The operator ``name`` begins, which is caught where autograd begins and does not come through :func:`dispatch`."""
    if state.forked:
        forks.refuse()
    if state.watched:
        backward_streams.follow()
    if state.regions is not None:
        state.regions.enter()
    state.timeline.begin_op(name)


def used(reads, writes) -> None:
    """The same operator has launched its kernels, which read and write these tensors."""
    if state.watched:
        race_detector.uses(state.timeline.operator, costs.tensors(reads), costs.tensors(writes))
    if state.region is not None:
        state.region.used(state.timeline.operator, reads, writes)


def end() -> None:
    """The same operator ends."""
    state.timeline.end_op()
    if state.region is not None:
        state.region.leave()


def run(operator: Operator, args, kwargs, launch=None):
    """Compute the values, launch the kernels, wait where the operator waits, wrap the results.

    ``launch``: in place of the operator's own kernels, a function of (args, kwargs, out).
    """
    if operator.wants_host:
        operands.check_wanted(operator.func, args)
    inner_args, inner_kwargs, seen = unwrap(operator, args, kwargs)
    out, key = compute(operator, inner_args, inner_kwargs)
    if operator.reshapes:
        for tensor in seen.values():
            tensor.follow(state.memory)
    if not operator.is_view:
        if launch is not None:
            launch(inner_args, inner_kwargs, out)
        elif operator.multi_tensor:
            launch_all(multi_tensor.kernels(operator.name, inner_args, inner_kwargs, out), inner_args, out)
        else:
            launch_all(shapes.kernels(key, operator.name, inner_args, inner_kwargs, out), inner_args, out)
        known = syncs.read_backs(operator.name, inner_args, inner_kwargs) if operator.may_read_back else 0
        if not known and operator.is_doubtful and not shapes.has_no_values(inner_args):
            known = int(data_dependence.tells_values(operator, inner_args, inner_kwargs, out))
        for _ in range(known):
            read_back()
    return wrap_results(operator, out, seen, args)


def launch_all(kernels: list[costs.Kernel], args: tuple = (), out=None) -> None:
    """Queue kernels on the current stream. ``args`` and ``out``: what the operator was given and gives, for the kernels'
    launch geometry."""
    timeline, card = state.timeline, state.card
    if state.region is not None:
        state.region.hold(kernels, args, out)
        return
    for kernel in kernels:
        if kernel.planned:
            launch_all(tuning.chosen(kernel, launch_all, args, out), args, out)
            continue
        if kernel.workspace_bytes:
            state.memory.reserve_briefly(kernel.workspace_bytes)
        duration_ns, share = kernel.duration_and_share(card)
        if kernel.kind == "matmul":
            timeline.product_count += 1
        if kernel.kind == "memset":
            timeline.launch(kernel.name, duration_ns, category="gpu_memset", call="cudaMemsetAsync", share=share)
        elif timeline.recording is None and timeline.capture is None:
            timeline.launch(kernel.name, duration_ns, share=share)
        else:
            work = kernel.kind, geometry.work_of(kernel.kind, kernel.work, kernel.bytes, args, out), kernel.dtype
            timeline.launch(kernel.name, duration_ns, work=work, share=share)


def read_back(nbytes: int = 8) -> None:
    """A number comes to the host: a small copy into pinned memory, and a wait for the stream (ATen, cuda/CUDAScalar.cu)."""
    if state.timeline.capture is not None:
        state.timeline.capture.refuse_wait(state.timeline.current)
    state.timeline.copy("DtoH", nbytes, pinned=True, blocking=True)


# -- values ---------------------------------------------------------------------------------------


_AS_THEY_ARE = frozenset({bool, int, float, type(None), torch.dtype})


def unwrap(operator: Operator, args, kwargs):
    """Arguments for the CPU (or meta) operator, and the wrappers by the ``id`` of their inner tensor."""
    seen: dict[int, VirtualTensor] = {}
    host: list[torch.Tensor] = []
    inner_args = []
    for value in args:
        kind = type(value)
        if kind is VirtualTensor:
            inner = value.within
            seen[id(inner)] = value
            inner_args.append(inner)
        else:
            inner_args.append(value if kind in _AS_THEY_ARE else _unwrap(value, seen, host))
    inner_args = tuple(inner_args)
    inner_kwargs = kwargs and {name: _unwrap(value, seen, host) for name, value in kwargs.items() if name != "pin_memory"}
    if state.unused:
        for tensor in seen.values():
            state.unused.discard(id(tensor.allocation))
    if host:
        operands.check(operator, args, kwargs, host, bool(seen))
    if len(seen) + len(host) > 1 and seen and _mixes(inner_args):
        raise RuntimeError(
            f"{operator.full_name} mixes a tensor made inside vgpu.shape_only() with one made outside it: make both "
            "in the same mode"
        )
    if inner_kwargs and inner_kwargs.get("generator") is not None:
        random_numbers.check(inner_kwargs["generator"])
        if state.shape_only is not None:
            inner_kwargs["generator"] = None
    return inner_args, inner_kwargs, seen


def _mixes(args: tuple) -> bool:
    """Whether some of ``args`` have values and others have none. Those without dimensions go with both."""
    found = None
    for each in args:
        if isinstance(each, torch.Tensor):
            is_meta = each.is_meta
            if is_meta is not found and each.dim():
                if found is not None:
                    return True
                found = is_meta
    return False


def _unwrap(value, seen: dict[int, VirtualTensor], host: list[torch.Tensor]):
    # Not a closure: one that calls itself is a reference cycle and would keep the tensors alive.
    if isinstance(value, VirtualTensor):
        inner = value.within
        seen[id(inner)] = value
        return inner
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, torch.Tensor):
        if torch._C._dispatch_keys(value).has(torch._C.DispatchKey.PrivateUse1):
            # PyTorch traces with tensors of its own, which only say that they are here.
            raise NotImplementedError(f"a tensor that only says it is on {DEVICE} has no values")
        host.append(value)
        if value.dim() > 0:
            return value
        if state.timeline.due:
            arrivals.host_reads(value)
        if state.shape_only is not None and not value.is_meta:
            return value.to("meta")  # a number on the host, passed to the kernel by value
        return value
    if type(value) in (list, tuple):
        return type(value)([_unwrap(item, seen, host) for item in value])
    if isinstance(value, torch.device):
        check_device(value)
        return torch.device("cpu") if state.shape_only is None else torch.device("meta")
    return value


def is_elsewhere(device: torch.device | None) -> bool:
    """Whether a tensor made for ``device`` is not on the virtual GPU."""
    return device is not None and device.type != DEVICE.type


def check_device(device: torch.device) -> None:
    """Raise RuntimeError for a second virtual GPU: there is one."""
    if device.type == DEVICE.type and device.index not in (None, DEVICE.index):
        raise RuntimeError(f"invalid device ordinal: {device}; there is one virtual GPU, {DEVICE}; each process has its "
                           f"own, so on every rank: torch.device('vgpu', 0), set_device_index(0), device_ids=[0]")



# Sizes that depend on values, for tensors that have none: operator → function of its arguments.
UNKNOWN_SIZES: dict[str, Callable] = {}


def compute(operator: Operator, args, kwargs):
    """The operator's result on inner tensors, and the key under which :mod:`.shapes` remembers it, or None."""
    if operator.unknown_size is not None and any(isinstance(a, torch.Tensor) and a.is_meta for a in args):
        return operator.unknown_size(args, kwargs), None
    try:
        if ((state.shape_only is not None or shapes.has_no_values(args)) and not operator.is_view
                and not operator.reshapes):
            if operator.name.startswith("_fused_") and operator.multi_tensor and operator.name.endswith("_"):
                return None, None  # an optimizer's, in place: nothing comes back, and not all have a meta kernel
            return shapes.remembered(operator.func, args, kwargs)
        if operator.wider and wider.needed(operator, args):
            return wider.compute(operator, args, kwargs, call), None
        if operator.spoils and wider.unproven(operator, args):
            return wider.first(operator, args, kwargs, call), None
        return call(operator, args, kwargs), None
    except (IndexError, RuntimeError) as error:
        if state.tape is not None and _OUT_OF_BOUNDS.search(str(error)):
            kept = args[:1] if operator.mutates else ()
            return call(operator, (*kept, *_zeros_for_numbers(args[len(kept):])), kwargs), None
        if isinstance(error, IndexError):
            note_error(operator, error)
            raise
        if wider.can(operator, args, error):
            return compute(operator, args, kwargs)
        wanted = _HOST_ALLOCATOR.search(str(error))
        if wanted is None:
            note_error(operator, error)
            raise
        # The host holds the values and gave up first. A larger block than the card is the program's mistake.
        state.memory.reserve_briefly(int(wanted.group(1)))
        raise RuntimeError(f"the host has no memory for the values of a tensor on {DEVICE}, which the card would have held: "
                           f"use smaller sizes, or vgpu.shape_only() ({operator.full_name}: {error})") from None


def _zeros_for_numbers(args):
    """``args`` with zeros for integers. While a graph is captured no kernel runs: what its inputs hold by then, which may be
    anything, is no label or index out of bounds."""
    if isinstance(args, (list, tuple)):
        return type(args)([_zeros_for_numbers(each) for each in args])
    is_number = isinstance(args, torch.Tensor) and args.dtype in (torch.int32, torch.int64)
    return torch.zeros_like(args) if is_number else args


def call(operator: Operator, args, kwargs):
    """The values, from the CPU's kernel."""
    if not operator.draws_by_value:
        return operator.call(*args, **kwargs)
    with random_numbers.moved_on_by_form(random_numbers.of(args, kwargs), args[0].numel()):
        return operator.call(*args, **kwargs)


def note_error(operator: Operator, error: Exception) -> None:
    """An operator has raised over values or shapes. On a GPU one that looks at values raises later, and nothing works
    after."""
    if len(state.errors) < 100:
        state.errors.append(f"{operator.full_name}: {str(error).strip().partition(chr(10))[0][:200]}")


_OUT_OF_BOUNDS = re.compile(r"out of (bounds|range)")
_HOST_ALLOCATOR = re.compile(r"DefaultCPUAllocator.*tried to allocate (\d+) bytes", re.DOTALL)


def wrap_results(operator: Operator, out, seen: dict[int, VirtualTensor], args=()):
    """Wrap what an operator returned; a tensor written in place comes back as the wrapper it went in as."""
    if isinstance(out, torch.Tensor):
        known = seen.get(id(out))
        if known is not None:
            return known
        assumed = state.shape_only is not None and out.dtype == torch.bool
        density = density_of(operator, args, out) if assumed else None
        if operator.is_view:
            with _as_its_base(operator, args):
                return wrap(out, state.memory, density)
        return wrap(out, state.memory, density)
    if isinstance(out, (list, tuple)):
        return type(out)(wrap_results(operator, o, seen, args) for o in out)
    return out


_NOTHING = nullcontext()


def _as_its_base(operator: Operator, args):
    """A view is an inference tensor where its base is one, whatever the mode: autograd counts their versions together."""
    if operator.is_view and args and isinstance(args[0], torch.Tensor):
        inference = args[0].is_inference()
        if inference != torch.is_inference_mode_enabled():
            return torch.inference_mode(inference)
    return _NOTHING


def density_of(operator: Operator, args, out) -> float | None:
    """The assumed share of ones in a mask without values, else None."""
    assumptions = state.shape_only
    if not out.is_meta:
        return None
    source = next((a for a in args if isinstance(a, VirtualTensor)), None)
    known = source.density if source is not None else None
    if known is not None:
        if operator.is_view or operator.name == "clone":
            return known
        if operator.name in ("logical_not", "bitwise_not"):
            return 1.0 - known
    return assumptions.densities.get(operator.name, assumptions.density)
