"""What Dynamo sees of tensors on the virtual GPU: plain tensors of their shape, strides and dtype on ``vgpu:0``.

Dynamo takes no tensor of a class with a dispatch of its own. Ours is PyTorch's tensor in all that tracing looks at, so
it is described to Dynamo as one: with a twin on the meta device in its place. Its values are not looked at, so the
device may be in another process.
"""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from ..core.tensor import KINDS, VirtualTensor
from ..ordering import pinned
from ..process.imports import after_import
from ..process.location import MACHINERY


def is_dense(value) -> bool:
    """Whether ``value`` is a tensor of the device that Dynamo can take for a plain one: no program's subclass of
    ``torch.Tensor``, and none that is sparse, which Dynamo takes on no device."""
    return type(value) is VirtualTensor


def plain_type(value: torch.Tensor) -> type:
    """What class a tensor of the device would be of on CUDA."""
    return torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else torch.Tensor


def twin(tensor: VirtualTensor) -> torch.Tensor:
    """A meta tensor of the same form, and with what the program has hung on ``tensor`` (``mark_dynamic`` does)."""
    size, stride, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
    elements = offset + 1 + sum((n - 1) * step for n, step in zip(size, stride)) if tensor.numel() else offset
    with temporarily_clear_interpreter_stack(), torch.no_grad():  # torch.func's tensors have no memory
        memory = torch.empty(elements, dtype=tensor.dtype, device="meta").untyped_storage()
        found = torch.empty(0, dtype=tensor.dtype, device="meta").set_(memory, offset, size, stride)
    found.__dict__.update(tensor._attributes())
    return found


def _describing(module, original):
    @functools.wraps(original)
    def describe_tensor(self, t, **options):
        if not is_dense(t) or module.is_functorch_wrapped_tensor(t):  # what is in such a wrapper comes here by itself
            return original(self, t, **options)
        grad = t.grad if t.is_leaf else None
        return dataclasses.replace(
            original(self, twin(t), **options), id=self.get_tensor_id(t), device=t.device, is_leaf=t.is_leaf,
            requires_grad=t.requires_grad, is_parameter=isinstance(t, torch.nn.Parameter),
            is_inference=t.is_inference() and torch.is_inference_mode_enabled(),  # Dynamo leaves that mode while it traces
            is_conj=t.is_conj(), is_neg=t.is_neg(), grad=self.describe_tensor(grad, **options) if grad is not None else None)

    return describe_tensor


def _meta_utils(module) -> None:
    describer = module.MetaTensorDescriber
    describer.describe_tensor = _describing(module, describer.describe_tensor)


def _fake_tensor(module) -> None:
    """``torch.tensor(…, device=…)`` while PyTorch traces: made on the host and moved, as where the device is not there, and
    so nothing is made on it (:attr:`FakeTensorMode.avoid_device_init`)."""
    module._is_privateuse1_backend_available = lambda: False


def _builder(module) -> None:
    """Dynamo's view of a value that comes in."""
    wrap, infer = module.VariableBuilder._wrap, module.infer_subclass_type

    @functools.wraps(wrap)
    def _wrap(self, value):
        known = is_dense(value) or type(value) in KINDS.values()  # of those it says that it does not take them
        return self.wrap_tensor(value) if known else wrap(self, value)

    @functools.wraps(infer)
    def infer_subclass_type(value):
        return None if is_dense(value) else infer(value)

    module.VariableBuilder._wrap = _wrap
    module.infer_subclass_type = infer_subclass_type


def _output_graph(module) -> None:
    """A graph says of its inputs what classes they are."""
    original = module.SubgraphTracer.create_graph_input

    @functools.wraps(original)
    def create_graph_input(self, name, type_expr, example_value, *args, **kwargs):
        if type_expr is VirtualTensor:
            type_expr = plain_type(example_value)
        return original(self, name, type_expr, example_value, *args, **kwargs)

    module.SubgraphTracer.create_graph_input = create_graph_input


def _trace_rules(module) -> None:
    """After a graph break Dynamo compiles what Python runs: PyTorch's own functions not, and ours in their place not."""
    module.SKIP_DIRS.extend(MACHINERY)
    module._recompile_re()
    known = module.get_torch_obj_rule_map
    if known.cache_info().currsize:  # PyTorch's functions as they were before the device was there: ours are the same to it
        rules = known()
        rules.update((getattr(torch, name), rules[original]) for name, original in pinned.originals.items()
                     if original in rules)


def install() -> None:
    """Have Dynamo take tensors of the device, once somebody imports it."""
    after_import("torch._subclasses.meta_utils", _meta_utils)
    after_import("torch._subclasses.fake_tensor", _fake_tensor)
    after_import("torch._dynamo.variables.builder", _builder)
    after_import("torch._dynamo.output_graph", _output_graph)
    after_import("torch._dynamo.trace_rules", _trace_rules)
