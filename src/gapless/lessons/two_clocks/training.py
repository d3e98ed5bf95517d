"""Lesson 00, second exercise: a training loop that logs each step, and what it must keep when its waits go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.evidence import Case
from ...course.exercise import Exercise
from ...course.known_values import values_of, with_values, write
from .known import KnownNetwork
from .roofline import card_for

WIDTH = 1024
ITERATIONS, EVERY = 30, 15  # of one call of `train` at full size
LEARNING_RATE = 0.01
LIMIT = 3.0  # of most trainings, small and large


# -- the loop as first written --------------------------------------------------------------------


def train(model, optimizer, batches, limit, every, log):
    """Train ``model`` on ``batches``, a list of (x, y) on the device, and log a line for each step.

    A line tells the step's loss, the mean so far, and how many losses were above ``limit``. ``log(text)`` takes a line.
    ``every``: after so many steps the host may wait.
    """
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if loss > limit:
            high += 1
        loss.backward()
        optimizer.step()
        total += loss.item()
        log(f"step {number}: loss {loss:.6f}, mean {total / number:.6f}, {high} above {limit}")


# -- the same with some of its waits cured, for the headline ---------------------------------------


def train_without_if(model, optimizer, batches, limit, every, log):
    """The ``if`` takes the number that ``.item()`` has read anyway."""
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value > limit:
            high += 1
        total += value
        log(f"step {number}: loss {loss:.6f}, mean {total / number:.6f}, {high} above {limit}")


def train_with_one_read(model, optimizer, batches, limit, every, log):
    """The text takes it too."""
    total, high = 0.0, 0
    for number, (x, y) in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value > limit:
            high += 1
        total += value
        log(f"step {number}: loss {value:.6f}, mean {total / number:.6f}, {high} above {limit}")


# -- networks -------------------------------------------------------------------------------------


def make_network(layers: int = 1, width: int = WIDTH) -> nn.Sequential:
    """``layers`` times a linear layer of ``width`` and a ReLU, then a linear layer to one number."""
    stack: list[nn.Module] = []
    for _ in range(layers):
        stack += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(width, 1))


DEEP_LAYERS, DEEP_ROWS = 20, 4096


def deep_step(device: torch.device) -> Callable[[], None]:
    """A training step that keeps the device busy for long and the host for a short time: 20 layers, batch 4096.

    Nothing in it waits. On the virtual GPU call it inside ``full_size``.
    """
    model = make_network(DEEP_LAYERS).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, y = torch.randn(DEEP_ROWS, WIDTH, device=device), torch.randn(DEEP_ROWS, 1, device=device)

    def step():
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

    return step


def rows_for(device: torch.device) -> int:
    """The batch that keeps the device busy for about 0.25 ms, by its arithmetic and its memory: somewhat longer than the
    host needs, so that neither has much more to do and waiting costs a good deal."""
    card = card_for(device)
    # A row: one product forward and one for the weights' gradient; its activations written and read about ten times.
    seconds = (4 * WIDTH**2 / (card.peak_flops["float32"] * card.math_share("matmul", "float32"))
               + 10 * 4 * WIDTH / (card.bandwidth_bytes_per_s * card.memory_share("pointwise")))
    return max(64, round(0.25e-3 / seconds / 64) * 64)


# -- one call at full size -------------------------------------------------------------------------


def training_run(function: Callable, device: torch.device, iterations: int = ITERATIONS, every: int = EVERY
                 ) -> Callable[[], None]:
    """A function without arguments that calls ``function`` (``train`` or another like it) for ``iterations`` steps.

    The network's time is real (or simulated), its losses are drawn: so it is known what each line has to say. On the virtual
    GPU they are drawn anew for each call. It raises RuntimeError where not every batch was trained on or a line is wrong.
    """
    rows, rng = rows_for(device), np.random.default_rng()  # nobody can know beforehand what it draws
    network = make_network().to(device)  # without values where shapes are simulated
    with with_values(device):
        x, answer = torch.randn(rows, WIDTH, device=device), torch.randn(rows, 1, device=device)
        errors = torch.randn(rows, 1)
        errors /= errors.square().mean().sqrt()
        targets = [torch.empty_like(answer) for _ in range(iterations)]
    model = KnownNetwork(network, answer)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def draw() -> list[float]:
        """Write targets that give other losses, without the virtual GPU's clock noticing; returns the losses."""
        wanted = np.where(rng.random(iterations) < 0.3, rng.uniform(1.1, 2.0, iterations), rng.uniform(0.2, 0.9, iterations))
        inner = values_of(answer)
        for y, loss in zip(targets, LIMIT * wanted):  # none so near the limit that rounding decides
            write(y, inner + (errors * loss**0.5).to(inner.device))
        return [F.mse_loss(inner, values_of(y)).item() for y in targets]

    def one_iteration():
        optimizer.zero_grad()
        F.mse_loss(model(x), targets[0]).backward()
        optimizer.step()

    losses = draw()
    with with_values(device):
        least = iterations * (_kernels_of(one_iteration, device) - 1)

    def step():
        known, lines = draw() if device.type == "vgpu" else losses, []

        def log(text):
            lines.append(text)

        batches = [(x, y) for y in targets]
        with with_values(device):
            launched = _kernels_of(lambda: function(model, optimizer, batches, LIMIT, every, log), device)
        if len(lines) != iterations:
            raise RuntimeError(f"{len(lines)} lines were logged for {iterations} steps")
        if launched < least:
            raise RuntimeError(f"{launched} kernels were launched, fewer than {iterations} training steps have")
        _check_lines(lines, known)

    return step


