"""Lesson 00: the host's clock and the device's, why a stopwatch can be wrong by a factor of ten, and what makes a host wait.

The slip that it explains is in Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3" (2023); programs
and code are our own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, explain, functions, mistakes, right, stage
from .quick import QUICK
from .workload import CHECKED, ITERATIONS, WIDTH, rows_for, training_run

EXERCISES = (
    Exercise(
        name="time_step",
        slow=functions.time_step,
        right=right.right_time_step,
        truth_on_device=True,
        valueless=True,  # only time matters
        cases=cases.stopwatch_cases,
        ask=stage.ask_time_step,
        see=cases.see_stopwatch,
        explain=explain.time_step,
        relative_tolerance=0.01,
        points={"values": 5},
        hints=(
            "When `step()` returns, the host has queued the step's work. Who says that the device has done it? Ask this at "
            "both ends of the measurement: when the clock starts, and when it stops.",
            "`synchronize(device)` makes the host wait until the device has done all that is queued. You need it twice: "
            "before you start the clock, so that no earlier work is counted, and before you stop it. Not in between. (Two "
            "events of `torch.Event(enable_timing=True)` do it too.)",
            "In this order: `warmup` calls of `step()`; `synchronize(device)`; start the clock; `steps` calls of `step()`; "
            "`synchronize(device)`; stop the clock. Return the difference, divided by `steps`.",
        ),
    ),
    Exercise(
        name="train",
        slow=functions.train,
        truth_on_device=True,
        behind=True,
        cases=cases.training_cases,
        mistakes=mistakes.TRAIN_MISTAKES,
        ask=stage.ask_train,
        see=cases.see_training,
        explain=explain.training,
        full=cases.full_training,
        trial=cases.TRAINING_TRIAL,
        points={"values": 3, "syncs": 3, "step_time": 2},
        step_is=f"a call of {CHECKED} training steps",
        # Read every 6: two waits, and one more for who reads in the background.
        max_syncs=3,
        # Wide, for a real clock's noise: without waits it is 0.72 on the simulated A10G, with one a training step 0.82 at
        # full size and 0.91 in the trial, whose steps begin with a shorter kernel.
        max_time_ratio={"step_time": 0.85},
        hints=(
            "Three lines of the loop want a Python number or a yes or no from the device: the `if`, the `.item()`, the text "
            "of the log. Who needs the answer at once, and who could have it a few steps later?",
            "Nobody: all three only serve the log, and the log can come a little later. Keep each step's `loss.detach()` in "
            "a list, which does not wait. After `every` steps bring them all to the host at once; then compare, add up "
            "and log, line by line.",
            "Every `every` steps, and once more after the loop if something is left: `values = torch.stack(kept).tolist()`, "
            "one wait for all of them. Then for each value: compare it, `total += value`, and log its line with the number "
            "of *its* step.",
        ),
    ),
    Exercise(
        name="predict_step_ms",
        slow=functions.predict_step_ms,
        right=right.right_step_ms,
        truth_on_device=True,
        cases=cases.prediction_cases,
        ask=stage.ask_predict,
        explain=explain.prediction,
        relative_tolerance=0.1,
        points={"values": 5},
        hints=(
            "Three things can be the slowest: the arithmetic, the memory, or the host that launches the kernels. Which of "
            "them happen at the same time, and which one after the other?",
            "Within one kernel the arithmetic and the memory traffic overlap: the larger time counts, and never less than "
            "`card.kernel_ms`. Kernels run one after the other: add them up, each `launches[i]` times. The host launches "
            "while the device works: again the larger counts, of the two totals.",
            "For each entry: `ms = max(1000 * f / card.flops_per_s, 1000 * b / card.bytes_per_s, card.kernel_ms)`. The "
            "device needs the sum of `n * ms`, the host `sum(launches) * card.launch_ms`. Return the larger of the two.",
        ),
    ),
)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training loop with its logging as first written, then with one wait after another cured."""

    def program(name: str, function: Callable) -> Program:
        return Program(name, lambda device: training_run(function, device), "–")

    return [
        program("`if`, `.item()` and a text, each step", functions.train),
        program("the `if` uses what `.item()` has read", functions.train_without_if),
        program("so does the text", functions.train_with_one_read),
        program("`train` as mended in exercise 2", fixed["train"]),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "30 iterations (one step of the table) of a network of width 1024, batch 1024"."""
    return f"{ITERATIONS} iterations (one step of the table) of a network of width {WIDTH}, batch {rows_for(device)}"


LESSON = Lesson(
    id="00_two_clocks",
    title="Two clocks",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
