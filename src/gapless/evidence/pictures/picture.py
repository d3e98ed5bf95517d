"""Pictures of a timeline: the host above, the GPU's streams below.

Nothing depends on colour alone: waits are hatched and labelled, copies have a
hatch of their own, so that a picture survives a grey printer. The colours stand out
from a light page and from a dark one; text and axes are in the page's ink (:mod:`.themed`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ...words import counted
from ..traces.steps import DEVICE_WORK, Steps, launches_by_correlation, union_ms, work_in_steps
from ..traces.trace import Span, Trace
from .themed import mime_bundle

_STEPS_SHOWN = 3  # more steps look alike and squeeze each other
_STREAMS_SHOWN = 8
_LABELS_PER_STEP = 3
_LABEL_LEVELS = 3
_WIDTH_IN = 10.0
_ROW_IN = 0.5  # inches for one unit of the vertical axis
_LABEL_PT = 8
_CHARACTER_IN = 0.066  # a character of a label is about this wide
_LEVEL = 0.42
_SAME = 0.01  # two times that differ by a smaller share are about the same

_GREY = "#7f8b97"
# The last two digits of a colour are its opacity; a hatch takes none with it into SVG.
_LOOKS: dict[str, dict[str, Any]] = {
    "operators": {"facecolor": "#7f8b9755", "edgecolor": _GREY, "linewidth": 0.5},
    "the host waits": {"facecolor": "none", "edgecolor": "#d9541e", "linewidth": 1.1, "hatch": "////"},
    "kernels": {"facecolor": "#3b7dc4", "edgecolor": "#3b7dc4", "linewidth": 0.3},
    "copies": {"facecolor": "none", "edgecolor": "#16936c", "linewidth": 0.9, "hatch": "xxxxx"},
    # Of steps not shown, or of before the recording.
    "launched before these steps": {"facecolor": "none", "edgecolor": "#5f8fc4", "linewidth": 0.5, "hatch": "..."},
}
# A label lies on bars and hatches: it brings its own ground and ink.
_TAG = {"facecolor": "#fff3ea", "edgecolor": "#d9541e", "linewidth": 0.5}
_TAG_INK = "#6b2406"
_EARLIER = "launched before these steps"


@dataclass(frozen=True)
class _Label:
    """A wait's label: inside its bar (level -1), or a flag above it, to the right or the left."""

    text: str
    middle_ms: float
    left_ms: float
    right_ms: float
    level: int = -1


@dataclass
class _Scene:
    """What one timeline shows; times in milliseconds from the first step shown."""

    name: str
    end_ms: float = 0.0
    operators: list[tuple[float, float]] = field(default_factory=list)
    waits: list[tuple[float, float, str]] = field(default_factory=list)
    step_starts: list[tuple[float, str]] = field(default_factory=list)
    last_step_end_ms: float | None = None
    streams: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    earlier_ms: float = 0.0  # of the device's time, for work launched before the steps shown

    labels: list[_Label] = field(default_factory=list)

    @property
    def top(self) -> float:
        """The upper edge of the vertical axis, which leaves room for the labels."""
        return -0.12 - _LEVEL * (max((label.level for label in self.labels), default=-1) + 1)

    @property
    def bottom(self) -> float:
        """The lower edge of the vertical axis, below the streams."""
        return 1.2 + 0.8 * max(len(self.streams), 1)


def draw(report, *, title: str | None = None, ax=None, steps=None):
    """Draw the timeline of a :class:`gapless.StepReport` and return the matplotlib Figure, which a notebook displays.

    ``steps`` is a step's index or several (the first three where None); ``ax`` draws
    into axes of your own. Raises ImportError without matplotlib, ValueError for a report
    without its trace, IndexError for a step that is not there.
    """
    scene = _scene(report, steps)
    scene.labels = _labels(scene, scene.end_ms)
    if ax is not None:
        _paint(ax, scene, scene.end_ms, title or _title(report))
        ax.legend(handles=_legend([scene]), loc="upper center", bbox_to_anchor=(0.5, -0.22), **_LEGEND)
        return ax.figure
    figure = _figure(_WIDTH_IN, (scene.bottom - scene.top) * _ROW_IN + 1.35)
    _paint(figure.subplots(), scene, scene.end_ms, title or _title(report))
    figure.legend(handles=_legend([scene]), loc="outside lower center", **_LEGEND)
    figure.alt = alt_text(report)
    return figure


