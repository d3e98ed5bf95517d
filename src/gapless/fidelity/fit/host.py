"""The host's costs, from profiler traces of real hosts.

    python -m gapless.fidelity.fit.host TRACE.json.gz … --write

Each trace gives the costs of its host. The profiler's own part (CUPTI's in a launch, one event for each operator) is in all
of them, and some are old; hosts that measured operators without a profiler say in which ratio that is too much
(:func:`shared`). Python's cost needs a
trace whose program is known: of a ResNet-50's forward pass the gaps between two operators are laid against the functions
that Python calls in between, which are counted here, in torchvision's ResNet-50.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import nnls
from torch.utils._python_dispatch import TorchDispatchMode

from ...evidence.traces.trace import Trace
from ...vgpu.core.dispatch import LIBRARY_OPERATORS
from ...vgpu.hardware.cards import fitted
from ...vgpu.host import python_work
from ...vgpu.process import location
from .. import hosts as measuring_hosts

LAUNCHES = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
LONGEST_US = 100  # a runtime call that takes longer waits, allocates or loads a kernel
FEWEST = 50  # of a kind, for a host to have a say
NOTHING_US = 2  # an operator that computes nothing takes longer only where the profiler writes down much of it
BACKWARD = "autograd::engine::evaluate_function"
# Operators of a ResNet's forward pass by the names of a trace, and as dispatch sees them.
_RESNET = {"aten::conv2d": "convolution", "aten::batch_norm": "native_batch_norm", "aten::add_": "add_",
           "aten::relu_": "relu_", "aten::max_pool2d": "max_pool2d_with_indices"}


@dataclass
class Node:
    """An event of a host thread, with those inside it; times in µs."""

    name: str
    category: str
    start_us: float
    dur_us: float
    inside: list[Node] = field(default_factory=list)

    def all(self):
        """It and everything inside."""
        yield self
        for node in self.inside:
            yield from node.all()


def threads(trace: Trace) -> list[list[Node]]:
    """The outermost events of each host thread, in order."""
    found = defaultdict(list)
    for event in trace.events:
        if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "cuda_runtime", "user_annotation"):
            found[event["pid"], event["tid"]].append(Node(event["name"], event["cat"], event["ts"], event["dur"]))
    return [_nested(nodes) for nodes in found.values()]


def _nested(nodes: list[Node]) -> list[Node]:
    outermost, open_nodes = [], []
    for node in sorted(nodes, key=lambda node: (node.start_us, -node.dur_us, _depth(node))):
        while open_nodes and open_nodes[-1].start_us + open_nodes[-1].dur_us <= node.start_us:
            open_nodes.pop()
        (open_nodes[-1].inside if open_nodes else outermost).append(node)
        open_nodes.append(node)
    return outermost


def _depth(node: Node) -> int:
    """Which of two events with the same times is inside the other."""
    if node.category != "cpu_op":
        return 0 if node.category == "user_annotation" else 4
    return 1 if node.name.startswith("autograd::") else 3 if node.name.startswith("aten::") else 2


# -- one host ---------------------------------------------------------------------------------------


def costs_of(trace: Trace) -> dict[str, float]:
    """Nanoseconds of one host: a launch, the return from a wait; an operator, one that calls a library of NVIDIA's, and a
    view, forward and backward. Empty where the profiler recorded much more than times (shapes, stacks, memory)."""
    pieces = defaultdict(list)  # "forward" and "backward" → (operators, of a library, views, µs)
    durations = defaultdict(list)
    for outermost in threads(trace):
        for node in outermost:
            for each in node.all():
                durations["wait" if each.name in WAITS else each.name].append(each.dur_us)
            _collect(node, pieces)
    more = any(trace.metadata.get(flag) for flag in ("record_shapes", "profile_memory", "with_stack"))
    if more or statistics.median(durations["aten::as_strided"] or [0.0]) > NOTHING_US:
        return {}
    found = {}
    if len(durations["cudaLaunchKernel"]) >= FEWEST:
        found["launch_ns"] = 1e3 * statistics.median(durations["cudaLaunchKernel"])
    if len(durations["wait"]) >= FEWEST:
        found["sync_ns"] = 1e3 * np.quantile(durations["wait"], 0.1)  # the shortest had nothing to wait for
    for name, prefix in (("forward", ""), ("backward", "backward_")):
        costs = _shared_out(pieces[name])
        found |= {f"{prefix}{kind}_ns": 1e3 * each for kind, each in costs.items()}
    return found


def _shared_out(pieces: list[tuple[int, int, int, float]]) -> dict[str, float]:
    """µs of an operator, of one of a library, and of a view: by least squares, at least 0, over the medians of pieces alike,
    each weighing as much as it is frequent."""
    alike = defaultdict(list)
    for *counts, us in pieces:
        alike[tuple(counts)].append(us)
    if len(pieces) < FEWEST or len(alike) < 3:
        return {}
    weight = np.sqrt([len(each) for each in alike.values()])
    matrix = np.array(list(alike), dtype=float)
    found, _ = nnls(matrix * weight[:, None], np.array([statistics.median(each) for each in alike.values()]) * weight)
    seen = matrix.sum(axis=0) > 0
    return {kind: each for kind, each, any_ in zip(("op", "library_op", "view"), found, seen) if any_}


def _collect(node: Node, pieces: dict[str, list]) -> None:
    if node.name.startswith(BACKWARD):
        if "AccumulateGrad" not in node.name:
            _take(node, pieces["backward"])
    elif node.name.startswith("aten::"):
        _take(node, pieces["forward"])
    elif not node.name.startswith("Optimizer"):
        for each in node.inside:
            _collect(each, pieces)


def _take(node: Node, pieces: list) -> None:
    calls = [each for each in node.all() if each.category == "cuda_runtime"]
    counts = _counted(node)
    strange = any(each.category == "cpu_op" and not each.name.startswith(("aten::", "autograd::")) and
                  not each.name.endswith(("Backward0", "Backward1")) and each.inside for each in node.all())
    if strange or any(each.dur_us > LONGEST_US for each in calls) or not counts:
        return
    operators = counts["operator"] + counts["library"]
    if operators and sum(each.name in LAUNCHES for each in calls) < operators:
        return  # on CPU tensors, at least in part
    own_us = node.dur_us - sum(each.dur_us for each in calls)
    pieces.append((counts["operator"], counts["library"], counts["view"], own_us))


def _counted(node: Node) -> Counter:
    """Operators, those of a library, and views as the virtual GPU would see them: what PyTorch makes of others is taken
    apart."""
    kind = _kind(node.name) if node.name.startswith("aten::") else None
    return Counter([kind]) if kind is not None else sum((_counted(each) for each in node.inside), Counter())


@functools.cache
def _kind(name: str) -> str | None:
    """"operator", "library", "view", or None: made of others, without work of its own, or unknown to this PyTorch."""
    packet = getattr(torch.ops.aten, name.partition("::")[2], None)
    if packet is None or name.startswith(("aten::empty", "aten::resize", "aten::result_type")):
        return None
    func = getattr(packet, packet.overloads()[0])
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return None
    schema = func._schema
    if packet.__name__ in LIBRARY_OPERATORS:
        return "library"
    return "view" if not schema.is_mutable and any(r.alias_info for r in schema.returns) else "operator"


# -- Python -----------------------------------------------------------------------------------------


def resnet_gaps_us(trace: Trace) -> dict[tuple[str, str], list[float]]:
    """Pair of a ResNet's operators that follow each other in its forward pass → the times between them."""
    found = defaultdict(list)

    def walk(nodes: list[Node]) -> None:
        for first, second in itertools.pairwise(nodes):
            if first.name in _RESNET and second.name in _RESNET:
                found[_RESNET[first.name], _RESNET[second.name]].append(
                    second.start_us - first.start_us - first.dur_us)
        for node in nodes:
            if not node.name.startswith(("aten::", BACKWARD)):
                walk(node.inside)

    for outermost in threads(trace):
        walk(outermost)
    return found


