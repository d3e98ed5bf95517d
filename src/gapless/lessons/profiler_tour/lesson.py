"""Lesson 01: a tour of the profiler. What its views show is computed from the trace.

After "What's New in PyTorch Profiler 1.9" (PyTorch blog, 2021): its views, and its example, ResNet-50 with batch 4 against
32; the code is ours.
"""

from __future__ import annotations

from collections.abc import Callable

from ...course.exercise import Exercise, Lesson, Program
from ...evidence import views
from . import cases, explain, functions, right, stage
from .mistaken_choices import BATCHES, IDLE
from .mistaken_shares import EFFICIENCY, OCCUPIED, UTILIZATION
from .mistaken_tables import MEMORY, OPERATORS, SOURCES
from .quick import QUICK
from .workload import training_step

EXERCISES = (
    Exercise(
        name="gpu_utilization",
        slow=functions.gpu_utilization,
        right=views.gpu_utilization,
        cases=cases.utilization_cases,
        ask=stage.ask_trace,
        mistakes=UTILIZATION,
        explain=explain.utilization,
        points={"values": 4},
        hints=(
            "Two things are wrong in what you were given: what is counted, and what it is divided by. Which of them shows "
            "on a trace with one stream?",
            "Go through the kernels by their start (`trace.spans` is in that order) and remember how far the time is "
            "covered already. A kernel adds only what lies beyond. For the divisor look for the spans called "
            "`ProfilerStep#…`.",
            "Let `reached` be the first step's start. `reached = max(reached, span.end_us)` after adding "
            "`max(0, span.end_us - max(span.start_us, reached))`. Divide by the later of the "
            "last step's end and the end of the last kernel, memcpy or memset, minus the first step's start.",
        ),
    ),
    Exercise(
        name="sm_efficiency",
        slow=functions.sm_efficiency,
        right=views.sm_efficiency,
        cases=cases.efficiency_cases,
        ask=stage.ask_trace,
        mistakes=EFFICIENCY,
        explain=explain.efficiency,
        points={"values": 4},
        hints=(
            "A kernel with 64 blocks on 80 SMs keeps at most 0.8 of the card busy, for as long as it runs. What do two such "
            "kernels do that run at the same time?",
            "Sort all starts and ends. Between two neighbours nothing changes: there, add up the blocks per SM of the "
            "kernels that run, and take at most 1.",
            "`sum(min(1, sum(b for s, e, b in kernels if s <= left and e >= right)) * (right - left) for left, right in "
            "zip(cuts, cuts[1:]))`, divided by the steps' time as in the exercise before.",
        ),
    ),
    Exercise(
        name="achieved_occupancy",
        slow=functions.achieved_occupancy,
        right=views.achieved_occupancy,
        cases=cases.occupancy_cases,
        ask=stage.ask_trace,
        mistakes=OCCUPIED,
        explain=explain.occupancy,
        points={"values": 2},
        hints=(
            "A kernel of 2 µs and one of 2 ms: which of them tells more about where the time goes?",
            "A mean with weights: the sum of value times weight, by the sum of the weights. A kernel without that value has "
            "no weight.",
            "Weight by `span.end_us - span.start_us`, divide by the sum of those durations (not by the steps' time), and by "
            "100, since the trace has per cent.",
        ),
    ),
    Exercise(
        name="choose_batch_size",
        slow=functions.choose_batch_size,
        right=right.right_choose_batch_size,
        cases=cases.batch_cases,
        ask=stage.ask_batch,
        mistakes=BATCHES,
        explain=explain.batch,
        points={"values": 3},
        hints=(
            "What do you pay for, a busy GPU or samples trained on? Compute the second for each candidate.",
            "Throughput is batch size divided by step time. It rises with the batch and then flattens: beyond that point a "
            "larger batch costs memory and buys nothing.",
            "Collect `batch / measure(batch).step_ms` for those that fit; return the smallest batch whose value is at least "
            "0.95 of the largest. The candidates may come in any order.",
        ),
    ),
    Exercise(
        name="top_operators",
        slow=functions.top_operators,
        right=right.right_top_operators,
        cases=cases.operator_cases,
        ask=stage.ask_trace,
        mistakes=OPERATORS,
        explain=explain.operators,
        points={"values": 4},
        absolute_tolerance=1e-3,
        hints=(
            "What you were given adds up the time that the *host* spent in an operator. Which time was asked for, and "
            "when does that work run?",
            "Three hops: a kernel's `args[\"correlation\"]` is also that of the runtime call that launched it; the "
            "operators around that call, on the same `span.thread`, are those in whose total the kernel counts.",
            "First a dict: correlation → µs of work. Then, for each runtime call with an entry, the operators with "
            "`op.thread == call.thread and op.start_us <= call.start_us < op.end_us`: total for all of them, self for the "
            "one that starts last. Operators that launched nothing count their calls too.",
        ),
    ),
    Exercise(
        name="memory_by_operator",
        slow=functions.memory_by_operator,
        right=right.right_memory_by_operator,
        cases=cases.memory_cases,
        ask=stage.ask_trace,
        mistakes=MEMORY,
        explain=explain.memory,
        points={"values": 4},
        hints=(
            "A `[memory]` event with negative bytes is a free. Which of the four numbers should see it?",
            "For each change of the GPU's memory (`Device Type` 1): which operators are around that moment on the same "
            "thread? All of them count it, but only the innermost counts it as its own. An event's thread is "
            "`(str(event[\"pid\"]), str(event[\"tid\"]))`.",
            "`around = [op for op in operators if op.thread == thread and op.start_us <= event[\"ts\"] < op.end_us]`; add "
            "the bytes to `size_increase_bytes` of all, and where they are positive to `allocation_bytes`; the same for the "
            "`self_…` numbers of `max(around, key=lambda op: op.start_us)`.",
        ),
    ),
    Exercise(
        name="source_of",
        slow=functions.source_of,
        right=right.right_source_of,
        cases=cases.source_cases,
        ask=stage.ask_trace,
        mistakes=SOURCES,
        explain=explain.source,
        points={"values": 4},
        absolute_tolerance=1e-3,
        hints=(
            "When the kernel runs the host is somewhere else already. Which moment of the host's has to do with the kernel?",
            "Find the runtime call with the kernel's correlation. The Python frames around it on the same thread are "
            "nested: the innermost for which `line_of` gives a line is the one.",
            "The backward pass launches from a thread of its own, without Python: where there is no line on the launching "
            "thread, take the innermost around that moment on the thread of the `ProfilerStep#` blocks.",
        ),
    ),
    Exercise(
        name="why_idle",
        slow=functions.why_idle,
        right=right.right_why_idle,
        cases=cases.idle_cases,
        ask=stage.ask_trace,
        mistakes=IDLE,
        explain=explain.idle,
        points={"values": 5},
        hints=(
            "While the GPU is idle, what does the host do? Look at one step of each of the three programs above: is the "
            "host's row full or empty?",
            "Host row empty for most of the step: it prepares data, and the profiler does not see it. Host row full: it "
            "launches as fast as it can; then ask how much of the card each kernel fills, `blocks per SM`.",
            "Share of the steps' time inside operators that contain a launch: below one half it is the loader. Else the "
            "mean of `min(1, blocks per SM)`, weighted by duration: below one half the batch is small.",
        ),
    ),
)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """A training step with larger and larger batches. There is nothing to mend: ``fixed`` is not used."""

    def program(batch_size: int, article: str) -> Program:
        return Program(f"batch {batch_size}", lambda device: training_step(batch_size, device), article, samples=batch_size)

    return [program(4, "the start"), program(8, "—"), program(16, "—"), program(32, "GPU utilisation +60.68 points")]


LESSON = Lesson(
    id="01_profiler_tour",
    title="A tour of the profiler",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=lambda device: "ResNet-50, images of 3×224×224, float32",
    article="batch 4 → 32, PyTorch 1.9",
    quick=QUICK,
)