def draw_pair(before, after, path: str | os.PathLike | None = None, *, title: str | None = None, steps=None):
    """Draw two timelines, one above the other on one time scale, and name the time that was saved; with ``path``, save them
    too.

    Takes two reports and returns the Figure. Raises as :func:`draw` does.
    """
    reports = [before, after]
    if steps is None:  # as many of each
        fewest = min(_STEPS_SHOWN, *(report.steps for report in reports))
        steps = list(range(fewest)) or None
    scenes = [_scene(report, steps) for report in reports]
    end_ms = max(scene.end_ms for scene in scenes)
    for scene in scenes:
        scene.labels = _labels(scene, end_ms)
    heights = [scene.bottom - scene.top for scene in scenes]
    figure = _figure(_WIDTH_IN, sum(heights) * _ROW_IN + 2.6)
    panels = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    for panel, scene, report, word in zip(panels, scenes, reports, ("before", "after")):
        _paint(panel, scene, end_ms, f"{word} – {_title(report)}")
    panels[0].set_xlabel("")
    panels[0].tick_params(labelbottom=True)
    saved = _saved(reports, scenes)
    if saved:
        _paint_saved(panels[1], scenes, end_ms)
    if title or saved:
        figure.suptitle("\n".join(filter(None, (title, saved))), fontsize=11, fontweight="bold")
    figure.legend(handles=_legend(scenes), loc="outside lower center", **_LEGEND)
    figure.alt = f"Before: {alt_text(reports[0])} After: {alt_text(reports[1])}"
    if saved:
        figure.alt += f" {saved[0].upper()}{saved[1:]}."
    if path is not None:
        save(figure, path, figure.alt)
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


def _saved(reports, scenes: list[_Scene]) -> str:
    """The time between the two ends in words, or nothing where they are of different devices."""
    if _device(reports[0]) != _device(reports[1]) or not all(scene.step_starts for scene in scenes):
        return ""
    before_ms, after_ms = (scene.end_ms for scene in scenes)
    count = len(scenes[0].step_starts)
    what = "the step and its GPU work take" if count == 1 else f"{count} steps and their GPU work take"
    if abs(before_ms - after_ms) < _SAME * max(before_ms, after_ms):
        more = "about the same"
    else:
        more = f"{_short_ms(abs(before_ms - after_ms))} {'saved' if after_ms < before_ms else 'lost'}"
    return f"{what} {_short_ms(before_ms)} before, {_short_ms(after_ms)} after: {more} ({_kind(reports[0])})"


def _paint_saved(ax, scenes: list[_Scene], end_ms: float) -> None:
    """A double arrow from the end of the shorter to that of the longer, below the title of the second timeline."""
    left_ms, right_ms = sorted(scene.end_ms for scene in scenes)
    if right_ms - left_ms < _SAME * end_ms:
        return
    ax.axvline(right_ms, color=_GREY, linewidth=0.9, linestyle=":", zorder=1.5)
    ax.annotate("", (left_ms, 1.0), (right_ms, 1.0), arrowprops={"arrowstyle": "<->", "color": "black", "linewidth": 1.2})
    text = f"{_short_ms(right_ms - left_ms)} {'saved' if scenes[1].end_ms <= scenes[0].end_ms else 'lost'}"
    if 1.3 * _characters_ms(text, end_ms) < right_ms - left_ms:
        ax.text((left_ms + right_ms) / 2, 0.9, text, ha="center", va="bottom", fontsize=9, fontweight="bold", zorder=5)


