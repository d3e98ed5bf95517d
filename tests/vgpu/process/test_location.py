import inspect
import linecache
import threading

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.process.location import display_name, location

CELL = '''
# exercise: my_loss

def my_loss(x):
    y = x * 2
    return y.sum().item()
'''


def run_cell(filename, source):
    """Run a notebook's cell as IPython does: compiled under a made-up file name, its lines known to linecache."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names = {}
    exec(compile(source, filename, "exec"), names)
    return names


@pytest.fixture
def where(waits, device):
    """The locations of the waits of a call."""

    def run(function, *args):
        with waits() as found:
            function(*args)
        return [w.location for w in found]

    return run


def this_line(back=0):
    frame = inspect.currentframe().f_back
    return f"{__file__}({frame.f_lineno - back}): {frame.f_code.co_name}"


def test_a_line_of_a_file(where, device):
    def read():
        torch.ones(3, device=device).sum().item()

    line = inspect.getsourcelines(read)[1] + 1
    assert where(read) == [f"{__file__}({line}): read"]


def test_the_line_of_the_caller(device):
    assert location() == this_line()


def test_the_innermost_line_of_the_users(where, device):
    def inner(x):
        return x.item()

    def outer():
        inner(torch.ones((), device=device))

    line = inspect.getsourcelines(inner)[1] + 1
    assert where(outer) == [f"{__file__}({line}): inner"]


@pytest.mark.parametrize("filename", ["<cell my_loss>", "/tmp/ipykernel_4711/2718281828.py",
                                      "<ipython-input-3-0123456789ab>"])
def test_an_exercises_cell_goes_by_its_name(where, device, filename):
    cell = run_cell(filename, CELL)
    assert where(cell["my_loss"], torch.ones(3, device=device)) == ['cell "my_loss"(6): my_loss']


def test_a_cell_without_a_marker_is_a_notebook_cell(where, device):
    cell = run_cell("/tmp/ipykernel_4711/31415926.py", "def f(x):\n    return x.item()\n")
    assert where(cell["f"], torch.ones((), device=device)) == ["notebook cell(2): f"]


def test_a_marker_below_code_is_no_marker():
    filename = "/tmp/ipykernel_4711/16180339.py"
    run_cell(filename, "x = 1\n# exercise: late\n")
    assert display_name(filename) == "notebook cell"


def test_a_wait_in_the_backward_pass_is_at_the_line_of_the_forward_operator(where, device):
    x = torch.ones(4, device=device, requires_grad=True)

    def forward():
        return x[x > 0].sum()

    def step():
        loss = forward()
        loss.backward()

    line = inspect.getsourcelines(forward)[1] + 1
    assert where(step) == [f"{__file__}({line}): forward", f"{__file__}({line}): backward of forward"]


def test_without_one_it_is_at_the_line_that_called_backward(where, device):
    x = torch.ones(4, device=device, requires_grad=True)
    loss = x[x > 0].sum()  # nobody asked for a line here

    def step():
        loss.backward()

    line = inspect.getsourcelines(step)[1] + 1
    assert where(step) == [f"{__file__}({line}): step"]


def test_a_backward_pass_started_in_another_thread_is_at_that_threads_line(where, device):
    x = torch.ones(4, device=device, requires_grad=True)

    def step():
        x[x > 0].sum().backward()

    def main():
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()

    line = inspect.getsourcelines(step)[1] + 1
    assert where(main) == [f"{__file__}({line}): step", f"{__file__}({line}): backward of step"]


def test_another_librarys_line_only_where_there_is_none_of_the_users(where, device):
    torchmetrics = pytest.importorskip("torchmetrics")
    metric = torchmetrics.MeanMetric().to(device)
    metric.update(torch.ones(3, device=device))

    def read():
        float(metric.compute())

    line = inspect.getsourcelines(read)[1] + 1
    assert set(where(read)) == {f"{__file__}({line}): read"}


def test_a_lessons_slow_function_is_shown(where, device):
    from gapless.lessons.masked_loss.ignore_background import slow

    target = torch.tensor([9, 1], device=device)
    found = where(slow.ignore_background, target)
    assert len(found) == 2  # nonzero, and the copy of the number to write
    for line in found:
        assert "masked_loss/ignore_background/slow.py(" in line
        assert line.endswith(": ignore_background")


def test_lines_are_sought_for_waits_and_while_recording_only(device):
    calls = []
    timeline = vgpu.timeline()
    locate, timeline.locate = timeline.locate, lambda: calls.append(1)
    try:
        torch.ones(3, device=device).add(1).sum().item()
        assert not calls
    finally:
        timeline.locate = locate
