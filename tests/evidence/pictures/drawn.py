"""What a timeline's figure really shows: read off its pixels."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import PathPatch


def patches(axes):
    """The filled areas by their names, such as ``stream 7: kernels``."""
    return {patch.get_label(): patch for patch in axes.patches if isinstance(patch, PathPatch)}


def drawn_shares(figure, panel, dpi=110):
    """(row, kind) → the share of the row's ground that the kind's ink covers, from the first moment shown to the last.

    The figure is painted again with one area at a time, in black.
    """
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(dpi)
    canvas.draw()
    figure.set_layout_engine("none")  # what is hidden keeps its room
    (axes,) = figure.axes
    areas = patches(axes)
    for artist in [*axes.get_children(), *figure.legends]:
        artist.set_visible(False)
    found = {}
    for row, baseline, height in panel.places:
        (left, low), (right, high) = axes.transData.transform([(0, baseline), (panel.scene.end_ms, baseline - height)])
        for name, patch in areas.items():
            if name.startswith(f"{row.name}: "):
                patch.set(visible=True, facecolor="black", hatch=None)
                canvas.draw()
                patch.set_visible(False)
                ink = 1 - np.asarray(canvas.buffer_rgba())[..., 0] / 255
                found[row.name, name.removeprefix(f"{row.name}: ")] = float(ink.sum()) / ((right - left) * (high - low))
    return found
