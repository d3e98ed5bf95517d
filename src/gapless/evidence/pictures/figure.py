"""A matplotlib figure that a notebook displays by itself, and its file."""

from __future__ import annotations

import io
import os
from functools import cache

from ...files import write_bytes
from .themed import mime_bundle


@cache
def _figure_type():
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'gapless[plots]'") from error

    class Displayed(Figure):
        """A figure that a notebook displays by itself, with an alternative text and HTML ``controls`` below."""

        alt = ""
        controls = ""

        def _repr_mimebundle_(self, include=None, exclude=None):
            # A figure made without pyplot has no display of its own.
            return mime_bundle(self, self.alt, self.controls, include is None or "text/html" in include)

    return Displayed


def new_figure(width_in: float, height_in: float, alt: str):
    """An empty figure that a notebook displays by itself, with the alternative text ``alt``. Raises ImportError without
    matplotlib."""
    figure = _figure_type()(figsize=(width_in, height_in), layout="constrained", facecolor="white")
    figure.alt = alt
    return figure


def save(figure, path: str | os.PathLike) -> None:
    """Write a figure of :func:`new_figure` as PNG with its alternative text inside; the file appears whole or not at all.

    Raises OSError where the folder cannot be written.
    """
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150, metadata={"Description": figure.alt})
    write_bytes(path, content.getvalue())
