"""Collectives on tensors of the virtual GPU: done on their values, by the backend that the group has for ``vgpu``.

A group that serves CUDA serves the virtual GPU too; which groups there are is in :mod:`.process_groups`. Values
are real, and the host waits as it does with NCCL: for ``barrier()``, and for no other collective
(c10d, ProcessGroupNCCL.cpp: ``WorkNCCL::wait`` lets the current stream wait). In real time a process stays in a collective
until its values are there, ``async_op=True`` or not, so that a program's values do not depend on chance; what goes between
two processes (``isend``, ``irecv``) is there after ``wait()``.

Every collective passes through :func:`takes_time`, which is where the processes meet. Then tensors with values are
exchanged; those without (:func:`gapless.vgpu.shape_only`) are not.
"""

# mypy: disable-error-code="arg-type, attr-defined"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ..core import inputs
from ..core.dispatch import compute, handles, unwrap
from ..core.tensor import VirtualTensor
from ..hardware.clock.streams import Mark
from ..hardware.kernels import costs
from ..ordering import race_detector
from ..process.state import DEVICE, state
from . import communication

# Each is called with every collective, and of the tensors that this process gives, before it is done.
watchers: list[Callable[[Collective, list[torch.Tensor]], None]] = []


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of this process. ``kind``: such as "allreduce", "send"; ``given`` and ``taken``: the bytes that go in
    and come out here; ``ranks``: of the ``group``, numbered as in the whole world."""

    kind: str
    given: int
    taken: int
    dtype: torch.dtype | None
    group: str
    ranks: tuple[int, ...]


def takes_time(collective: Collective, group: dist.ProcessGroup, async_op: bool, reduction: str, root: int | None,
               given: list[torch.Tensor], taken: list[torch.Tensor]) -> Mark | None:
    """A collective is called: it takes its time (:mod:`.communication`). Returns its end, where that is later than what the
    current stream holds."""
    end = _recorded(collective, _TITLES.get(collective.kind, collective.kind), given,
                    lambda: communication.run(collective, group, async_op, reduction, root))
    if end is None:
        return None
    mark, stream = end
    if state.watched:
        timeline = state.timeline
        current, timeline.current = timeline.current, stream
        try:
            race_detector.uses(f"c10d::{collective.kind}", given, taken)
        finally:
            timeline.current = current
    return mark if async_op else None


def _recorded(collective: Collective, title: str, given: list[torch.Tensor], run):
    """``run()``, and a trace gets what PyTorch writes of it."""
    timeline = state.timeline
    timeline.begin_op("record_param_comms", timeline.host.library_op_ns if len(collective.ranks) > 1 else 0)
    try:
        if timeline.recording is not None:
            timeline.note_inputs(communication.arguments(collective))
        start_ns = timeline.host_ns
        end = run()
        if timeline.recording is not None:
            timeline.annotate(f"nccl:{title}", start_ns,
                              inputs.describe_tensors(given) if timeline.recording.shapes else None)
        return end
    finally:
        timeline.end_op()


# What PyTorch's annotation calls a kind (ProcessGroupNCCL.cpp, profiling titles), where by another name.
_TITLES = {"allreduce": "all_reduce", "barrier": "all_reduce_barrier", "allreduce_coalesced": "all_reduce_coalesced",
           "_allgather_base": "_all_gather_base", "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
           "all_to_allv": "all_to_all"}

# Operator of c10d → its name in a trace.
_KINDS = {"barrier": "barrier", "allgather_": "all_gather", "_allgather_base_": "_allgather_base",
          "allgather_coalesced_": "all_gather", "allgather_into_tensor_coalesced_": "allgather_into_tensor_coalesced",
          "allreduce_": "allreduce", "allreduce_coalesced_": "allreduce_coalesced", "broadcast_": "broadcast",
          "gather_": "gather", "gather_into_tensor_": "gather", "scatter_": "scatter", "reduce_": "reduce",
          "reduce_scatter_": "reduce_scatter", "_reduce_scatter_base_": "_reduce_scatter_base",
          "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced", "alltoall_": "all_to_all",
          "alltoall_base_": "all_to_allv", "send": "send", "recv_": "recv", "recv_any_source_": "recv_any_source"}

# One tensor for all ranks, in their order: NCCL asks for its elements only, Gloo also for its first dimension.
_BY_RANK = ("_allgather_base_", "_reduce_scatter_base_", "allgather_into_tensor_coalesced_",
            "reduce_scatter_tensor_coalesced_")

# What NCCL's group asks to be contiguous, by the arguments' names (ProcessGroupNCCL.cpp, ``check_gpu_single_tensor``).
_CONTIGUOUS = {"allreduce_": ("tensors",), "broadcast_": ("tensors",), "reduce_": ("tensors",),
               "allgather_": ("input_tensors",), "_allgather_base_": ("output_tensor", "input_tensor"),
               "reduce_scatter_": ("output_tensors",), "_reduce_scatter_base_": ("output_tensor", "input_tensor"),
               "gather_": ("input_tensors",), "scatter_": ("output_tensors",), "alltoall_base_": ("output", "input"),
               "alltoall_": ("output_tensors", "input_tensors")}

# What a process does not stay in: the work of these is Gloo's.
_NOT_AT_ONCE = ("barrier", "send", "recv_", "recv_any_source_")

_DEFAULTS = {"async_op": True, "reduce_op": None, "root_rank": None}

# Group → the same members, with the virtual GPU's backend in the CPU's place.
_on_values: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

# Group → what has begun since ``_start_coalescing``.
coalescing: dict[dist.ProcessGroup, list] = {}

# What each process multiplies its values by in the reduction that is called (``ReduceOp.PREMUL_SUM``).
premultiplied: list[float | torch.Tensor] = []


def backend_of(group: dist.ProcessGroup):
    """The backend that serves the virtual GPU in ``group``. Raises RuntimeError where none does."""
    try:
        return group._get_backend(DEVICE)
    except RuntimeError as error:
        try:
            return group._get_backend(torch.device("cuda"))  # as init_process_group("gloo") has
        except RuntimeError:
            raise error from None


def _with_values(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Raises RuntimeError where the group serves no virtual GPU."""
    known = _on_values.get(group)
    if known is None:
        known = dist.ProcessGroup(dist.HashStore(), group.rank(), group.size())
        known._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.UNDEFINED, backend_of(group))
        _on_values[group] = known
    return known


