"""``python docs/figures``: draw the figures that lessons show, as SVG for a page of either theme and as PNG.

A picture in Markdown cannot take the page's ink: a mid-tone one is used, readable on white and on near-black. Times are
examples and have no scale.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

FOLDER = Path(__file__).parent
INK = "#7a828b"  # a contrast of 3.9 with white and 4.8 with #111111
WAIT = {"facecolor": "none", "edgecolor": "#d9541e", "hatch": "////", "linewidth": 1.2}
HOST = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.2}
KERNEL = {"facecolor": "#3b7dc4", "edgecolor": "#3b7dc4", "linewidth": 0.6}
IDLE = {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8, "linestyle": (0, (2, 2))}

ALTS = {
    "two_workers": """\
Two workers and the rail between them. The host, on the left, pins slips to a rail, one for each kernel that it
launches, and goes on at once. The rail is the launch queue: it has room for about 1000 slips; numbers 3 to 8 hang
there. The device, on the right, takes the slips off in order and works on number 2. If the rail is full, the host waits
for a place; if it is empty, the device is idle.""",
    "where_a_wait_bites": """\
Two pairs of timelines, host above device. Both show the same two steps, each of one long kernel and five short ones,
with one wait a step. Above, the wait stands in mid-step, before the short kernels: when the host goes on, the device
has nothing left to do, and it is idle before every short kernel, since each is over sooner than the next one is
launched. Below, the wait stands at the end of the step: the short kernels were launched while the long one ran, and the
device is idle once a step, until the next long kernel is launched. There the two steps are done earlier.""",
    "architecture": """\