def _check_lines(lines: list[str], losses: list[float]) -> None:
    """Raises RuntimeError for the first line that does not say what it should."""
    total, high = 0.0, 0
    for number, (line, loss) in enumerate(zip(lines, losses, strict=True), start=1):
        total += loss
        high += loss > LIMIT
        wanted = f"step {number}: loss {loss:.6f}, mean {total / number:.6f}, {high} above {LIMIT}"
        own, right = _PARTS.fullmatch(line) if isinstance(line, str) else None, _PARTS.fullmatch(wanted)
        if (own is None or any(own[part] != right[part] for part in ("number", "high", "limit"))
                or not all(_nearly(own[part], right[part]) for part in ("loss", "mean"))):
            raise RuntimeError(f"line {number} is {str(line)[:80]!r} and should be {wanted!r}")


def _kernels_of(function: Callable, device: torch.device) -> int:
    """How many kernels a call launches on the virtual GPU; 0 elsewhere."""
    if device.type != "vgpu":
        function()
        return 0
    before = vgpu.timeline().kernel_count
    function()
    return vgpu.timeline().kernel_count - before


# -- the inputs on which results are compared -----------------------------------------------------


def cases(seed: int) -> list[Case]:
    """Small trainings with some high losses, and the ends at which loops go wrong. A limit is exact in float32."""
    rng = np.random.default_rng(seed)

    def case(name: str, steps: int, every: int, limit: float, scale: float = 1.0) -> Case:
        rows, width = 4, 6
        y = rng.normal(size=(steps, rows, 1)) * np.where(rng.random((steps, 1, 1)) < 0.3, 3.0, 1.0) * scale
        return Case(name, {"x": rng.normal(size=(steps, rows, width)).astype(np.float32), "y": y.astype(np.float32)},
                    {"every": every, "limit": limit, "seed": int(rng.integers(2**31))})

    return [
        case("a high loss now and then", 23, 5, LIMIT),
        case("as many steps as are read at once", 12, 4, LIMIT),
        case("fewer steps than are read at once", 3, 10, LIMIT),
        case("one step", 1, 1, LIMIT),
        case("no loss above the limit", 11, 3, 2.0**20),
        case("every loss above the limit", 11, 3, 0.0),
        case("large numbers", 17, 4, 2.0**20, scale=10.0),
    ]


_BUSY_MS = 1.0


def _stay_busy(device: torch.device) -> None:
    """Queue a millisecond of work, so that the device is behind the host as in a real training."""
    if device.type == "vgpu":
        vgpu.timeline().launch("spin_kernel", round(_BUSY_MS * 1e6))
    elif device.type == "cuda":
        torch.cuda._sleep(round(_BUSY_MS * 1.5e6))  # in cycles of the GPU's clock


NO_LINE = "no line"


def _observe(model: nn.Module, device: torch.device, every: int) -> tuple[Callable[[str], None], Callable[[], dict]]:
    """Sees when each step's loss is there and when its line is logged: (``log`` for the loop, what was ``seen``).

    ``seen()["late"]`` and ``["early"]`` say in words which line came too late, and which before its number can have been
    there.
    """
    lines: list[str] = []
    ready_ns: list[int] = []
    late = early = NO_LINE
    forward = model.forward

    def watched(*args):
        output = forward(*args)
        _stay_busy(device)
        ready_ns.append(vgpu.timeline().device_ready_ns if device.type == "vgpu" else 0)
        return output

    # What was seen is in variables that no object carries as an attribute, so that nobody writes it by mistake.
    def log(text: str) -> None:
        nonlocal late, early
        if not isinstance(text, str):
            raise TypeError(f"log takes a line of text, not a {type(text).__name__}")
        lines.append(text)
        number, steps = len(lines), len(ready_ns)
        if steps - number > 2 * every and late == NO_LINE:
            late = f"line {number} came after step {steps}, with every={every}"
        if number > steps and early == NO_LINE:
            early = f"line {number}, and the network had been called {steps} times"
        if number <= steps and device.type == "vgpu" and vgpu.timeline().host_ns < ready_ns[number - 1] and early == NO_LINE:
            early = f"line {number}, before the device had come to step {number}'s loss"

    model.forward = watched
    return log, lambda: {"lines": list(lines), "late": late, "early": early}