def alt_text(report) -> str:
    """The picture in a sentence or two, for those who cannot see it."""
    scene = _scene(report, None) if report.trace is not None else _Scene("")
    whole = "one step" if report.steps else "the whole trace"
    text = (
        f"Timeline of {counted(report.steps, 'step') if report.steps else 'a profile'} on {_device(report)}: "
        f"{whole} takes {_short_ms(report.host_step_ms)} on the host and keeps the GPU busy "
        f"for {_short_ms(report.device_busy_ms)} on {counted(len(scene.streams), 'stream')}."
    )
    if scene.earlier_ms:
        text += f" First the GPU is busy for {_short_ms(scene.earlier_ms)} with what was launched before these steps."
    waits = report.syncs_in_steps
    if not waits:
        return text + " The host never waits."
    longest = max(waits, key=lambda sync: sync.wait_ms)
    where = f" at {longest.location}" if longest.location else ""
    return text + (
        f" The host waits {_short_ms(report.wait_ms)} of it ({counted(report.syncs_per_step, 'wait')}); the longest is "
        f"{longest.op or longest.name} with {_short_ms(longest.wait_ms)}{where}."
    )


def save(figure, path: str | os.PathLike, alt: str) -> None:
    """Write a figure as PNG with its alternative text inside; the file appears whole or not at all.

    Raises OSError where the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Description": alt})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _figure_type():
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'gapless[plots]'") from error

    class Timeline(Figure):
        """A figure that a notebook displays by itself, with an alternative text and HTML ``controls`` below."""

        alt = "A timeline."
        controls = ""

        def _repr_mimebundle_(self, include=None, exclude=None):
            # A figure made without pyplot has no display of its own.
            return mime_bundle(self, self.alt, self.controls, include is None or "text/html" in include)

    return Timeline


def new_figure(width_in: float, height_in: float, alt: str):
    """An empty figure that a notebook displays by itself, with the alternative text ``alt``. Raises ImportError without
    matplotlib."""
    figure = _figure(width_in, height_in)
    figure.alt = alt
    return figure


def _figure(width_in: float, height_in: float):
    return _figure_type()(figsize=(width_in, height_in), layout="constrained", facecolor="white")


def _device(report) -> str:
    return f"simulated {report.device_name}" if report.simulated else report.device_name


def _kind(report) -> str:
    return "simulated" if report.simulated else "measured"


def _title(report) -> str:
    whole = " a step" if report.steps else ""
    # Not "a step takes": the host's time in a profile is no step time.
    return (
        f"{_device(report)}: host {_short_ms(report.host_step_ms)}{whole}, "
        f"{_short_ms(report.wait_ms)} of it waiting; GPU busy {_short_ms(report.device_busy_ms)}{whole}"
    )


def _scene(report, chosen) -> _Scene:
    if report.trace is None:
        raise ValueError("this report has no trace to draw; make it with StepReport.from_trace(trace)")
    spans = report.trace.spans
    steps = Steps(spans)
    chosen = _chosen_steps(steps, chosen)
    work = work_in_steps(spans, steps, launches_by_correlation(spans), chosen or None)
    host = [span for span in spans if span.category in ("op", "runtime")]
    if chosen:
        origin_us = steps.spans[chosen[0]].start_us
        host_end_us = max(steps.spans[index].end_us for index in chosen)
    elif host or work:
        origin_us = min(span.start_us for span in (*host, *work))
        host_end_us = max((span.end_us for span in host), default=origin_us)
    else:
        return _Scene(_device(report), end_ms=1.0)
    end_us = max([host_end_us, *(span.end_us for span in work)])
    scene = _Scene(_device(report), end_ms=max((end_us - origin_us) / 1000.0, 1e-3))
    gap_ms = scene.end_ms / 1000.0
    scene.operators = _merged(
        [s for s in host if s.category == "op" and origin_us <= s.start_us < host_end_us], origin_us, gap_ms
    )
    first_us = steps.spans[0].start_us if len(steps) else (spans[0].start_us if spans else origin_us)
    shift_ms = (first_us - origin_us) / 1000.0
    for sync in report.syncs:
        start_ms = sync.start_ms + shift_ms
        if 0.0 <= start_ms < (host_end_us - origin_us) / 1000.0:
            label = f"{sync.op or sync.name}  {_short_ms(sync.wait_ms)}"
            scene.waits.append((start_ms, sync.wait_ms, label))
    for index in chosen:
        scene.step_starts.append(((steps.spans[index].start_us - origin_us) / 1000.0, f"step {index}"))
        scene.last_step_end_ms = (steps.spans[index].end_us - origin_us) / 1000.0
    earlier = _earlier(report.trace, work, origin_us, end_us) if chosen else []
    known = {id(span) for span in earlier}
    for name, members in _streams(sorted([*work, *earlier], key=lambda span: span.start_us)).items():
        own = [span for span in members if id(span) not in known]
        scene.streams[name] = {
            "kernels": _merged([s for s in own if s.category == "kernel"], origin_us, gap_ms),
            "copies": _merged([s for s in own if s.category != "kernel"], origin_us, gap_ms),
            _EARLIER: _merged([s for s in members if id(s) in known], origin_us, gap_ms),
        }
    scene.earlier_ms = union_ms([replace(span, start_us=max(span.start_us, origin_us)) for span in earlier])
    return scene


def _earlier(trace: Trace, work: Sequence[Span], origin_us: float, end_us: float) -> list[Span]:
    """The device's work between the two moments that was launched before the first, in order of time.

    Work whose launch is not in the trace counts if it comes before all other work of its stream, since a stream keeps the
    order of the launches.
    """
    launches = launches_by_correlation(trace.spans)
    shown = {id(span) for span in work}
    found, linked = [], set()
    for span in trace.spans:
        if span.category not in DEVICE_WORK:
            continue
        # Where no launch is known at all, the device's own times are the best there is.
        launch = launches.get(span.args.get("correlation")) if launches else span
        if launch is not None:
            linked.add(span.thread)
        before = launch.start_us < origin_us if launch is not None else span.thread not in linked
        if before and id(span) not in shown and span.end_us > origin_us and span.start_us < end_us:
            found.append(span)
    return found


def _chosen_steps(steps: Steps, chosen) -> list[int]:
    if chosen is None:
        return list(range(min(len(steps), _STEPS_SHOWN)))
    indices = sorted({chosen} if isinstance(chosen, int) else set(chosen))
    for index in indices:
        if not 0 <= index < len(steps):
            raise IndexError(f"step {index} is not in this trace, which has {counted(len(steps), 'step')}")
    return indices


def _streams(work: Sequence[Span]) -> dict[str, list[Span]]:
    """The work by stream, in the streams' order; the least used ones share the last row."""
    by_stream: dict[tuple, list[Span]] = {}
    for span in work:
        by_stream.setdefault(span.thread, []).append(span)
    several = len({device for device, _ in by_stream}) > 1
    kept = sorted(by_stream, key=lambda thread: -len(by_stream[thread]))
    kept, rest = kept[: _STREAMS_SHOWN - 1], kept[_STREAMS_SHOWN - 1 :]
    if len(rest) == 1:
        kept, rest = kept + rest, []
    kept.sort(key=lambda thread: (thread[0], len(thread[1]), thread[1]))
    rows = {(f"GPU {d} " if several else "") + f"stream {s}": by_stream[d, s] for d, s in kept}
    if rest:
        others = [span for thread in rest for span in by_stream[thread]]
        rows[f"{len(rest)} more"] = sorted(others, key=lambda span: span.start_us)
    return rows