def _is_group(value) -> bool:
    return isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type())


def with_handles(link, func, args, kwargs):
    """One operator of ``c10d`` where the device is in another process. In a group of one process its members' values are its
    own; in a larger one the device's processes do it. Raises NotImplementedError for an operator that is not for graded
    cells, RuntimeError where the group serves no virtual GPU."""
    name = func._schema.name.split("::", 1)[1]
    group = next(dist.ProcessGroup.unbox(value) for value in args if _is_group(value))
    if group.size() > 1:
        end = link.collective(func, args, kwargs)
        value = [args[0]] if isinstance(args[0], torch.Tensor) else args[0]
        work = _done([] if name == "barrier" else value, end)
        work = _barrier(work, end) if name == "barrier" else work
        return work.boxed() if len(func._schema.returns) == 1 else (args[0], work.boxed())
    if name not in ("barrier", "allreduce_", "broadcast_", "reduce_", "allgather_", "_allgather_base_"):
        raise NotImplementedError(f"{func._schema.name} among {group.size()} processes is not supported in a graded cell")

    def stand_in(value):
        if isinstance(value, VirtualTensor):
            return torch.zeros(value.shape, dtype=value.dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(stand_in(item) for item in value)
        return _with_values(group).boxed() if _is_group(value) else value

    done = func(*stand_in(args), **{key: stand_in(value) for key, value in kwargs.items()})
    if name == "barrier":
        return done
    if "allgather" in name:
        pairs = zip(args[0], args[1]) if name == "allgather_" else [([args[0]], args[1])]
        for outputs, given in pairs:
            link.run(torch.ops.aten.copy_.default, (outputs[0], given), {})
    return args[0], done[-1]


if dist.is_available():
    futures = dist.Work.get_future  # PyTorch's own


def _done(result: list, end: Mark | None) -> dist.Work:
    """A work whose values are there. ``result``: the value of its future; ``end``: when the device has done it, where the
    current stream has to wait for that. Waiting with a timeout is a wait of the host, as with NCCL (ProcessGroupNCCL.cpp,
    ``WorkNCCL::wait``); without one the stream waits."""
    held: list = []  # as NCCL's group holds what its stream works on, until somebody waits

    def wait(timeout) -> bool:
        if not held:
            held.append(result)
            return True  # the first call, below
        if end is not None:
            state.timeline.stream_wait_event(end)
        held[0] = None
        if timeout:
            state.timeline.synchronize_stream()
        return True

    if result and communication.asked_by_cpp():
        # DDP's reducer, which wants tensors where Python has put objects, and waits for the future at the pass's end.
        if end is not None:
            communication.awaited_at_the_end(end)
        return torch._C._distributed_c10d._create_work_from_future(torch._C.fork(lambda: result))
    work = torch._C._distributed_c10d.PythonCallbackWork(wait)
    futures(work).set_result(result)
    work.wait()  # so that it says that it is completed, as the values are there
    return work


def _barrier(work: dist.Work, end: Mark | None) -> dist.Work:
    """The host waits for the current stream (ProcessGroupNCCL.cpp, ``WorkNCCL::wait`` of a barrier)."""

    def wait(timeout) -> bool:
        work.wait(timeout)
        if end is not None:
            state.timeline.stream_wait_event(end)
        state.timeline.synchronize_stream()
        return True

    return torch._C._distributed_c10d.PythonCallbackWork(wait)


def _transfer(collective: Collective, group: dist.ProcessGroup, other: int, tag: int, given: list[torch.Tensor]):
    """As :func:`communication.transfer`, of what this process sends to ``other`` or receives from it."""
    ends = (group.rank(), other) if collective.kind == "send" else (other, group.rank())
    return _recorded(collective, f"{collective.kind} {ends[0]}->{ends[1]}", given,
                     lambda: communication.transfer(collective, group, ends, tag))


def _arriving(work: dist.Work | None, arrives) -> dist.Work:
    """The current stream waits until what is sent or received is there. ``work``: Gloo's, of the values."""

    def wait(timeout) -> bool:
        if work is not None:
            work.wait(timeout)
        state.timeline.stream_wait_event(arrives())
        return True

    return torch._C._distributed_c10d.PythonCallbackWork(wait)


# ReduceOp::RedOpType, in its order (c10d, Types.hpp).
_OPERATIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")


def _reduction(given) -> str:
    """Such as "SUM"; "" for what is none."""
    return "PREMUL_SUM" if premultiplied else "" if given is None else _OPERATIONS[given.op()]


def together(works: list[dist.Work]) -> dist.Work:
    """The work of all ``works``."""

    def wait(timeout) -> bool:
        return all(work.wait(timeout) for work in works)

    return torch._C._distributed_c10d.PythonCallbackWork(wait)


# Dtypes that Gloo computes with. The bytes of others are moved as they are, and reduced in a dtype that holds their values:
# "for bool tensors, map sum to max, which both represent a bitwise or" (ProcessGroupNCCL.cpp, ``getNcclReduceOp``).
_GLOO = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                   torch.int64})


