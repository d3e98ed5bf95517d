"""Lesson 06: how ``training_without_debugging`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, count

import torch
import torch.nn.functional as F
from torch import nn

from .... import vgpu
from ....course.plain import Unusable
from ....measure.device import clock_ms, synchronize

MOST_NORM = 3.0  # of the gradients of a step that is taken
REPEATABLE = "deterministic algorithms: on"


@dataclass
class Moment:
    """What an aid knows about a step. ``number``: from 0; ``every``: in how many steps a rare check is made once; ``noted``:
    lines for the log, each with a number on the device or None."""

    model: nn.Sequential
    optimizer: torch.optim.Optimizer
    x: torch.Tensor
    y: torch.Tensor
    number: int
    every: int
    noted: list[tuple[str, torch.Tensor | None]] = field(default_factory=list)


@contextmanager
def _on_outputs(moment: Moment, look) -> Iterator[None]:
    """``look(output)`` after each layer of the forward pass."""
    handles = [layer.register_forward_hook(lambda layer, args, output: look(output)) for layer in moment.model]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _on_gradients(moment: Moment, look) -> Iterator[None]:
    """``look(gradients)`` before the optimizer's step."""
    def before(optimizer, args, kwargs):
        look([parameter.grad for group in optimizer.param_groups for parameter in group["params"]])

    handle = moment.optimizer.register_step_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


def anomaly_mode(moment: Moment):
    """PyTorch's own: the backward pass looks for nan in each gradient, and the host asks."""
    return torch.autograd.set_detect_anomaly(True)


def first_step_checked(moment: Moment):
    """Anomaly mode in the first step, and never again."""
    return nullcontext() if moment.number else torch.autograd.set_detect_anomaly(True)


def launches_wait(moment: Moment):
    """The host waits for each kernel. On CUDA the environment decides that for a whole run (CUDA_LAUNCH_BLOCKING=1), so the
    host waits after each layer there."""
    if moment.x.device.type == "vgpu":
        return vgpu.launch_blocking()
    return _on_outputs(moment, lambda output: synchronize(output.device))


def ranges_emitted(moment: Moment):
    """A range around each operator, for a tool that is not listening."""
    return torch.autograd.profiler.emit_nvtx()


def statistics_read(moment: Moment):
    """How large each layer's outputs are, as Python's numbers."""
    def look(output) -> None:
        float(output.detach().abs().mean())
        float(output.detach().abs().amax())

    return _on_outputs(moment, look)


def statistics_kept(moment: Moment):
    """The same, and nobody reads it: kernels, and no wait."""
    def look(output) -> None:
        output.detach().square().mean().sqrt()
        output.detach().abs().amax()

    return _on_outputs(moment, look)


@contextmanager
def forward_repeated(moment: Moment):
    """The forward pass once more, and whether it gives the same."""
    with torch.no_grad():
        if not torch.equal(moment.model(moment.x), moment.model(moment.x)):
            raise RuntimeError("two forward passes differ")
    yield


@contextmanager
def gradient_checked(moment: Moment):
    """In one step of ``every``: a number of the gradient against differences of the loss, which the host reads."""
    yield
    if moment.number % moment.every == moment.every - 1:
        weight = moment.model[0].weight
        with torch.no_grad():
            before = weight.clone()
            for shift in (1e-3, -1e-3):
                weight[0, 0] = before[0, 0] + shift
                for _ in range(3):
                    F.cross_entropy(moment.model(moment.x), moment.y).item()
            weight.copy_(before)


def explosions_skipped(moment: Moment):
    """Gradients that are too large, or nan, become 0. Nobody waits: the device chooses."""
    def look(gradients) -> None:
        norm = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, torch.where(norm < MOST_NORM, 1.0, 0.0))

    return _on_gradients(moment, look)


