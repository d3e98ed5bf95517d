"""Lesson 04: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, cases_augmenting, cases_prefetch, cases_workers, functions, mistakes, mistakes_workers, right
from .augmenting import ask_make_loader
from .explain_augmenting import explain_loader
from .explain_prefetch import explain_prefetch
from .measuring_workers import ask_best_workers
from .prefetching import BATCHES, ask_prefetch
from .quick import QUICK
from .stage import names
from .workload import ELEMENTS, training_step

EXERCISES = (
    Exercise(
        name="scale_down",
        slow=functions.scale_down,
        cases=cases.scaling_cases,
        mistakes=mistakes.SCALING_MISTAKES,
        full=cases.full_scaling,
        trial=cases.SCALING_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        hints=(
            "Which line needs to know on the host what only the device knows? Who else could decide?",
            "A factor of 1 changes nothing. Which factor do the two cases want, and how does one formula give both?",
            "`(limit / norm).clamp(max=1.0)` is the factor, a tensor: multiply by it, always.",
        ),
    ),
    Exercise(
        name="best_workers",
        slow=functions.best_workers,
        right=right.right_best_workers,
        truth_on_device=True,
        cases=cases_workers.workers_cases,
        ask=ask_best_workers,
        mistakes=mistakes_workers.WORKERS_MISTAKES,
        explain=mistakes_workers.explain_workers,
        points={"values": 5},
        hints=(
            "What is in the first epoch's time that no later epoch has? And if you measured the same loader twice, how far "
            "apart might the two figures be?",
            "For each candidate make the loader, let one epoch pass, then time several whole epochs and take their median. "
            "Of the candidates whose median is within 5 % of the smallest, return the smallest number.",
            "`statistics.median` of five times, each `clock_ms(device)` after a `for _ in loader: pass` less the one "
            "before it; then `min(n for n, ms in times.items() if ms <= 1.05 * min(times.values()))`.",
        ),
    ),
    Exercise(
        name="make_loader",
        slow=functions.make_loader,
        right=right.right_make_loader,
        truth_on_device=True,
        cases=cases_augmenting.loader_cases,
        ask=ask_make_loader,
        see=cases_augmenting.see_loader,
        explain=explain_loader,
        points={"values": 5},
        hints=(
            "Three things are wrong with the loader's settings, and one with what comes out of it. Print the noise of the "
            "first pixel of all images of an epoch, sorted: what do you see with two workers, and what with none?",
            "`pin_memory`, `persistent_workers` (not without workers). And each worker has a copy of `dataset.rng` in the "
            "same state: `worker_init_fn` is called in each worker when it starts, and there `get_worker_info()` knows the "
            "worker's `dataset` and a `seed` of its own.",
            "In `worker_init_fn`: `info = get_worker_info()`, then `info.dataset.rng = np.random.default_rng(info.seed)`. "
            "The rest: `pin_memory=True, persistent_workers=workers > 0`.",
        ),
    ),
    Exercise(
        name="prefetch",
        slow=functions.prefetch,
        cases=cases_prefetch.prefetch_cases,
        ask=ask_prefetch,
        explain=explain_prefetch,
        full=cases_prefetch.full_prefetch,
        trial=cases_prefetch.PREFETCH_TRIAL,
        points={"values": 2, "syncs": 2, "step_time": 2},
        step_is=f"an epoch of {BATCHES} batches, whose loop reads its loss in every step,",
        max_syncs=BATCHES,
        # On the simulated cards it is 0.6 to 0.75; with the copies on the loop's own stream, 1.
        max_time_ratio={"step_time": 0.83},
        advice={"to": "a copy to the device waits unless its memory is pinned *and* it is told `non_blocking=True`; a "
                      "loader pins only what it knows, so look (`is_pinned`)",
                "step_time": "The copies do not run beside the loop's kernels. They have to be on a stream of their own; "
                             "the next batch's has to be queued before this batch is yielded; and what the loop's stream "
                             "waits for is this batch's copy alone, not all that is queued on the other stream"},
        hints=(
            "While the device computes with a batch, its copy engine has nothing to do. Which copy could it make "
            "meanwhile, and when would that have to be queued: before this batch is yielded, or after?",
            "Queue the copy of batch i + 1 on a stream of your own (`with side:`), from pinned memory and with "
            "`non_blocking=True`, and only then yield batch i. Before it is yielded the loop's stream has to wait for "
            "*its* copy: an event recorded behind the copy. After the loop one batch is still in your hands.",
            "Keep `held = (batch, side.record_event())`. For each batch of the loader: copy it inside `with side:`; then, "
            "outside, if something is held, `torch.accelerator.current_stream().wait_event(event)`, "
            "`tensor.record_stream(…)` for each of its tensors, `yield`; then hold the new one. An error of the loader is "
            "kept until what is held has been yielded.",
        ),
    ),
)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The step with the function as handed out, and with the learner's."""
    return [Program(name, lambda device, scale=scale: training_step(scale, device), "–")
            for name, scale in (("as first written", functions.scale_down), ("no `if`", fixed["scale_down"]))]


def size_in_words(device: torch.device) -> str:
    """Such as "an update of 16.8 million numbers"."""
    return f"an update of {ELEMENTS / 1e6:.1f} million numbers"


LESSON = Lesson(
    id="04_data_loading",
    title="Data loading",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
