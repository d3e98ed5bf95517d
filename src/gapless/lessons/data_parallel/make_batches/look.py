"""Lesson 09: what an epoch's batches make the ranks wait for, in numbers and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest

import numpy as np

from ....evidence.pictures.figure import new_figure

WORLD, BATCH = 4, 16
_STEPS_SHOWN = 24
_COLOURS, _MARKS = ("#3b7dc4", "#16936c", "#a87800", "#7f8b97"), "osD^"


def sentences(count: int = 4000, seed: int = 0) -> list[int]:
    """Lengths in tokens, drawn: most are short, a few long."""
    return [int(length) for length in np.clip(np.random.default_rng(seed).lognormal(3.2, 0.7, count), 1, 512)]


def tokens_by_step(make_batches: Callable, lengths: list[int], epoch: int = 0) -> np.ndarray:
    """[steps, ranks]: what each rank has in each step, its samples padded to its longest; 0 where it has no batch."""
    ranks = make_batches(list(lengths), WORLD, BATCH, epoch)
    return np.array([[len(batch) * max((lengths[place] for place in batch), default=0) for batch in step]
                     for step in zip_longest(*ranks, fillvalue=())])


def epoch_in_words(make_batches: Callable, lengths: list[int], epoch: int = 0) -> str:
    """What the ranks compute, in tokens, of which some are padding; and how long they wait for the slowest."""
    tokens = tokens_by_step(make_batches, lengths, epoch)
    counts = (tokens > 0).sum(0)
    paced = WORLD * int(tokens.max(1).sum())
    return (f"batches of each rank: {', '.join(map(str, counts))}; tokens: {sum(lengths)}, with padding "
            f"{int(tokens.sum())} ({tokens.sum() / sum(lengths):.2f}×), with the wait for each step's slowest rank {paced} "
            f"({paced / sum(lengths):.2f}×)")


def draw_steps(functions: Mapping[str, Callable], lengths: list[int]):
    """The tokens of each rank in the first steps of an epoch, a mark a rank; hatched, how long the others wait.

    Returns the figure. Raises ImportError without matplotlib.
    """
    found = {name: tokens_by_step(function, lengths) for name, function in functions.items()}
    words = "; ".join(f"{name}: ranks wait for {1 - tokens.mean(1).sum() / tokens.max(1).sum():.0%} of the epoch's tokens"
                      for name, tokens in found.items())
    figure = new_figure(9.0, 2.6 * len(found), f"Tokens of {WORLD} ranks in the first {_STEPS_SHOWN} steps. {words}.")
    most = max(tokens[:_STEPS_SHOWN].max() for tokens in found.values())
    for axes, (name, tokens) in zip(np.atleast_1d(figure.subplots(len(found), 1, sharex=True)), found.items()):
        shown = tokens[:_STEPS_SHOWN]
        steps = np.arange(len(shown))
        axes.fill_between(steps, shown.mean(1), shown.max(1), step="mid", facecolor="none", edgecolor="#d9541e",
                          hatch="////", linewidth=0.5, label="the others wait")
        for rank in range(WORLD):
            axes.plot(steps, shown[:, rank], _MARKS[rank], color=_COLOURS[rank], markersize=4, label=f"rank {rank}")
        axes.set_ylim(0, 1.1 * most)
        axes.set_ylabel("tokens", fontsize=9)
        axes.set_title(name, loc="left", fontsize=10.5, fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("step", fontsize=9)
    figure.axes[0].legend(frameon=False, fontsize=8.5, ncols=WORLD + 1, loc="upper right")
    return figure
