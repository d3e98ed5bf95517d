"""Lesson 00: a picture of the launch queue filling up."""

from __future__ import annotations

from collections.abc import Sequence

from ...evidence.picture import new_figure


def draw_host_steps(host_ms: Sequence[float], true_ms: float, device_text: str):
    """A bar for each step: how long it kept the host, in ms; a dashed line at what a step takes in a long run.

    Returns the figure, which a notebook displays with an alternative text. Raises ImportError without matplotlib.
    """
    full = next((i for i, ms in enumerate(host_ms) if ms > 0.5 * true_ms), None)
    story = (f"From step {full} on the host goes at the device's pace." if full is not None
             else "The host never has to wait for room in the queue.")
    alt = (f"Bar chart of {len(host_ms)} steps on {device_text}: step 0 keeps the host for {host_ms[0]:.2f} ms, the last "
           f"step for {host_ms[-1]:.2f} ms; a step truly takes {true_ms:.2f} ms. {story}")
    figure = new_figure(8.0, 3.0, alt)
    axes = figure.subplots()
    axes.bar(range(len(host_ms)), host_ms, color="#7f8b9777", edgecolor="#7f8b97", label="the host's time")
    axes.axhline(true_ms, color="#d9541e", linestyle="--", linewidth=1.2, label=f"the true step time, {true_ms:.1f} ms")
    axes.set_xlabel("step")
    axes.set_ylabel("ms")
    axes.set_title(f"How long each step keeps the host – {device_text}", loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, loc="center left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