def _merged(spans: Sequence[Span], origin_us: float, gap_ms: float) -> list[tuple[float, float]]:
    """(start, duration) of the spans, those too close to tell apart in one; in order of time."""
    bars: list[list[float]] = []
    for span in spans:
        start_ms, end_ms = max(span.start_us - origin_us, 0.0) / 1000.0, (span.end_us - origin_us) / 1000.0
        if bars and start_ms - bars[-1][1] <= gap_ms:
            bars[-1][1] = max(bars[-1][1], end_ms)
        else:
            bars.append([start_ms, end_ms])
    return [(start_ms, end_ms - start_ms) for start_ms, end_ms in bars]


def _short_ms(value_ms: float) -> str:
    for least_ms, digits in ((100, 0), (10, 1), (1, 2)):
        if value_ms >= least_ms:
            return f"{value_ms:.{digits}f} ms"
    return f"{value_ms:.2g} ms"


_LEGEND = {"ncols": 5, "frameon": False, "fontsize": 8.5, "handlelength": 2.4, "handleheight": 1.1}


def _legend(scenes: list[_Scene]) -> list:
    from matplotlib.patches import Patch

    used = {"operators", "the host waits"}
    for scene in scenes:
        for stream in scene.streams.values():
            used |= {kind for kind, bars in stream.items() if bars}
    return [Patch(label=kind, **look) for kind, look in _LOOKS.items() if kind in used]


