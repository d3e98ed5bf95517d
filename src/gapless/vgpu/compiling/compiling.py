"""``torch.compile`` on the virtual GPU: Dynamo traces (:mod:`.traced_tensors`), and what Inductor would compile runs here.

Graphs, guards, graph breaks, recompilations and dynamic shapes are PyTorch's own. No compiler makes code for the device, so
in Inductor's place each graph's operators run as they are, with the values of the program uncompiled, in a region
(:mod:`.regions`), whose kernels are merged as Inductor would merge them. A graph without tensors of the device is
Inductor's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import torch
from torch._guards import CompileContext
from torch._ops import _higher_order_ops
from torch.utils import checkpoint

from ..core.dispatch import aside
from ..host.host_clock import uncounted
from ..process.eager import eager
from ..process.imports import after_import
from ..process.state import NAME
from . import reduced_overhead, regions, traced_tensors
from .compile_times import Graph

_numbers = itertools.count()


def uses_device(graph_module: torch.fx.GraphModule) -> bool:
    """Whether a graph takes, makes or holds a tensor of the device. In Dynamo's graphs each node knows an example."""
    for part in graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            found = torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
            if any(isinstance(each, torch.Tensor) and each.device.type == NAME for each in found):
                return True
    held = itertools.chain(graph_module.parameters(), graph_module.buffers())
    return any(tensor.device.type == NAME for tensor in held)


def checkpointed(body, *args, **options):
    """``torch.utils.checkpoint`` in a graph, with ``body`` a graph too. Inductor draws the recomputation's random numbers
    again from what the forward pass drew from; here their state is put back, as in the program uncompiled."""
    options = {**options, "use_reentrant": False, "preserve_rng_state": True}
    if "_checkpoint_context_fn" in body.meta:
        options["context_fn"] = body.meta["_checkpoint_context_fn"]
    return checkpoint.checkpoint(body.forward, *args, **options)


def _without_compilers_operators(graph_module: torch.fx.GraphModule) -> None:
    """Change what only a compiler can do into what PyTorch does without one."""
    found = graph_module.graph.find_nodes(op="call_function", target=_higher_order_ops.get("tag_activation_checkpoint"))
    for node in found:
        node.target = checkpointed
    if found:
        graph_module.recompile()


class Later(Mapping):
    """The mapping that ``make`` gives, made when it is looked at."""

    def __init__(self, make):
        self._make = make

    @functools.cached_property
    def _found(self) -> Mapping:
        return self._make()

    def __getitem__(self, key):
        return self._found[key]

    def __iter__(self):
        return iter(self._found)

    def __len__(self):
        return len(self._found)

    def __repr__(self):
        return repr(self._found)


def _is_dynamic(graph_module: torch.fx.GraphModule) -> bool:
    """Whether one graph serves several shapes: their sizes are among its inputs then."""
    return any(isinstance(node.meta.get("example_value"), (torch.SymInt, torch.SymFloat))
               for node in graph_module.graph.find_nodes(op="placeholder"))


def _is_on_device(graph_module: torch.fx.GraphModule) -> bool:
    """Whether all tensors are."""
    found = torch.utils._pytree.tree_leaves([node.meta.get("example_value") for node in graph_module.graph.nodes])
    return all(each.device.type == NAME for each in found if isinstance(each, torch.Tensor))


def compiled(graph_module: torch.fx.GraphModule, as_one_launch: bool = False):
    """What Inductor would give for ``graph_module``."""
    _without_compilers_operators(graph_module)
    name = CompileContext.current_compile_id()
    graph = Graph(next(_numbers), _is_dynamic(graph_module), str(name or "?"))
    run = graph_module.forward

    @eager
    def call(graph, *args):
        with regions.running(graph) as region:
            return region.returns(run(*args))

    if as_one_launch and _is_on_device(graph_module):
        return functools.partial(aside, reduced_overhead.Launches(call, graph))
    return functools.partial(aside, call, graph)


def _inductor(wrapper) -> None:
    """The default backend, for graphs that use the device. Each ``torch.compile`` asks it for its configuration, which
    is only shown on request, and would import all of Inductor to say it: more than a second."""
    original, config = wrapper.__call__, wrapper.get_compiler_config

    @functools.wraps(original)
    def __call__(self, model_, inputs_, **options):
        if uses_device(model_):
            return compiled(model_, bool(self.config.get("triton.cudagraphs")))
        return original(self, model_, inputs_, **options)

    wrapper.__call__ = __call__
    wrapper.get_compiler_config = lambda self: Later(functools.partial(config, self))


def _uncounted(call):
    """Dynamo's work is done in no time of the program's; what it costs is on the clock as one block."""

    @functools.wraps(call)
    def convert(*args, **kwargs):
        with uncounted():
            return call(*args, **kwargs)

    return convert


def _convert_frame(module) -> None:
    module.CatchErrorsWrapper.__call__ = _uncounted(module.CatchErrorsWrapper.__call__)


def install() -> None:
    """Have ``torch.compile`` take tensors of the device."""
    traced_tensors.install()
    _inductor(torch._TorchCompileInductorWrapper)
    after_import("torch._dynamo.convert_frame", _convert_frame)