def ask(function: Callable, case: Case, device: torch.device) -> dict:
    """What ``function`` logs and learns on the case's batches."""
    options = case.options
    model = small_network(case).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, y = (torch.from_numpy(np.array(case.inputs[name])).to(device) for name in ("x", "y"))
    log, seen = _observe(model, device, options["every"])
    function(model, optimizer, list(zip(x, y)), options["limit"], options["every"], log)
    weights = [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]
    return {**seen(), "weights": weights}


def small_network(case: Case) -> nn.Sequential:
    """The network that the case trains, with weights of its own: PyTorch's random numbers are everybody's."""
    rng = np.random.default_rng(case.options["seed"])
    width = case.inputs["x"].shape[-1]
    model = make_network(1, width)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(rng.uniform(-1, 1, tuple(parameter.shape)) / width**0.5))
    return model


# -- why an answer is wrong -----------------------------------------------------------------------


def explain(case: Case, found: dict, wanted: dict) -> str | None:
    """The commonest reasons for what was found."""
    own, right = found["lines"], wanted["lines"]
    if not own:
        return "No line was logged: call `log(text)` for each step."
    if len(own) < len(right) and own == right[:len(own)]:
        return (f"The lines of the last {len(right) - len(own)} step(s) are missing. The number of steps need not be a "
                "multiple of `every`: read what is left after the loop.")
    if len(own) != len(right):
        return f"There are {len(own)} lines for {len(right)} steps: one line for each step is wanted."
    if found["early"] != NO_LINE and "had been called" not in found["early"]:
        return ("A copy with `non_blocking=True` returns before it has happened: what was logged is what the memory held "
                "before. Record an event behind the copy, and `synchronize()` the event before you read.")
    differ = next((i for i, pair in enumerate(zip(own, right)) if pair[0] != pair[1]), None)
    if differ is not None:
        return _why_line(own[differ], right[differ], differ + 1, case)
    if found["late"] != NO_LINE:
        return ("A line may come late, but at most 2 × `every` steps: somebody is watching. Read the losses back every "
                "`every` steps.")
    if "had been called" in found["early"]:
        return "A line was logged before the network was called for its step: each batch goes through `model(x)` once."
    return "The lines are right and the trained weights are not: is every batch trained on, in its order?"


_PARTS = re.compile(r"step (?P<number>.*): loss (?P<loss>.*), mean (?P<mean>.*), (?P<high>.*) above (?P<limit>.*)")


def _why_line(own: str, right: str, number: int, case: Case) -> str:
    found, wanted = _PARTS.fullmatch(own), _PARTS.fullmatch(right)
    if found is None or found["limit"] != wanted["limit"]:
        return "The text of a line has to stay as it was, to the last digit."
    if found["number"] != wanted["number"]:
        return "The lines must come in the order of the steps, each with the number of its own step, from step 1."
    if found["loss"] != wanted["loss"]:
        return (f"Is that the loss of step {number} itself, after the updates of all steps before? A list of losses keeps "
                "each step's own tensor; one tensor that is written again and again holds the last.")
    if found["mean"] != wanted["mean"]:
        why = "The loss is right and the mean is not. It is of all steps so far: their sum, divided by this step's number."
        if _nearly(found["mean"], wanted["mean"]):
            why += (" Only the last digits differ: add up Python numbers, in the order of the steps. A sum kept on the "
                    "device in float32 rounds differently.")
        return why
    why = (f"Loss and mean are right and the count is not: it counts the losses above {case.options['limit']:g} up to this "
           "step, this one included.")
    if found["high"].isdigit() and int(found["high"]) > int(wanted["high"]):
        why += " Yours already contains steps that came after it: count on the host, line by line."
    return why


def _nearly(own: str, right: str) -> bool:
    """Whether two numbers, as text, differ by no more than float32's rounding may bring about."""
    try:
        return math.isclose(float(own), float(right), rel_tol=1e-5, abs_tol=2e-6)
    except ValueError:
        return False


EXERCISE = Exercise(
    name="train",
    slow=train,
    truth_on_device=True,
    cases=cases,
    ask=ask,
    explain=explain,
    step=training_run,
    points={"values": 3, "syncs": 3, "step_time": 2},
    step_is=f"a call of {ITERATIONS} training steps",
    # Read every 15: two waits, and one more for who reads in the background.
    max_syncs=3,
    # Wide, for a real clock's noise: without waits it is 0.7 on the simulated A10G, with one a training step 0.77.
    max_time_ratio={"step_time": 0.85},
    hints=(
        "Three lines of the loop want a Python number or a yes or no from the device: the `if`, the `.item()`, the text of "
        "the log. Who needs the answer at once, and who could have it a few steps later?",
        "Nobody: all three only serve the log, and the log can come a little later. Keep each step's `loss.detach()` in a "
        "list, which makes nobody wait. After `every` steps bring them all to the host at once; then compare, add up and "
        "log, line by line.",
        "Every `every` steps, and once more after the loop if something is left: `values = torch.stack(kept).tolist()`, one "
        "wait for all of them. Then for each value: compare it, `total += value`, and log its line with the number of *its* "
        "step.",
    ),
)