def resnet_calls() -> dict[tuple[str, str], float]:
    """The same pair → how many functions Python calls in between, on average."""
    import torchvision.models

    python = python_work.counter(lambda file: location.is_program(file) and file != __file__)
    seen: list[tuple[str, int]] = []

    class Listen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            python.pause()
            name = func._schema.name.partition("::")[2]
            if name in _RESNET.values():
                seen.append((name, python.take()))
            try:
                return func(*args, **(kwargs or {}))
            finally:
                python.resume()

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

    with torch.device("meta"):
        network, images = torchvision.models.resnet50(), torch.empty(2, 3, 64, 64)
    network(images)
    with Listen():
        python.start()
        network(images)
        python.stop()
    pairs = defaultdict(list)
    for (first, _), (second, calls) in itertools.pairwise(seen):
        pairs[first, second].append(calls)
    return {pair: statistics.mean(calls) for pair, calls in pairs.items()}


def python_costs(gaps_us: dict[tuple[str, str], list[float]], calls: dict[tuple[str, str], float]) -> dict[str, float]:
    """``python_call_ns`` and ``binding_ns`` (between two operators with no call in between), by least squares over the
    pairs' medians, each weighing as much as it is frequent. Empty where the trace is of no ResNet."""
    pairs = [pair for pair in gaps_us if pair in calls]
    if sum(len(gaps_us[pair]) for pair in pairs) < FEWEST:
        return {}
    weight = np.sqrt([len(gaps_us[pair]) for pair in pairs])
    between = np.array([statistics.median(gaps_us[pair]) for pair in pairs])
    matrix = np.array([[1.0, calls[pair]] for pair in pairs])
    binding, each = np.linalg.lstsq(matrix * weight[:, None], between * weight, rcond=None)[0]
    return {"binding_ns": 1e3 * binding, "python_call_ns": 1e3 * each}


