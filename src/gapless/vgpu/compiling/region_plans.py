"""What the calls of a compiled graph become: groups of steps, each a kernel of Triton's or an operator of a library.

A plan is made once for the same calls (:mod:`.lowering`), on the same card, with the same blocks living on; a
:class:`.regions.Region` launches what it holds back by it.
"""

from __future__ import annotations

import torch

from ..hardware.kernels import attention, costs, fusion
from ..process.state import state
from . import attention_patterns, channels_last
from .lowering import SEEDS, Call, Form, Lowering

TRITON_NS = 5_000  # of the host, for a kernel of Triton's: an assumption
MOST_PLANS = 500
LONGEST_NAME = 80

_SEEDS = costs.Kernel("distribution_elementwise_grid_stride_kernel", "pointwise", 8, work=(1,))


class Plan:
    """The groups of a list of calls, in order. ``first_write``, ``last_use``: number of a block → that of the group.
    ``trains``: a backward pass may come."""

    def __init__(self, calls: list[Call], sources: list[fusion.Step], living: set[int], unsure: frozenset[int],
                 there: frozenset[int], laid_out: bool | None):
        self.trains = bool(unsure)
        self.laid_out = channels_last.wanted(calls, torch.is_grad_enabled()) if laid_out is None else laid_out
        own = [call for call in calls if call.name]
        self._replaced: dict[int, list[tuple]] = {}
        if self.laid_out:
            calls = channels_last.laid_out(calls)
            self._replaced = {number: _convolved(call) for number, call in enumerate(calls)
                               if call.name in channels_last.CONVOLUTIONS + channels_last.BACKWARD}
        lowering = Lowering(state.card.sm_count)
        for step in sources:
            lowering.base[step.writes[0].buffer] = step.writes[0].buffer
        lowering.steps += sources
        calls, attentive = attention_patterns.replaced(calls, living)
        for number in attentive:
            self._replaced[number] = _attention(calls[number])
        for number, call in enumerate(calls):
            if call is not None:
                lowering.add(number, call)
        steps, now = lowering.steps, lowering.now
        by_library = {access.buffer for step in steps if step.kind == fusion.LIBRARY for access in step.reads}
        wanted = {now(number) for number in unsure} - by_library
        written = {access.buffer for step in steps if step.kind != fusion.POINTWISE for access in step.writes}
        again = fusion.recomputable(steps, wanted, {now(number) for number in there} | (written & {now(n) for n in unsure})
                                    | ({now(number) for number in unsure} & by_library))
        sizes = {access.buffer: (step.numel, access.nbytes) for step in steps for access in step.writes}
        self.recomputed = {
            lowering.base[buffer]: (*sizes[buffer], [each._replace(buffer=lowering.base[each.buffer]) for each in found])
            for buffer, found in again.items()}
        again_here = {access.buffer for step in sources for access in step.writes}
        lasting = {now(number) for number in living} - set(again) - again_here
        self.groups = fusion.groups(steps, lasting)
        self.count = len(self.groups)
        self.first_write: dict[int, int] = {}
        self.last_use: dict[int, int] = {}
        for place, group in enumerate(self.groups):
            for buffer in (*group.reads, *group.writes):
                self.last_use[lowering.base.get(buffer, buffer)] = place
            for buffer in group.writes:
                self.first_write.setdefault(lowering.base.get(buffer, buffer), place)
        self._kernels = [self._kernel(group) for group in self.groups]
        self._names = [call.name if call is not None else "" for call in calls]
        self.names = tuple([call.name for call in own])
        self.shapes = tuple([(call.name, tuple([form.shape for form in call.written])) for call in own])
        self.kinds = ["pointwise" if set(call.kinds) <= {"pointwise"} else "other" for call in own]
        self.triton = sum(kernel is not None for kernel in self._kernels)

    def _kernel(self, group: fusion.Group) -> costs.Kernel | None:
        if group.kind == fusion.LIBRARY:
            return None
        reduces = group.kind == fusion.REDUCTION
        kind = "reduction" if reduces else "pointwise"
        prefix = "for" if group.kind == fusion.LISTED else "poi"
        if reduces:
            prefix = "per" if group.reduced <= (64 if group.outer else 1024) else "red"
        names = "_".join(sorted({name.strip("_") for name in group.names if name}))[:LONGEST_NAME]
        return costs.Kernel(f"triton_{prefix}_fused_{names}", kind, group.nbytes, group.operations,
                            work=(group.numel, group.reduced) if reduces else (group.numel,),
                            problem=fusion.Fused(kind, group.nbytes, group.operations))

    def launches(self, held: list[list[tuple]]):
        """For each group: kernels with what they were given, the host's part (ns), the operator's name."""
        host = state.timeline.host
        for group, kernel in zip(self.groups, self._kernels):
            if kernel is not None:
                yield [(kernel, (), None)], TRITON_NS, None
            elif group.number == SEEDS:
                yield [(_SEEDS, (), None)], host.op_ns, "aten::randint"
            else:
                number = group.number
                yield self._replaced.get(number) or held[number], host.library_op_ns, f"aten::{self._names[number]}"


def _convolved(call: Call) -> list[tuple]:
    """The kernels of a convolution as its operands lie now, in place of those that were held; copies that bring operands
    into another order are loops."""
    name = "convolution" if call.name in channels_last.CONVOLUTIONS else "convolution_backward"
    args, out = _made(call.args), _made(call.out)
    return [(kernel, args, out) for kernel in costs.kernels(name, args, {}, out) if kernel.planned]


def _attention(call: Call) -> list[tuple]:
    """The kernel of attention, of products' operands: query and value by rows, the key by columns."""
    query, key, value, mask = (None if form is None else _made(form) for form in call.args)
    kernels, _ = attention.kernels(query.unsqueeze(1), key.mT.unsqueeze(1), value.unsqueeze(1), mask, False)
    return [(kernel, (), None) for kernel in kernels]


def _made(value):
    """Tensors without values of the forms in ``value``."""
    if isinstance(value, Form):
        return torch.empty_strided(value.shape, value.strides, dtype=value.dtype, device="meta")
    return tuple([_made(each) for each in value]) if isinstance(value, tuple) else value


_plans: dict[tuple, Plan] = {}


def plan_of(calls: list[Call], sources: list[fusion.Step], living: set[int], unsure: frozenset[int], there: frozenset[int],
            laid_out: bool | None) -> Plan:
    """The plan of these calls on today's card, made once. Numbers of blocks: ``living`` afterwards; ``unsure``, whether the
    backward pass wants them written; ``there``, whence it may compute. ``laid_out``: in channels-last order (None: to be
    decided); ``sources``: how blocks that were not written are computed again."""
    key = (tuple(calls), tuple(sources), frozenset(living), unsure, there, state.card.key, laid_out,
           torch.is_grad_enabled(), attention_patterns.settings())
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= MOST_PLANS:
            del _plans[next(iter(_plans))]
        plan = _plans[key] = Plan(calls, sources, living, unsure, there, laid_out)
    return plan