def _each(function, value):
    """``value`` with ``function`` applied to all tensors in it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    return type(value)([_each(function, item) for item in value]) if isinstance(value, (list, tuple)) else value


def _as_bytes(inner: torch.Tensor) -> torch.Tensor:
    if inner.dtype in _GLOO:
        return inner
    return inner.unsqueeze(-1).view(torch.uint8)  # the first dimension stays as it is


def _check_contiguous(operator, args) -> None:
    """Raises what CUDA does where NCCL could not take a tensor's memory as it lies."""
    asked = _CONTIGUOUS.get(operator.name, ())
    for argument, value in zip(operator.func._schema.arguments, args):
        for tensor in costs.tensors(value) if argument.name in asked else ():
            formats = {4: [torch.channels_last], 5: [torch.channels_last_3d]}.get(tensor.dim(), [])
            if not any(tensor.is_contiguous(memory_format=each) for each in (torch.contiguous_format, *formats)):
                raise ValueError("Tensors must be contiguous")


def _wider(inner: torch.Tensor) -> torch.Tensor:
    if inner.dtype in _GLOO:
        return inner
    return inner.to(torch.float32 if inner.is_floating_point() else torch.int64)


def _of_several_sizes(args, place: int) -> dist.Work:
    """``all_gather`` of tensors of different sizes: a broadcast from each rank (ProcessGroupNCCL.cpp, ``allgather``)."""
    *tensors, group = args[:place + 1]
    (outputs,), (given,) = tensors
    own = outputs[dist.ProcessGroup.unbox(group).rank()]
    if own.shape != given.shape:
        raise ValueError(f"all_gather: this process gives {tuple(given.shape)} and has room for {tuple(own.shape)}")
    own.copy_(given)
    for rank, output in enumerate(outputs):
        dense = output.contiguous()
        work = dist.Work.unbox(torch.ops.c10d.broadcast_.default([_as_bytes(dense)], group, rank, 0)[1])
        work.wait()
        if dense is not output:
            output.copy_(dense)
    return work


def _all_to_all(outputs: list[torch.Tensor], inputs: list[torch.Tensor], group) -> dist.Work:
    """``all_to_all`` of lists as one of a tensor: PyTorch 2.11's Gloo lacks the first."""
    given, taken = torch.cat([inner.reshape(-1) for inner in inputs]), outputs[0].new_empty(sum(map(torch.numel, outputs)))
    sizes = [[inner.numel() for inner in some] for some in (outputs, inputs)]
    work = dist.Work.unbox(torch.ops.c10d.alltoall_base_.default(_as_bytes(taken), _as_bytes(given), group, *sizes))
    work.wait()
    for output, piece in zip(outputs, taken.split(sizes[0])):
        output.copy_(piece.view(output.shape))
    return work


