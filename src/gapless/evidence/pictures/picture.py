"""Pictures of a timeline: of one report, and of two above each other."""

from __future__ import annotations

import os

from ...words import counted
from .figure import new_figure, save
from .labels import WIDTH_IN, characters_ms
from .painting import GREY, ROW_IN, Panel, percent, put_legend
from .scene import STEPS_SHOWN, Scene, device_of, scene_of, short_ms

_SAME = 0.01  # two times that differ by a smaller share are about the same


def draw(report, *, title: str | None = None, ax=None, steps=None):
    """Draw the timeline of a :class:`gapless.StepReport` and return the matplotlib Figure, which a notebook displays.

    ``steps`` is a step's index or several (the first three where None); ``ax`` draws
    into axes of your own. Raises ImportError without matplotlib, ValueError for a report
    without its trace, IndexError for a step that is not there.
    """
    scene = scene_of(report, steps)
    panel = Panel(scene, scene.end_ms)
    if ax is not None:
        panel.paint(ax, title or _title(report))
        put_legend(ax, [scene], loc="upper center", bbox_to_anchor=(0.5, -0.22))
        return ax.figure
    figure = new_figure(WIDTH_IN, (panel.bottom - panel.top) * ROW_IN + 1.55, _in_words(report, scene))
    panel.paint(figure.subplots(), title or _title(report))
    put_legend(figure, [scene], loc="outside lower center")
    return figure


def draw_pair(before, after, path: str | os.PathLike | None = None, *, title: str | None = None, steps=None):
    """Draw two timelines, one above the other on one time scale, and name the time that was saved; with ``path``, save them
    too.

    Takes two reports and returns the Figure. Raises as :func:`draw` does.
    """
    reports = [before, after]
    if steps is None:  # as many of each
        fewest = min(STEPS_SHOWN, *(report.steps for report in reports))
        steps = list(range(fewest)) or None
    scenes = [scene_of(report, steps) for report in reports]
    end_ms = max(scene.end_ms for scene in scenes)
    panels = [Panel(scene, end_ms) for scene in scenes]
    heights = [panel.bottom - panel.top for panel in panels]
    figure = new_figure(WIDTH_IN, sum(heights) * ROW_IN + 2.8,
                        "Before: {} After: {}".format(*map(_in_words, reports, scenes)))
    axes = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    for panel, ax, report, word in zip(panels, axes, reports, ("before", "after")):
        panel.paint(ax, f"{word} – {_title(report)}")
    axes[0].set_xlabel("")
    axes[0].tick_params(labelbottom=True)
    saved = _saved(reports, scenes)
    if saved:
        _paint_saved(axes[1], scenes, end_ms)
        figure.alt += f" {saved[0].upper()}{saved[1:]}."
    if title or saved:
        figure.suptitle("\n".join(filter(None, (title, saved))), fontsize=11, fontweight="bold")
    put_legend(figure, scenes, loc="outside lower center")
    if path is not None:
        save(figure, path)
    return figure


def before_after(before, after, *, steps=None):
    """Two :class:`gapless.StepReport` as timelines, one above the other on one time scale, with the time that was saved.

    Returns the figure, which a notebook displays; without matplotlib, prints both reports and returns None. ``steps``: a
    step's index or several, by default the first three. Raises ValueError for a report without its trace, IndexError for a
    step that is not there.
    """
    try:
        return draw_pair(before, after, steps=steps)
    except ImportError:
        print(f"before:\n{before}\n\nafter:\n{after}")
        return None


def _in_words(report, scene: Scene) -> str:
    """The picture in a few sentences, for those who cannot see it."""
    whole = "one step" if report.steps else "the whole trace"
    rows = ", ".join(f"{row.name} for {percent(row.busy_ms / scene.end_ms)}" for row in scene.streams)
    text = (
        f"Timeline of {counted(report.steps, 'step') if report.steps else 'a profile'} on {device_of(report)}: "
        f"{whole} takes {short_ms(report.host_step_ms)} on the host and keeps the GPU busy "
        f"for {short_ms(report.device_busy_ms)} on {counted(len(scene.streams), 'stream')}; of all the time shown the GPU "
        f"is busy for {percent(scene.busy_ms / scene.end_ms)}{f' ({rows})' if len(scene.streams) > 1 else ''}."
    )
    if scene.earlier_ms:
        text += f" First the GPU is busy for {short_ms(scene.earlier_ms)} with what was launched before these steps."
    return f"{text} {_waits_in_words(report)}"


def _waits_in_words(report) -> str:
    waits = report.syncs_in_steps
    if not waits:
        return "The host never waits."
    longest = max(waits, key=lambda sync: sync.wait_ms)
    where = f" at {longest.location}" if longest.location else ""
    return (f"The host waits {short_ms(report.wait_ms)} of a step ({counted(report.syncs_per_step, 'wait')}); the longest "
            f"is {longest.op or longest.name} with {short_ms(longest.wait_ms)}{where}.")


def _saved(reports, scenes: list[Scene]) -> str:
    """The time between the two ends in words, or nothing where they are of different devices."""
    if device_of(reports[0]) != device_of(reports[1]) or not all(scene.step_starts for scene in scenes):
        return ""
    before_ms, after_ms = (scene.end_ms for scene in scenes)
    count = len(scenes[0].step_starts)
    what = "the step and its GPU work take" if count == 1 else f"{count} steps and their GPU work take"
    if abs(before_ms - after_ms) < _SAME * max(before_ms, after_ms):
        more = "about the same"
    else:
        more = f"{short_ms(abs(before_ms - after_ms))} {'saved' if after_ms < before_ms else 'lost'}"
    return f"{what} {short_ms(before_ms)} before, {short_ms(after_ms)} after: {more} ({_kind(reports[0])})"


def _paint_saved(ax, scenes: list[Scene], end_ms: float) -> None:
    """A double arrow from the end of the shorter to that of the longer, below the title of the second timeline."""
    left_ms, right_ms = sorted(scene.end_ms for scene in scenes)
    if right_ms - left_ms < _SAME * end_ms:
        return
    ax.axvline(right_ms, color=GREY, linewidth=0.9, linestyle=":", zorder=1.5)
    ax.annotate("", (left_ms, 1.1), (right_ms, 1.1), arrowprops={"arrowstyle": "<->", "color": "black", "linewidth": 1.2})
    text = f"{short_ms(right_ms - left_ms)} {'saved' if scenes[1].end_ms <= scenes[0].end_ms else 'lost'}"
    if 1.3 * characters_ms(text, end_ms) < right_ms - left_ms:
        ax.text((left_ms + right_ms) / 2, 1.0, text, ha="center", va="bottom", fontsize=9, fontweight="bold", zorder=5)


def _kind(report) -> str:
    return "simulated" if report.simulated else "measured"


def _title(report) -> str:
    whole = " a step" if report.steps else ""
    # Not "a step takes": the host's time in a profile is no step time.
    return (
        f"{device_of(report)}: host {short_ms(report.host_step_ms)}{whole}, "
        f"{short_ms(report.wait_ms)} of it waiting; GPU busy {short_ms(report.device_busy_ms)}{whole}"
    )
