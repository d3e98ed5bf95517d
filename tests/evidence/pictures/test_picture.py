import subprocess
import sys

import pytest

from ..kineto_events import call, kernel, op, step, training_steps

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from gapless.evidence.pictures import picture
from gapless.evidence.pictures.figure import save
from gapless.evidence.pictures.scene import scene_of, short_ms
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace

from .drawn import patches


def texts(axes):
    return [text.get_text().strip() for text in axes.texts]


def draw(trace, **options):
    return picture.draw(StepReport.from_trace(trace), **options)


def test_rows_steps_and_waits():
    (axes,) = draw(training_steps(3)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["host", "stream 7", "stream 20"]
    assert [text for text in texts(axes) if text.startswith("step")] == ["step 0", "step 1", "step 2"]
    assert texts(axes).count("aten::item  290 ms") == 3
    assert axes.get_xlabel() == "ms from the start of step 0"


def test_nothing_is_told_by_colour_alone():
    figure = draw(training_steps(1))
    areas = patches(figure.axes[0])
    assert areas["host: the host waits"].get_hatch() == "////" and areas["stream 20: copies"].get_hatch() == "xxxxx"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["operators", "the host waits", "kernels", "copies"]
    assert "half its height is busy half of the time" in legend.get_title().get_text()


def test_the_title_says_what_is_simulated():
    assert draw(training_steps(1)).axes[0].get_title(loc="left").startswith("simulated A100")
    measured = draw(training_steps(1, simulated=False))
    assert measured.axes[0].get_title(loc="left").startswith("A100")
    assert draw(training_steps(1), title="mine").axes[0].get_title(loc="left") == "mine"


def test_chosen_steps():
    trace = training_steps(5)
    (axes,) = draw(trace, steps=3).axes
    assert [text for text in texts(axes) if text.startswith("step")] == ["step 3"]
    assert axes.get_xlim()[1] == pytest.approx(300, rel=0.02)


@pytest.mark.parametrize("events", [[], [step(0, 0, 10)], [op("aten::add", 0, 5)], [kernel(1, 2)]])
def test_sparse_traces_draw(events, tmp_path):
    save(draw(Trace(events, {})), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_pair_shares_its_time_scale_and_is_saved(tmp_path):
    from matplotlib.image import imread

    path = tmp_path / "pair.png"
    slow, fast = (StepReport.from_trace(trace) for trace in (training_steps(1), training_steps(1, step_us=30_000, wait_us=1_000)))
    figure = picture.draw_pair(slow, fast, path, title="loss")
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim()
    assert above.get_title(loc="left").startswith("before")
    assert below.get_title(loc="left").startswith("after")
    assert imread(path).shape[1] > 1000
    assert b"Description\x00Before: Timeline" in path.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def of_a_step(**options):
    return StepReport.from_trace(training_steps(1, **options))


def test_before_and_after_name_the_time_that_was_saved():
    slow, fast = (StepReport.from_trace(Trace([step(0, 0, 100), kernel(0, us)], {})) for us in (9_000, 4_000))
    figure = picture.before_after(slow, fast)
    ends = [scene_of(report).end_ms for report in (slow, fast)]
    saved = f"{short_ms(ends[0] - ends[1])} saved"
    assert saved in texts(figure.axes[1]) and saved not in texts(figure.axes[0])
    assert f"after: {saved} (measured)" in figure.get_suptitle() and f"after: {saved} (measured)" in figure.alt
    assert "lost (measured)" in picture.before_after(fast, slow).get_suptitle()
    assert "text/html" in figure._repr_mimebundle_()[0]
    assert picture.before_after(slow, slow).get_suptitle().endswith("about the same (measured)")


def test_before_and_after_show_as_many_steps_of_each():
    slow, fast = StepReport.from_trace(training_steps(3)), of_a_step(step_us=30_000, wait_us=1_000)
    figure = picture.before_after(slow, fast)
    assert [len([t for t in texts(axes) if t.startswith("step ")]) for axes in figure.axes] == [1, 1]
    assert figure.get_suptitle().startswith("the step and its GPU work take")


def test_nothing_is_saved_from_one_device_to_another():
    figure = picture.before_after(of_a_step(), of_a_step(simulated=False))
    assert figure.get_suptitle() == "" and "saved" not in figure.alt


def test_without_matplotlib_both_reports_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(picture, "draw_pair", lambda *_, **__: (_ for _ in ()).throw(ImportError("none")))
    assert picture.before_after(of_a_step(), of_a_step(step_us=30_000, wait_us=1_000)) is None
    assert capsys.readouterr().out.count("A100") >= 2


def test_axes_of_your_own():
    figure = Figure()
    axes = figure.subplots()
    assert draw(training_steps(1), ax=axes) is figure
    assert axes.get_legend() is not None
    assert "host: the host waits" in patches(axes)


def test_alt_text_says_how_busy_the_gpu_is():
    assert draw(training_steps(3)).alt == (
        "Timeline of 3 steps on simulated A100: one step takes 300 ms on the host and keeps the GPU busy for "
        "282 ms on 2 streams; of all the time shown the GPU is busy for 94 % (stream 7 for 94 %, stream 20 for 3 %). "
        "The host waits 290 ms of a step (1 wait); the longest is aten::item with 290 ms at train.py:12."
    )
    assert "never waits" in draw(Trace([], {})).alt


def test_reading_needs_no_matplotlib_and_drawing_says_how_to_get_it():
    program = """
import sys
sys.modules["matplotlib"] = None
from gapless.evidence.pictures import picture
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace
try:
    picture.draw(StepReport.from_trace(Trace([], {})))
except ImportError as error:
    assert "pip install 'gapless[plots]'" in str(error), error
else:
    raise SystemExit("drew without matplotlib")
"""
    environment_path = ":".join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": environment_path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_work_launched_before_the_steps_is_named():
    figure = draw(Trace([step(0, 1_000, 1_000), kernel(600, 700, 1), call("cudaLaunchKernel", 1_100, 5, 9), kernel(1_900, 600, 9)], {}))
    assert figure.legends[0].texts[-1].get_text() == "launched before these steps"
    assert "First the GPU is busy for 0.3 ms with what was launched before these steps." in figure.alt