# -- all hosts --------------------------------------------------------------------------------------


def fit(hosts: dict[str, Trace]) -> dict:
    """What the file of constants holds: the medians over the hosts, and beside them each host's own."""
    calls, found = resnet_calls(), {}
    for name, trace in hosts.items():
        costs = costs_of(trace)
        if costs:
            found[name] = {**costs, **python_costs(resnet_gaps_us(trace), calls)}

    return {"shared": shared(found, without_profiler()), "cards": {},
            "hosts": {name: {key: round(value) for key, value in each.items()} for name, each in found.items()}}


def without_profiler() -> dict[str, float]:
    """Of the hosts that measured operators with a pair of events and no profiler: the median time (ns) from the first event
    to the kernel, for ``add`` and for ``bmm``, which goes through cuBLAS (:mod:`gapless.fidelity.hosts`)."""
    devices = measuring_hosts.shipped().values()
    return {op: statistics.median(1e3 * each["share"] * each["floor_us"][op] for each in devices) for op in ("add", "bmm")}


def shared(found: dict[str, dict[str, float]], gap_ns: dict[str, float]) -> dict[str, int]:
    """The constants: medians over the traced hosts ``found``, times the ratio in which ``add`` takes a host without a
    profiler less (``gap_ns``); operators so that with their launch they take what was measured without it."""
    def middle(*names: str, and_more: float = 0) -> float:
        return statistics.median(each[name] + (and_more if not name.startswith("backward") else 0)
                                 for each in found.values() for name in names if name in each)

    # From Python there is a binding around each operator; in a backward pass there is the engine instead.
    traced = {name: middle(name, f"backward_{name}", and_more=middle("binding_ns")) for name in ("op_ns", "view_ns")}
    traced |= {name: middle(name) for name in ("launch_ns", "sync_ns", "python_call_ns")}
    ratio = gap_ns["add"] / (traced["op_ns"] + traced["launch_ns"])
    launch_ns = ratio * traced["launch_ns"]
    return {"op_ns": round(gap_ns["add"] - launch_ns), "library_op_ns": round(gap_ns["bmm"] - launch_ns),
            **{name: round(ratio * traced[name]) for name in ("view_ns", "launch_ns", "sync_ns", "python_call_ns")}}


def main() -> None:
    """Fit, show, and write the file where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write hardware/cards/fitted/host.json")
    parser.add_argument("--source", default="", help="where the traces are from")
    options = parser.parse_args()
    found = {"source": options.source, "command": "python -m gapless.fidelity.fit.host TRACE.json.gz … --write",
             **fit({path.name.removesuffix(".json.gz"): Trace.read(path) for path in options.traces})}
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if options.write:
        (fitted.FOLDER / "host.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