def _paint(ax, scene: _Scene, end_ms: float, title: str) -> None:
    rows = [("host", 0.5)]
    _bars(ax, scene.operators, "operators", 0.0, 1.0, end_ms, zorder=2)
    _bars(ax, [wait[:2] for wait in scene.waits], "the host waits", 0.0, 1.12, end_ms, zorder=3)
    _paint_labels(ax, scene.labels)
    for index, (name, stream) in enumerate(scene.streams.items()):
        top = 1.3 + 0.8 * index
        rows.append((name, top + 0.275))
        _bars(ax, stream[_EARLIER], _EARLIER, top, 0.55, end_ms, zorder=1.8)
        _bars(ax, stream["kernels"], "kernels", top, 0.55, end_ms, zorder=2)
        # Lower than a kernel: a copy too thin for its hatch still looks different.
        _bars(ax, stream["copies"], "copies", top + 0.22, 0.33, end_ms, zorder=2.5)
    if not scene.streams:
        rows.append(("GPU", 1.575))
        ax.text(end_ms / 2, 1.575, "no work in this trace", ha="center", va="center", fontsize=_LABEL_PT)
    for _, middle in rows:
        ax.axhline(middle, color=_GREY, alpha=0.5, linewidth=0.6, zorder=1)
    top, bottom = scene.top, scene.bottom
    edges = [start_ms for start_ms, _ in scene.step_starts]
    if scene.last_step_end_ms is not None:
        edges.append(scene.last_step_end_ms)
    ax.vlines(edges, 0.0, bottom, color=_GREY, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1.5)
    ax.vlines(edges, top, 0.0, color=_GREY, linewidth=0.6, linestyle=":", zorder=1.5)  # among the labels
    free_from_ms = float("-inf")
    for start_ms, label in scene.step_starts:
        if start_ms >= free_from_ms:
            ax.text(start_ms, top - 0.06, label, va="bottom", fontsize=_LABEL_PT)
            free_from_ms = start_ms + _characters_ms(label + " ", end_ms)
    if scene.last_step_end_ms is not None and scene.last_step_end_ms < 0.05 * end_ms:
        # The host's steps are one stroke at this scale.
        text = f"  the host is done after {_short_ms(scene.last_step_end_ms)}"
        ax.text(scene.last_step_end_ms, 0.45, text, va="bottom", fontsize=_LABEL_PT, zorder=5)
    ax.set_xlim(-0.005 * end_ms, 1.005 * end_ms)
    ax.set_ylim(bottom, top)
    ax.set_yticks([middle for _, middle in rows], [name for name, _ in rows], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5, color=_GREY)
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.spines["bottom"].set_color(_GREY)
    start = scene.step_starts[0][1] if scene.step_starts else "the first event"
    ax.set_xlabel(f"ms from the start of {start}", fontsize=9)
    ax.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=20)


