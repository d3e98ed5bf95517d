"""Lesson 07: the exercises with a compiler: one kernel, one graph, and one compilation for all lengths."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import cases, compiled_cases, compiled_mistakes, explain, functions, right, stage
from .compilations import seen_compilations, seen_graphs

GELU = Exercise(
    name="gelu",
    slow=functions.gelu,
    cases=cases.gelu_cases,
    ask=stage.ask_elementwise,
    mistakes=compiled_mistakes.GELU,
    explain=explain.elementwise,
    relative_tolerance=1e-3,
    trial=cases.ELEMENT_TRIAL,
    points={"values": 2, "kernels": 2, "step_time": 1},
    fewer_kernels=8,
    max_time_ratio={"step_time": 0.5},
    advice={"kernels": "Each operator is a kernel that reads and writes everything. Who could put them together for you?",
            "step_time": "The same numbers go to memory and come back once for every operator."},
    step_is="a forward and backward pass",
    hints=(
        "Nothing is wrong with the formula. Five kernels run where one could: which function of PyTorch's makes one kernel "
        "of "
        "what a function does?",
        "`torch.compile` takes a function and returns one. Nothing is compiled until the first call.",
        "Write `@torch.compile` above `def gelu(x):`, or `gelu = torch.compile(gelu)` below it.",
    ),
)

FORWARD = Exercise(
    name="forward",
    slow=functions.forward,
    right=right.right_forward,
    cases=compiled_cases.forward_cases,
    ask=stage.ask_forward,
    mistakes=compiled_mistakes.FORWARD,
    see=seen_graphs,
    explain=explain.forward,
    relative_tolerance=1e-3,
    trial=compiled_cases.FORWARD_TRIAL,
    points={"values": 3, "syncs": 2},
    advice={"item": "`.item()` gives Python a number, and Dynamo cannot go on without it: the graph ends here. Leave the "
                    "number on the device: an operator takes a tensor without dimensions as well"},
    step_is="a forward and backward pass",
    hints=(
        "`print(torch._dynamo.explain(forward)(x, weight))` counts the graphs and names the lines between them. What does "
        "each "
        "of these lines want from Python?",
        "A number of the device's may stay a tensor: `h.abs().max()`. (What `.item()` gives has no gradient: `.detach()`.) "
        "A "
        "choice can be the device's as well: compute both, and choose with `torch.where`. And who reads what is printed in "
        "every step?",
        "Without the `print`: `h = h / h.abs().max().detach()`, `h = torch.where(h.mean() > 0, torch.tanh(h), "
        "F.softplus(h))`. "
        "`torch.compile(forward, fullgraph=True)` makes a break an error.",
    ),
)

MAKE_STEP = Exercise(
    name="make_step",
    slow=functions.make_step,
    cases=compiled_cases.length_cases,
    ask=stage.ask_lengths,
    see=seen_compilations,
    right=right.right_make_step,
    mistakes=compiled_mistakes.MAKE_STEP,
    explain=explain.lengths,
    relative_tolerance=1e-3,
    points={"values": 5},
    hints=(
        "`TORCH_LOGS=recompiles` says for each compilation which *guard* failed: what did the compiled code take for "
        "granted? Two things change from call to call here.",
        "Lengths: `dynamic=False` asks for a graph of its own for each. The list: a graph that looks at it is right for one "
        "length of the *list* only. Does the compiled function have to see it?",
        "`compiled = torch.compile(loss)` of a function that computes and nothing else; `step` writes down the length, then "
        "returns `compiled(batch)`. By default the first length is compiled as it is, and the second one makes it a symbol; "
        "`dynamic=True`, or `torch._dynamo.mark_dynamic(batch, 1)`, does so at once.",
    ),
)