def _run(operator, args, kwargs, place: int) -> dist.Work:
    """The operator on values. ``place``: of the group among the arguments."""
    arguments, tensors = operator.func._schema.arguments, args[:place]
    if operator.name == "alltoall_":
        return _all_to_all(args[0], args[1], args[place])
    if operator.name == "allgather_" and len({output.shape for output in tensors[0][0]}) > 1:
        return _of_several_sizes(args, place)
    reduces = len(arguments) > place + 1 and arguments[place + 1].name == "reduce_op"
    taken = [_each(_wider if reduces else _as_bytes, value) for value in tensors]
    if operator.name in _BY_RANK:
        taken = [_each(lambda inner: inner.view(-1), value) for value in taken]
    if premultiplied:
        taken[-1] = _each(lambda inner: inner * premultiplied[-1], taken[-1])
    made = compute(operator, (*taken, *args[place:]), kwargs)[0]
    work = dist.Work.unbox(made[-1] if isinstance(made, tuple) else made)
    if operator.name not in _NOT_AT_ONCE:
        work.wait()
        if reduces:
            for inner, done in zip(costs.tensors(tensors[0]), costs.tensors(taken[0])):
                if done.data_ptr() != inner.data_ptr():
                    inner.copy_(done.view(inner.shape))
    return work


if dist.is_available():

    @handles(*(f"c10d::{name}" for name in _KINDS))  # aten has a scatter_ too
    def collective(operator, args, kwargs):
        """One operator of ``c10d`` on the values of its tensors."""
        place = next(place for place, value in enumerate(args) if _is_group(value))
        group = dist.ProcessGroup.unbox(args[place])
        _check_contiguous(operator, args)
        results, given = costs.tensors(args[0]), costs.tensors(args[place - 1])
        options = {argument.name: value for argument, value in zip(operator.func._schema.arguments, args)}
        options = _DEFAULTS | {name: value for name, value in {**options, **kwargs}.items() if name in _DEFAULTS}
        called = Collective(_KINDS[operator.name], sum(map(costs.nbytes, given)), sum(map(costs.nbytes, results)),
                            given[0].dtype if given else None, group.group_name, tuple(dist.get_process_group_ranks(group)))
        for watch in watchers:
            watch(called, given)
        end = None
        arrives = None
        if operator.name in ("send", "recv_"):
            other, tag = args[place + 1:]
            arrives = _transfer(called, group, other, tag, given)
        elif operator.name != "recv_any_source_":  # its sender is known when the values are there
            reduction = options["reduce_op"]
            end = takes_time(called, group, options["async_op"], _reduction(reduction), options["root_rank"], given, results)
        value = [args[0]] if isinstance(args[0], torch.Tensor) else args[0]
        inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
        inner_args = list(inner_args)
        inner_args[place] = _with_values(group).boxed()
        moves = not any(tensor.within.is_meta for tensor in (*results, *given))
        work = _run(operator, inner_args, inner_kwargs, place) if moves else None
        if arrives is not None:
            work = _arriving(work, arrives)
        elif work is None or operator.name not in _NOT_AT_ONCE:
            work = _done(value, end)
        if operator.name == "barrier":
            work = _barrier(work, end)
        if group in coalescing:
            coalescing[group].append(work)
        return work.boxed() if len(operator.func._schema.returns) == 1 else (args[0], work.boxed())

    @handles("c10d::check_for_nan")
    def check_for_nan(operator, args, kwargs):
        """``TORCH_DIST_NAN_CHECK``: an error where a tensor that is sent has a NaN."""
        inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
        return operator.func(*inner_args, **inner_kwargs)

    _BY_PYTORCH = torch._C.DispatchKey.CompositeExplicitAutograd
    _FUNCTIONAL = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("_c10d_functional::")]

    @handles(*_FUNCTIONAL, "_dtensor::shard_dim_alltoall")
    def functional(operator, args, kwargs):
        """A functional collective: PyTorch's own kernel, which calls the operators of ``c10d``. It is done then: what it
        keeps for ``wait_tensor`` it finds by a tensor's storage, which a view here does not share."""
        out = operator.func._op_dk(_BY_PYTORCH, *args, **kwargs)
        if operator.name != "wait_tensor":
            for tensor in costs.tensors(out):
                torch.ops._c10d_functional.wait_tensor.default._op_dk(_BY_PYTORCH, tensor)
        return out
