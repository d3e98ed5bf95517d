import base64
import subprocess
import sys

import pytest

from ..kineto_events import call, kernel, op, step, training_steps

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gapless.evidence.pictures import picture
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace


def texts(axes):
    return [text.get_text().strip() for text in axes.texts]


def draw(trace, **options):
    return picture.draw(StepReport.from_trace(trace), **options)


def rows(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def bars(axes, hatch):
    return [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_hatch() == hatch]


def test_host_and_stream_rows_steps_and_waits():
    (axes,) = draw(training_steps(3)).axes
    assert rows(axes) == ["host", "stream 7", "stream 20"]
    assert [text for text in texts(axes) if text.startswith("step")] == ["step 0", "step 1", "step 2"]
    assert texts(axes).count("aten::item  290 ms") == 3
    waits = bars(axes, "////")
    assert [round(bar.get_x(), 3) for bar in waits] == [4.005, 304.005, 604.005]
    assert all(bar.get_width() == pytest.approx(290.01) for bar in waits)
    assert axes.get_xlabel() == "ms from the start of step 0"


def test_nothing_is_told_by_colour_alone():
    (axes,) = draw(training_steps(1)).axes
    waits, copies = bars(axes, "////"), bars(axes, "xxxxx")
    assert waits
    assert copies
    kernels = [bar for bar in bars(axes, None) if bar.get_height() == pytest.approx(0.55)]
    assert all(bar.get_height() < kernels[0].get_height() for bar in copies)
    assert all(bar.get_linewidth() > 1 for bar in waits)


def test_the_title_says_what_is_simulated():
    assert draw(training_steps(1)).axes[0].get_title(loc="left").startswith("simulated A100")
    measured = draw(training_steps(1, simulated=False))
    assert measured.axes[0].get_title(loc="left").startswith("A100")
    assert draw(training_steps(1), title="mine").axes[0].get_title(loc="left") == "mine"


def test_chosen_steps():
    trace = training_steps(5)
    assert "step 3" not in texts(draw(trace).axes[0])
    (axes,) = draw(trace, steps=3).axes
    assert [text for text in texts(axes) if text.startswith("step")] == ["step 3"]
    assert bars(axes, "////")[0].get_x() == pytest.approx(4.005)
    assert axes.get_xlim()[1] == pytest.approx(300, rel=0.02)
    assert texts(draw(trace, steps=[1, 2]).axes[0]).count("aten::item  290 ms") == 2
    with pytest.raises(IndexError, match="step 9 is not in this trace, which has 5 steps"):
        draw(trace, steps=9)


def test_work_too_dense_to_see_is_merged():
    events = [step(0, 0, 1_000_000)]
    for i in range(5_000):
        events += [op("aten::add", i * 200, 150), call("cudaLaunchKernel", i * 200 + 5, 5, i + 1)]
        events.append(kernel(i * 200 + 20, 150, i + 1))
    (axes,) = draw(Trace(events, {})).axes
    assert len(axes.patches) < 10


def test_labels_stay_apart():
    events = [step(0, 0, 100_000)]
    events += [call("cudaStreamSynchronize", 1_000 * i, 300 + i) for i in range(1, 80)]
    scene = picture._scene(StepReport.from_trace(Trace(events, {})), None)
    labels = picture._labels(scene, scene.end_ms)
    assert labels
    for label in labels:
        for other in labels:
            if label is not other and label.level == other.level:
                assert label.right_ms < other.left_ms or other.right_ms < label.left_ms
    assert any("0.38 ms" in label.text for label in labels)  # the longest keeps its label


def test_many_streams_share_the_last_row():
    events = [kernel(10 * i, 5, stream=i) for i in range(1, 13)] + [kernel(500, 5, stream=12)]
    (axes,) = draw(Trace(events, {})).axes
    assert len(rows(axes)) == 9
    assert rows(axes)[-1] == "5 more"
    assert "stream 12" in rows(axes)


@pytest.mark.parametrize("events", [[], [step(0, 0, 10)], [op("aten::add", 0, 5)], [kernel(1, 2)]])
def test_sparse_traces_draw(events, tmp_path):
    picture.save(draw(Trace(events, {})), tmp_path / "a.png", "alt")
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
    ends = [picture._scene(report, None).end_ms for report in (slow, fast)]
    saved = f"{picture._short_ms(ends[0] - ends[1])} saved"
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


def test_a_failed_save_leaves_nothing(tmp_path):
    figure = draw(training_steps(1))
    with pytest.raises(FileNotFoundError):
        picture.save(figure, tmp_path / "none" / "a.png", "alt")
    assert not list(tmp_path.iterdir())


def test_axes_of_your_own():
    figure = Figure()
    axes = figure.subplots()
    assert draw(training_steps(1), ax=axes) is figure
    assert axes.get_legend() is not None
    assert bars(axes, "////")


def test_a_notebook_gets_an_image_with_alternative_text():
    bundle, metadata = draw(training_steps(1))._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == bundle["text/plain"]
    assert "aten::item" in bundle["text/plain"]


def test_controls_are_shown_below_the_picture_where_a_page_shows_html():
    figure = draw(training_steps(1))
    assert figure._repr_mimebundle_()[0]["text/html"].endswith("</div>")
    figure.controls = "<p>controls</p>"
    assert figure._repr_mimebundle_()[0]["text/html"].endswith("</div>\n<p>controls</p>")


def test_alt_text():
    text = picture.alt_text(StepReport.from_trace(training_steps(3)))
    assert text == (
        "Timeline of 3 steps on simulated A100: one step takes 300 ms on the host and keeps the GPU busy for "
        "282 ms on 2 streams. The host waits 290 ms of it (1 wait); the longest is aten::item with 290 ms "
        "at train.py:12."
    )
    assert "never waits" in picture.alt_text(StepReport.from_trace(Trace([], {})))


def test_a_report_without_its_trace_cannot_be_drawn():
    with pytest.raises(ValueError, match="StepReport.from_trace"):
        picture.draw(StepReport("A100"))


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


def test_work_launched_before_the_steps_is_shown_as_such():
    events = [step(0, 1_000, 1_000), op("aten::mm", 1_100, 200), call("cudaLaunchKernel", 1_150, 5, 9), kernel(1_900, 600, 9),
              kernel(600, 700, 1), kernel(1_300, 500, 2),  # launches that are not in the trace
              kernel(100, 200, 3),  # over before the step begins
              kernel(2_600, 100, 4)]  # behind what the step launched: nobody knows
    trace = Trace(events, {})
    (axes,) = draw(trace).axes
    earlier = [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in bars(axes, "...")]
    assert earlier == [(0, 0.8)]
    assert [text.get_text() for text in draw(trace).legends[0].texts][-1] == "launched before these steps"
    assert "First the GPU is busy for 0.8 ms with what was launched before these steps." in draw(trace).alt
    shown = [bar for bar in bars(axes, None) if bar.get_height() == pytest.approx(0.55)]
    assert [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in shown] == [(0.9, 0.6)]


def test_work_of_the_step_before_the_chosen_one_is_launched_before():
    events = [step(0, 0, 100), op("aten::mm", 10, 20), call("cudaLaunchKernel", 12, 5, 1), kernel(20, 150, 1),
              step(1, 100, 100), op("aten::mm", 110, 20), call("cudaLaunchKernel", 112, 5, 2), kernel(180, 50, 2)]
    trace = Trace(events, {})
    (whole,), (second,) = draw(trace).axes, draw(trace, steps=1).axes
    assert not bars(whole, "...")
    assert [(bar.get_x(), bar.get_width()) for bar in bars(second, "...")] == [(0, pytest.approx(0.07))]


def test_without_runtime_calls_the_devices_own_times_tell_what_came_before():
    trace = Trace([step(0, 0, 100), kernel(20, 50), step(1, 100, 100), kernel(150, 20), step(2, 200, 50), kernel(210, 20)], {})
    assert not bars(draw(trace, steps=1).axes[0], "...")
