"""A picture with sliders: what a number does is seen by moving it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping, Sequence


def explore(draw: Callable, **choices: Sequence) -> None:
    """Show what ``draw(**values)`` returns, with a slider for each of the ``choices``: a name → the values to choose from.

    ``explore(draw, batch=(4, 8, 16, 32))`` calls ``draw(batch=4)``, and again when the slider is moved. What ``draw`` prints
    is shown too, and an error as any cell's. Without ipywidgets, or outside Jupyter, the first values are drawn once, with a
    line on how to get sliders. Raises ValueError where a choice has no values.
    """
    choices = {name: list(values) for name, values in choices.items()}
    empty = [name for name, values in choices.items() if not values]
    if empty or not choices:
        raise ValueError(f"give at least one value for {empty[0]}" if empty else "give a choice, as in batch=(4, 8)")
    first = {name: values[0] for name, values in choices.items()}
    if not _in_jupyter():
        _show(draw(**first))
        print(f"This is {_words(first)}. In Jupyter there is a slider for each.")
        return
    try:
        import ipywidgets
    except ImportError:
        _show(draw(**first))
        print(f"This is {_words(first)}. For sliders: pip install ipywidgets, then start the kernel again.")
        return
    _show_sliders(ipywidgets, draw, choices)


def _show_sliders(ipywidgets, draw: Callable, choices: Mapping[str, Sequence]) -> None:
    from IPython.display import display

    sliders = {name: ipywidgets.SelectionSlider(options=[(str(value), value) for value in values], description=name,
                                                continuous_update=False, style={"description_width": "initial"})
               for name, values in choices.items()}

    def outputs() -> tuple[dict, ...]:
        return _outputs(draw, {name: slider.value for name, slider in sliders.items()})

    def redraw(_change) -> None:
        try:
            place.outputs = outputs()
        except Exception as error:  # what a callback raises would be seen in a log at best
            place.outputs = (_error(error),)

    # Handed over as a value: where a program plays the browser (nbclient, papermill), output caught by the widget itself
    # is sent back to the kernel, and now and then the cell's own reply is lost on the way.
    place = ipywidgets.Output(outputs=outputs())
    display(ipywidgets.VBox([*sliders.values(), place]))
    for slider in sliders.values():
        slider.observe(redraw, names="value")


def _outputs(draw: Callable, values: dict) -> tuple[dict, ...]:
    """What ``draw(**values)`` prints, displays and returns, in a notebook's form."""
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        _show(draw(**values))
    streams = [{"output_type": "stream", "name": name, "text": text}
               for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr)) if text]
    return (*streams, *({"output_type": "display_data", "data": _as_text(each.data), "metadata": each.metadata or {}}
                        for each in captured.outputs))


def _as_text(data: dict) -> dict:
    return {kind: base64.b64encode(each).decode() if isinstance(each, bytes) else each for kind, each in data.items()}


def _error(error: Exception) -> dict:
    shell = sys.modules["IPython"].get_ipython()
    lines = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}


def _show(result) -> None:
    if result is None:
        return
    if type(result) is str:  # IPython would show it in quotes, on one line
        print(result)
        return
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(result)
    else:
        print(result)


def _in_jupyter() -> bool:
    """Whether a kernel runs this: IPython in a terminal has no place for sliders."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _words(values: dict) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