def norm_logged(moment: Moment):
    """The norm of the gradients, for the log."""
    def look(gradients) -> None:
        moment.noted.append(("norm of the gradients", torch.stack(torch._foreach_norm(gradients)).norm()))

    return _on_gradients(moment, look)


def norm_kept(moment: Moment):
    """The same, and nobody reads it."""
    return _on_gradients(moment, lambda gradients: torch.stack(torch._foreach_norm(gradients)).norm())


@contextmanager
def repeatable(moment: Moment):
    """Deterministic algorithms; the log says that the run can be repeated."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
        moment.noted.append((REPEATABLE, None))
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def ratio_added(moment: Moment):
    """In each step, the norm of the gradients over that of the weights. One step of ``every`` has it in the log, and only
    behind the lines of other aids."""
    yield
    parameters = list(moment.model.parameters())
    weights, gradients = (torch.stack(torch._foreach_norm(tensors)).norm() for tensors in (
        [parameter.detach() for parameter in parameters], [parameter.grad for parameter in parameters]))
    if moment.noted and moment.number and moment.number % moment.every == 0:
        moment.noted.append(("gradients over weights", gradients / weights))


@contextmanager
def shapes_checked(moment: Moment):
    """What the host knows anyway: shapes and dtypes."""
    if moment.x.dim() != 2 or moment.x.dtype != torch.float32 or len(moment.x) != len(moment.y):
        raise ValueError("a batch of another form")
    yield


@contextmanager
def weights_summed(moment: Moment):
    """In one step of ``every``: the sum of the first layer's weights, three times, which nobody reads."""
    if moment.number % moment.every == moment.every - 1:
        for _ in range(3):
            moment.model[0].weight.detach().sum()
    yield


AIDS = {function.__name__: function for function in (
    anomaly_mode, first_step_checked, launches_wait, ranges_emitted, statistics_read, statistics_kept, forward_repeated,
    gradient_checked, explosions_skipped, norm_logged, norm_kept, repeatable, ratio_added, shapes_checked, weights_summed)}
# No real clock tells 5 % of half a millisecond from 15. On a real GPU a step is said to take what it takes on the virtual
# A10G: the bare step of two layers, LAYER_MS for each other one, FIRST_MS more for the first step, and an aid's share of the
# bare step of two layers where that works. Shares are added up.
BARE_MS, LAYER_MS, FIRST_MS = 0.455, 0.143, 0.05
COST = {"anomaly_mode": 1.83, "first_step_checked": 1.63, "launches_wait": 0.155, "ranges_emitted": 0.054,
        "statistics_read": 0.69, "statistics_kept": 0.57, "forward_repeated": 0.41, "gradient_checked": 1.86,
        "explosions_skipped": 0.34, "norm_logged": 0.14, "norm_kept": 0.139, "repeatable": 0.033, "ratio_added": 0.335,
        "shapes_checked": 0.021, "weights_summed": 0.148}
STEPS = 4  # of a run: the first, and others with a rare check among them
FEATURES, WIDTH, CLASSES = 8, 16, 4
OFF, TRIED, NONE = "turned off", "what the runs tell", "none"
ALL_TOLD = "each aid from the others"


@dataclass(frozen=True)
class Run:
    """Of a training. ``step_ms``: the time of each step by the host's clock, the device done; ``log``: the lines that
    people read."""

    step_ms: list[float]
    log: list[str]


@dataclass(frozen=True)
class Training:
    """``aids``: the names of its debug aids. Each run begins with the same weights and the same batches; what an aid does is
    no attribute of this object.

    ``run(on, steps=STEPS)``: train with the aids ``on``, and no other; on a real GPU its times are about a virtual A10G's.
    ``steps(on)``: a function that takes the next step of a new training. Each call returns the step's lines for the log,
    each with a number on the device or None. Both raise ValueError for a name that no aid has.
    """

    aids: list[str]
    run: Callable[..., Run]
    steps: Callable[[Iterable[str]], Callable[[], list]]