The floor plan of gapless, in three columns. Left, a cell's way to points, from top to bottom: a cell of the notebook;
learner checks it in the notebook, grading in a sandbox; course/gather asks the function, times and profiles it;
evidence says what was seen; course/checks judge it; results.json brings verdicts and points to the gradebook. Middle, an
operator's way to a kernel: an operator of PyTorch; face has registered the device; core/dispatch makes one call of it;
the CPU computes the values, and hardware/kernels says which kernels CUDA runs; hardware/times says how long each takes;
hardware/clock puts it on the timeline; face/kineto writes the trace that evidence reads. Right, the floors of
src/gapless, each of which imports only from those below it: commands, audit, fidelity, grading, learner, lessons,
course, measure, evidence, and then the rooms of vgpu: as_cuda, face, libraries, boundary, distributed, compiling, host,
operators, core, ordering, process, hardware.""",
}

# Column of the floor plan → its boxes, from the top. The floors are those of tests/test_house.py.
CELL = (("a cell of the notebook", "# exercise: NAME"), ("learner · grading", "in the notebook · in a sandbox"),
        ("course/gather", "asks, times and profiles it"), ("evidence", "a trace, a report: what was seen"),
        ("course/checks", "judge it, in words"), ("results.json", "verdicts and points for the gradebook"))
OPERATOR = (("torch.add(x, y)", "x and y on vgpu:0"), ("vgpu/face", "registered the device"),
            ("vgpu/core/dispatch", "one call: the CPU makes the values"), ("vgpu/hardware/kernels", "which kernels CUDA runs"),
            ("vgpu/hardware/times", "how long each takes on the card"), ("vgpu/hardware/clock", "host, launch queue, streams"),
            ("vgpu/face/kineto", "the trace"))
FLOORS = ("commands", "audit", "fidelity", "grading", "learner", "lessons", "course", "measure", "evidence")
ROOMS = ("as_cuda", "face", "libraries", "boundary", "distributed", "compiling", "host", "operators", "core", "ordering",
         "process", "hardware")


def box(ax, x, y, width, height, look, text="", colour=INK, size=9.5):
    ax.add_patch(Rectangle((x, y), width, height, **look))
    if text:
        ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=colour, fontsize=size, clip_on=False)


def arrow(ax, start, end):
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=INK, linewidth=1.3))


def canvas(width, height, right, top):
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, right)
    ax.set_ylim(0, top)
    ax.axis("off")
    return figure, ax


def two_workers() -> Figure:
    figure, ax = canvas(9.2, 3.1, 92, 31)
    say = {"color": INK, "ha": "center", "fontsize": 9.5}
    box(ax, 3, 12, 17, 12, HOST, "host\n(CPU, Python)", size=11)
    box(ax, 72, 12, 17, 12, HOST)
    ax.text(80.5, 21, "device (GPU)", color=INK, ha="center", fontsize=11)
    box(ax, 76, 13.5, 9, 5, KERNEL, "2", colour="white", size=11)
    ax.plot((24, 68), (22, 22), color=INK, linewidth=2.2)
    for place, number in enumerate(range(8, 2, -1)):
        x = 28 + 6.6 * place
        ax.plot((x + 2.2, x + 2.2), (22, 19.4), color=INK, linewidth=0.9)
        box(ax, x, 14.4, 4.4, 5, HOST, str(number), size=11)
    arrow(ax, (20.5, 17), (27, 17))
    arrow(ax, (66, 17), (71.5, 17))
    ax.text(46, 25.6, "the rail: the launch queue, room for about 1000 slips", **say)
    ax.text(11.5, 9.2, "pins a slip for each kernel\n(a launch, a few µs)\nand goes on at once", va="top", **say)
    ax.text(46, 9.2, "full: the host waits for a place\nempty: the device stands idle", va="top", **say)
    ax.text(80.5, 9.2, "takes the slips in order;\na kernel may take µs or many ms", va="top", **say)
    return figure


def lay(kernels, waits_after, launch=1.0, sync=0.6):
    """Where launches, waits and kernels of these lengths lie, each as (start, length): a launch takes ``launch``; behind the
    kernels numbered ``waits_after`` the host waits until the device has come that far, and goes on ``sync`` later."""
    host, waits, device, now, free = [], [], [], 0.0, 0.0
    for number, length in enumerate(kernels):
        host.append((now, launch))
        now += launch
        device.append((max(now, free), length))
        free = sum(device[-1])
        if number in waits_after:
            waits.append((now, free + sync - now))
            now = free + sync
    return host, waits, device


def where_a_wait_bites() -> Figure:
    step = [9.0, *[0.35] * 5]  # a long kernel and five short ones
    rows = (("a wait in mid-step, before short kernels", lay(step * 2, (0, 6)), "idle before every short kernel"),
            ("the wait at the end, before the next step's long kernel", lay(step * 2, (5, 11)), "one gap a step"))
    figure, ax = canvas(9.2, 4.7, 39, 22)
    left = 3.6
    for (title, (host, waits, device), remark), top in zip(rows, (20.6, 10.6)):
        ax.text(left, top, title, color=INK, fontsize=11, fontweight="bold", va="center")
        for name, y in (("host", top - 3.2), ("device", top - 5.8)):
            ax.text(left - 0.4, y + 0.9, name, color=INK, ha="right", va="center", fontsize=9.5)
        for start, length in host:
            box(ax, left + start, top - 3.2, length, 1.8, HOST)
        for start, length in waits:
            box(ax, left + start, top - 3.2, length, 1.8, WAIT)
        for (start, length), before in zip(device, [(1.0, 0.0), *device]):
            idle = start - sum(before)
            if idle > 0.1:
                box(ax, left + start - idle + 0.08, top - 5.4, idle - 0.16, 1.0, IDLE)
            box(ax, left + start + 0.03, top - 5.8, length - 0.06, 1.8, KERNEL)
        end = left + sum(device[-1])
        ax.plot((end, end), (top - 6.6, top - 3.4), color=INK, linewidth=0.9, linestyle=":")
        ax.text(end + 0.3, top - 5.2, "two steps\nare done", color=INK, fontsize=9, va="center")
        ax.text(left + 10.2, top - 7.0, remark, color=INK, fontsize=9.5, va="center")
    for x, look, text in ((3.6, HOST, "a launch"), (9.6, WAIT, "the host waits"), (17.6, KERNEL, "a kernel"),
                          (23.6, IDLE, "the device is idle")):
        box(ax, x, 0.9, 1.4, 1.0, look)
        ax.text(x + 1.8, 1.4, text, color=INK, va="center", fontsize=9.5)
    return figure


def architecture() -> Figure:
    figure, ax = canvas(9.2, 6.2, 92, 62)
    for left, title, boxes in ((2, "from a cell to points", CELL), (35, "from an operator to a kernel", OPERATOR)):
        ax.text(left, 59, title, color=INK, fontsize=11, fontweight="bold")
        height = 55 / len(boxes)
        for place, (name, does) in enumerate(boxes):
            top = 56 - place * height
            box(ax, left, top - height + 2.4, 29, height - 2.4, HOST)
            ax.text(left + 14.5, top - height / 2 + 2.3, name, color=INK, ha="center", va="center", fontsize=10)
            ax.text(left + 14.5, top - height / 2 - 0.2, does, color=INK, ha="center", va="center", fontsize=8.5)
            if place:
                arrow(ax, (left + 14.5, top + 2.4), (left + 14.5, top))
    ax.text(68, 59, "the floors", color=INK, fontsize=11, fontweight="bold")
    for place, name in enumerate((*FLOORS, *ROOMS)):
        inside = place >= len(FLOORS)
        top = 56 - 2.55 * place - (1.6 if inside else 0)
        box(ax, 70 if inside else 68, top - 2.2, 20 if inside else 22, 2.2, HOST, name, size=8.5)
    bottom = 56 - 2.55 * (len(FLOORS) + len(ROOMS)) - 1.6
    box(ax, 68, bottom - 0.5, 23, 2.55 * len(ROOMS) + 1.9, IDLE)
    ax.text(69, 56 - 2.55 * len(FLOORS) - 1.0, "vgpu", color=INK, fontsize=8.5, va="center")
    return figure


def draw() -> None:
    """Write each figure as SVG and PNG, with its alternative text inside and in a .md beside it."""
    for name, make in (("two_workers", two_workers), ("where_a_wait_bites", where_a_wait_bites),
                       ("architecture", architecture)):
        figure, alt = make(), " ".join(ALTS[name].split())
        with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):  # an <img> has no fonts of the page
            figure.savefig(FOLDER / f"{name}.svg", transparent=True, metadata={"Date": None, "Description": alt})
        figure.savefig(FOLDER / f"{name}.png", transparent=True, dpi=130, metadata={"Description": alt})
        (FOLDER / f"{name}.md").write_text(alt + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw()
