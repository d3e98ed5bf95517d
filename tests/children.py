"""Many short tasks, each of which may crash or hang: in child processes, a new one where one was lost."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import torch
from tqdm import tqdm

# What becomes of a task: "ok" and what it gave; else why not ("timeout", "crash", the name of what it raised) and in words.
Outcome = tuple[str, object]


def run_all(do: Callable, given: Sequence[Sequence], seconds: float, unit: str, jobs: int | None = None,
            then: Callable[[object, Outcome], None] = lambda task, outcome: None) -> list[tuple[object, Outcome]]:
    """(task, outcome) of each, with a progress bar. ``given``: lists of tasks; those of a list are done one after another, by
    one child while it lives; ``jobs`` lists at once, else all. ``do(task)`` runs there, with one thread, and may take so many
    seconds; ``then(task, outcome)`` runs here, one at a time, as soon as it is known."""
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    found: list[tuple[object, Outcome]] = []
    with ThreadPoolExecutor(jobs or len(given)) as pool, tqdm(total=sum(map(len, given)), unit=unit) as bar:
        one_at_a_time = Lock()

        def done(task, outcome: Outcome) -> None:
            with one_at_a_time:
                found.append((task, outcome))
                bar.update()
                then(task, outcome)

        for ended in [pool.submit(_run, context, do, list(tasks), seconds, done) for tasks in given]:
            ended.result()
    return found


def _run(context, do: Callable, tasks: list, seconds: float, done: Callable) -> None:
    """In the parent."""
    while tasks:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(theirs, do, tasks))  # no daemon: a task may have children
        child.start()
        theirs.close()
        alive = True
        while tasks and alive:
            outcome, alive = ("timeout", f"{seconds:g} s"), ours.poll(seconds)
            if alive:
                try:
                    outcome = ours.recv()
                except EOFError:
                    child.join()
                    outcome, alive = ("crash", f"exit status {child.exitcode}"), False
            done(tasks[0], outcome)
            tasks = tasks[1:]
        child.kill()
        child.join()


def _work(pipe, do: Callable, tasks: list) -> None:
    """In the child: one task after another, and how each went."""
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for task in tasks:
        try:
            pipe.send(("ok", do(task)))
        except BaseException as error:
            pipe.send((type(error).__name__, (str(error).strip().splitlines() or [""])[0][:200]))