def _bars(ax, bars, kind: str, top: float, height: float, end_ms: float, zorder: float) -> None:
    from matplotlib.patches import Rectangle

    thinnest_ms = end_ms / 1500.0  # thinner would not show at all
    for start_ms, duration_ms in bars:
        box = Rectangle((start_ms, top), max(duration_ms, thinnest_ms), height, zorder=zorder, **_LOOKS[kind])
        ax.add_artist(box)  # not add_patch: that looks, for each, how far the axes reach, which are given theirs


def _characters_ms(text: str, end_ms: float) -> float:
    return len(text) * _CHARACTER_IN * end_ms / (_WIDTH_IN * 0.88)


def _labels(scene: _Scene, end_ms: float) -> list[_Label]:
    """Labels for the longest waits: as many as find a place without touching each other."""
    longest = sorted(scene.waits, key=lambda wait: -wait[1])
    wanted = longest[: _LABELS_PER_STEP * max(len(scene.step_starts), 1)]
    while wanted:
        labels = _placed(wanted, end_ms)
        if labels is not None:
            return labels
        wanted.pop()  # the shortest gives way
    return []


def _placed(waits: list[tuple[float, float, str]], end_ms: float) -> list[_Label] | None:
    inside, leftward, rightward = [], [], []
    for start_ms, wait_ms, text in waits:
        middle_ms, width_ms = start_ms + wait_ms / 2, _characters_ms(text, end_ms)
        if 1.15 * width_ms < wait_ms:
            inside.append(_Label(text, middle_ms, middle_ms, middle_ms))
        elif middle_ms + width_ms <= end_ms:
            rightward.append(_Label(text, middle_ms, middle_ms, middle_ms + width_ms))
        else:
            leftward.append(_Label(text, middle_ms, middle_ms - width_ms, middle_ms))
    # In this order a flag's pole stands clear of the flags below it.
    leftward.sort(key=lambda label: label.middle_ms)
    rightward.sort(key=lambda label: -label.middle_ms)
    flags: list[_Label] = []
    for flag in leftward + rightward:
        level = next((level for level in range(_LABEL_LEVELS) if _is_free(flag, level, flags)), None)
        if level is None:
            return None
        flags.append(replace(flag, level=level))
    return inside + flags


def _is_free(flag: _Label, level: int, flags: list[_Label]) -> bool:
    for other in flags:
        if level == other.level and flag.left_ms <= other.right_ms and other.left_ms <= flag.right_ms:
            return False
        if level > other.level and other.left_ms <= flag.middle_ms <= other.right_ms:
            return False
        if level < other.level and flag.left_ms <= other.middle_ms <= flag.right_ms:
            return False
    return True


def _paint_labels(ax, labels: list[_Label]) -> None:
    box = {**_TAG, "boxstyle": "round,pad=0.25"}
    for label in labels:
        if label.level < 0:
            ax.text(
                label.middle_ms,
                0.5,
                label.text,
                ha="center",
                va="center",
                fontsize=_LABEL_PT,
                color=_TAG_INK,
                bbox=box,
                zorder=5,
            )
            continue
        y = -0.1 - label.level * _LEVEL
        pole = [label.middle_ms, label.middle_ms]
        ax.plot(pole, [0.0, y - _LEVEL * 0.8], color="#d9541e", linewidth=0.8, zorder=5.5)
        side = "left" if label.right_ms > label.middle_ms else "right"
        text = f" {label.text}" if side == "left" else f"{label.text} "
        ax.text(
            label.middle_ms,
            y,
            text,
            ha=side,
            va="bottom",
            fontsize=_LABEL_PT,
            zorder=5,
        )
