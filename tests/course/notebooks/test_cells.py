"""Exercise cells: run by themselves, errors that name the line."""

import pytest
import torch

from gapless.course.notebooks.cells import CellError, CellRaised, describe_error, load_function
from gapless.measure.device import device as choose_device


def test_last_definition_of_the_name_counts():
    source = "# exercise: f\ndef f():\n    return 1\n\ndef f():\n    return OTHER"
    assert load_function(source, "f", {"OTHER": 2})() == 2


@pytest.mark.parametrize("body, says", [
    ("def f(:\n    pass", "does not compile"),
    ("def g():\n    pass", "defines no function called 'f'"),
    ("f = 3", "is a int, not a function"),
    ("def f(): pass\n1 / 0", r"ZeroDivisionError: division by zero \(line 3: 1 / 0\)"),
    ("def f(): pass\nlesson.check(f)", r"line 3: lesson.check\(f\)\)\. Checks and hints have their own cells"),
    ("import numpy as np\nbatch = hidden_helper()\ndef f(): pass", "put the imports and helpers it needs inside the cell"),
])
def test_raises_when_the_cell_is_broken(body, says):
    with pytest.raises(CellError, match=says):
        load_function("# exercise: f\n" + body, "f", {})


def test_error_names_the_innermost_line_of_the_cell():
    f = load_function("# exercise: f\ndef f(x):\n    return helper(x)\n\ndef helper(x):\n    return x.nothing", "f", {})
    with pytest.raises(AttributeError) as caught:
        f(1)
    assert describe_error(caught.value, "f").endswith("(line 6: return x.nothing)")


@pytest.mark.parametrize("line, module", [
    ("import gapless.views", "gapless.views"),
    ("import math, gapless as g", "gapless"),
    ("from gapless import views", "gapless"),
    ("from gapless.views import gpu_utilization", "gapless.views"),
    ("import importlib; importlib.import_module('gapless.views')", "gapless.views"),
    ("views = __import__('gapless.views')", "gapless.views"),
    ("found = gapless.views", "gapless.views"),
    ("def g():\n    from gapless.lessons import masked_loss", "gapless.lessons"),
])
def test_raises_when_the_cell_takes_the_answer_from_the_library(line, module):
    with pytest.raises(CellError, match=rf"takes from {module} \(line \d\).*write it yourself"):
        load_function(f"# exercise: f\n{line}\ndef f(): pass", "f", {"gapless": None})


@pytest.mark.parametrize("line", ["import math", "import sys; frame = sys._getframe().f_back", "inner = type('Box', (), {'inner': 1}).inner", "from torch import nn", "text = 'gapless.views shows it'", "def g(gapless): gapless.clock_ms",
                                  "from math import pi as gapless"])
def test_other_imports_and_words_are_fine(line):
    assert load_function(f"# exercise: f\n{line}\ndef f(): return 1", "f", {})() == 1


@pytest.mark.parametrize("line", ["%matplotlib inline", "!pip install x", "files = !ls", "torch.where?"])
def test_jupyters_commands_are_said_to_be_so(line):
    with pytest.raises(CellError, match="is for Jupyter, not Python"):
        load_function(f"# exercise: f\n{line}\ndef f(): pass", "f", {})


def test_a_first_line_that_only_announces_is_followed_by_the_next():
    assert describe_error(RuntimeError("an unexpected error:\nsizes [3] do not fit\nand more"), "f") == (
        "RuntimeError: an unexpected error: sizes [3] do not fit")


def test_of_an_error_in_a_worker_its_own_words_are_told():
    text = "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n  …\nValueError: no such file"
    assert describe_error(ValueError(text), "f") == "ValueError: Caught ValueError in DataLoader worker process 0: ValueError: no such file"


def test_of_what_dynamo_met_the_error_and_the_line_are_told():
    f = load_function("# exercise: f\n@torch.compile(backend='eager', fullgraph=True)\ndef f(x):\n    y = x + 1\n"
                      "    return y.view(4)", "f", {"torch": torch})
    with pytest.raises(Exception, match="fake tensor call") as caught:
        f(torch.ones(5))
    text = describe_error(caught.value, "f")
    assert "invalid for input of size 5" in text and text.endswith("(line 5: return y.view(4))")


def test_of_an_invalid_capture_the_first_error_is_told():
    f = load_function("# exercise: f\ndef f(x):\n    backend = torch.get_device_module(x.device)\n"
                      "    with backend.graph(backend.CUDAGraph()):\n        x.sum().item()", "f", {"torch": torch})
    with pytest.raises(RuntimeError) as caught:
        f(torch.ones(5, device=choose_device("vgpu")))
    text = describe_error(caught.value, "f")
    assert "previous error during capture. First came" in text and text.endswith("(line 5: x.sum().item())")


def test_what_was_raised_in_another_process_is_told_as_it_was_told_there():
    assert describe_error(CellRaised("ValueError: no (line 3: raise)"), "f") == "ValueError: no (line 3: raise)"


FILES = "# exercise: train\n# file: model.py\ndef model(x):\n    return 1 / x\n\n# file: train.py\ndef train(x):\n    return model(x)\n"


def test_a_program_of_files_shares_one_namespace_and_errors_name_the_file():
    train = load_function(FILES, "train", {})
    assert train(2) == 0.5
    with pytest.raises(ZeroDivisionError) as caught:
        train(0)
    assert describe_error(caught.value, "train") == "ZeroDivisionError: division by zero (model.py, line 3: return 1 / x)"


@pytest.mark.parametrize("before, after, says", [
    ("1 / x", "1 /", "line 3 of model.py"), ("def model", "%time\ndef model", "line 2 of model.py"),
    ("def model", "import gapless\ndef model", "takes from gapless")])
def test_raises_when_a_file_of_a_program_is_broken(before, after, says):
    with pytest.raises(CellError, match=says):
        load_function(FILES.replace(before, after), "train", {})