def training_of(given, tried: list[list[str]] | None = None) -> Training:
    """The case's. ``tried`` gets the aids of each run."""
    options, weights = given.options, given.inputs["weights"]
    kinds, batches, device = options["kinds"], list(zip(given.inputs["x"], given.inputs["y"])), weights[0].device

    def run(on: Iterable[str], steps: int = STEPS) -> Run:
        on = list(on)
        take_step = begin(on)
        step_ms, noted = [], []
        synchronize(device)
        with vgpu.host_clock.counting() if device.type == "vgpu" else nullcontext():
            for _ in range(steps):
                start_ms = clock_ms(device)
                noted += take_step()
                synchronize(device)
                step_ms.append(clock_ms(device) - start_ms)
        if device.type != "vgpu":
            step_ms = [_tabled_ms(number, {kinds[name] for name in on}, options["every"], len(weights) // 2)
                       for number in range(steps)]
        return Run(step_ms, [line if value is None else f"{line}: {float(value):.4f}" for line, value in noted])

    def begin(on: Iterable[str]) -> Callable[[], list]:
        on = list(on)
        unknown = [name for name in on if name not in kinds]
        if unknown:
            raise ValueError(f"no aid is called {unknown[0]!r}; there are {', '.join(kinds) or 'none'}")
        if tried is not None:
            tried.append(on)
        layers = [(nn.ReLU(), nn.Linear(weight.shape[1], weight.shape[0])) for weight in weights[::2]]
        model = nn.Sequential(*chain.from_iterable(layers)).to(device)[1:]
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), weights):
                parameter.copy_(weight)
        optimizer, numbers = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), count()
        return lambda: step(model, optimizer, next(numbers), on)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int, on: list[str]) -> list:
        x, y = batches[number % len(batches)]
        moment = Moment(model, optimizer, x, y, number, options["every"])
        with ExitStack() as stack:
            for name in on:
                stack.enter_context(AIDS[kinds[name]](moment))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        noted = [(f"step {number}, {line}", value) for line, value in moment.noted]
        return [(f"loss of step {number}", loss.detach()), *noted]

    return Training(list(kinds), run, begin)


def _tabled_ms(number: int, kinds: set[str], every: int, layers: int) -> float:
    """What step ``number`` of a training of so many layers with these aids takes on the virtual A10G, about."""
    works = {"first_step_checked": not number, "gradient_checked": number % every == every - 1,
             "weights_summed": number % every == every - 1}
    aids_ms = BARE_MS * sum(COST[kind] for kind in kinds if works.get(kind, True))
    return BARE_MS + LAYER_MS * (layers - 2) + aids_ms + (0 if number else FIRST_MS)


def ask_training_without_debugging(function, given, device):
    """The aids that ``function`` turns off, and whether its runs can tell which."""
    tried: list[list[str]] = []
    training = training_of(given, tried)
    yield
    off = function(training)
    yield
    if not isinstance(off, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in off):
        nothing = "nothing: is there a `return`?" if off is None else f"a {type(off).__name__}."
        raise Unusable(f"it returned {nothing} Return a list of the names of the aids to turn off.")
    aids = list(given.options["kinds"])  # those of `training` are the function's to change
    unknown = [name for name in off if name not in aids]
    if unknown:
        raise Unusable(f"it would turn off {unknown[0]!r}, which is not one of the aids {aids}.")
    return {OFF: ", ".join(sorted(set(off))) or NONE, TRIED: _told(aids, tried)}


def _told(aids: list[str], tried: list[list[str]]) -> str:
    """Each aid has to be in another set of runs than the others, and neither in all nor in none."""
    runs = {aid: tuple(aid in on for on in tried) for aid in aids}
    alike = [aid for aid in aids if len(set(runs[aid])) < 2 or list(runs.values()).count(runs[aid]) > 1]
    return f"nothing of {alike[0]}" if alike else ALL_TOLD
