"""Sliders in a real kernel, and what is shown where there are none."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from gapless import explore


def run(source, tmp_path):
    pytest.importorskip("ipywidgets")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    return notebook.cells[0].outputs, list(client.widget_state.values())


def outputs_of(widgets):
    shown, = [widget["outputs"] for widget in widgets if widget["_model_name"] == "OutputModel"]
    return "".join(str(each.get("text", "")) + str(each.get("data", "")) + "".join(each.get("traceback", [])) for each in shown)


DRAW = """import gapless
drawn = []

def draw(batch, card):
    drawn.append((batch, card))
    if batch == 16:
        1 / 0
    return f"batch {batch} on {card}\\nand so on"

gapless.explore(draw, batch=(4, 8, 16), card=["t4", "a100"])
"""
# The widgets' own values, as a moved slider sets them.
MOVE = """
from ipywidgets import SelectionSlider
from ipywidgets.widgets.widget import _instances
batch, card = [each for each in _instances.values() if isinstance(each, SelectionSlider)]
"""


def test_a_run_draws_once_with_a_slider_a_choice(tmp_path):
    outputs, widgets = run(DRAW + "assert drawn == [(4, 't4')], drawn", tmp_path)
    sliders = [widget for widget in widgets if widget["_model_name"] == "SelectionSliderModel"]
    assert [(each["description"], each["_options_labels"]) for each in sliders] == [
        ("batch", ["4", "8", "16"]), ("card", ["t4", "a100"])]
    assert "application/vnd.jupyter.widget-view+json" in outputs[0]["data"]
    assert "batch 4 on t4\nand so on\n" == outputs_of(widgets)  # as text, not how it is spelt


@pytest.mark.slow
def test_a_moved_slider_draws_again(tmp_path):
    _, widgets = run(DRAW + MOVE + "batch.value = 8; card.value = 'a100'\nassert drawn[-2:] == [(8, 't4'), (8, 'a100')]", tmp_path)
    assert "batch 8 on a100" in outputs_of(widgets) and "batch 4" not in outputs_of(widgets)


@pytest.mark.slow
def test_an_error_of_a_moved_slider_is_shown(tmp_path):
    _, widgets = run(DRAW + MOVE + "batch.value = 16", tmp_path)
    assert "ZeroDivisionError" in outputs_of(widgets)


@pytest.mark.slow
def test_an_error_at_first_is_the_cells(tmp_path):
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run("import gapless\ngapless.explore(lambda batch: 1 / 0, batch=(4, 8))", tmp_path)


@pytest.mark.slow
def test_without_ipywidgets_the_first_values_are_drawn(tmp_path):
    outputs, widgets = run("import sys; sys.modules['ipywidgets'] = None\n" + DRAW + "assert len(drawn) == 1", tmp_path)
    shown = "".join(output["text"] for output in outputs)
    assert not widgets and shown.startswith("batch 4 on t4\n")
    assert "batch = 4, card = t4. For sliders: pip install ipywidgets" in shown


def test_outside_jupyter_too(capsys):
    explore(lambda batch: f"batch {batch}", batch=(4, 8))
    assert capsys.readouterr().out.startswith("batch 4\nThis is batch = 4.")
    with pytest.raises(ZeroDivisionError):
        explore(lambda batch: 1 / 0, batch=(4, 8))


@pytest.mark.parametrize("choices, says", [({}, "give a choice"), ({"batch": ()}, "at least one value for batch")])
def test_refuses_no_choice(choices, says):
    with pytest.raises(ValueError, match=says):
        explore(print, **choices)
