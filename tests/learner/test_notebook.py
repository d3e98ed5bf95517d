"""What a learner meets in a notebook: checks that speak, hints in stages."""

import linecache
import os

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.lessons import LESSONS
from gapless.lessons.masked_loss.ignore_background.slow import ignore_background as slow
from gapless.lessons.masked_loss.stage import BACKGROUND, IGNORE


def cell(source, filename="<ipython-input-3-abc>", **names):
    """Run ``source`` as a notebook does; returns its namespace."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"torch": torch, "BACKGROUND": BACKGROUND, "IGNORE": IGNORE, **names}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def _outside_ipython(monkeypatch):
    """A test before, in the same process, may have left a shell."""
    for module in ("notebook", "marked_cell", "own_notebook"):
        monkeypatch.setattr(f"gapless.learner.{module}.ipython_shell", lambda: None)


@pytest.fixture
def lesson():
    return gapless.Notebook("02_masked_loss", device="vgpu:a10g")


def test_says_what_it_runs_on(lesson):
    assert repr(lesson) == "Lesson 02_masked_loss on vgpu:0 (simulated NVIDIA A10G)"


@pytest.fixture
def real_gpu(monkeypatch):
    """What PyTorch says where there is one; no kernel runs on it here."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "Tesla T4")
    monkeypatch.delenv("GAPLESS_DEVICE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


@pytest.mark.parametrize("lesson_id", LESSONS)
def test_says_what_it_runs_on_where_there_is_a_real_gpu(real_gpu, lesson_id):
    """The lesson about several GPUs has virtual ones, even if somebody insists: after CUDA's first backward pass no rank that
    is forked can run one."""
    if lesson_id == "09_data_parallel":
        for device in (None, "cuda"):
            assert repr(gapless.Notebook(lesson_id, device=device)) == f"Lesson {lesson_id} on vgpu:0 (simulated NVIDIA A10G)"
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    else:
        assert repr(gapless.Notebook(lesson_id)) == f"Lesson {lesson_id} on cuda:0 (real Tesla T4)"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


def test_slow_function_gets_reasons_and_no_points_for_being_handed_out(lesson):
    result = lesson.check(slow)
    assert (result.earned, result.points, result.passed) == (0, 5, False)
    text = str(result)
    assert "0 of 5 points" in text and "`nonzero` at masked_loss/ignore_background/slow.py:" in text and "`background = torch.nonzero(" in text and "simulated NVIDIA A10G" in text
    page = result._repr_html_()
    assert "✗ fail" in page and "<code>nonzero</code>" in page and "<script" not in page


def test_a_second_check_says_the_same_and_takes_what_is_known_from_the_first(lesson):
    first, second = lesson.check(slow), lesson.check(slow)
    assert second.verdicts == first.verdicts
    assert second.evidence.full.before is first.evidence.full.before and second.evidence.full.learner is not first.evidence.full.learner


def test_a_message_cannot_carry_html(lesson):
    def ignore_background(target):
        raise ValueError("<script>alert(1)</script>")

    assert "<script>" not in lesson.check(ignore_background)._repr_html_()


def test_cell_is_run_by_itself_as_in_grading(lesson):
    source = "# exercise: ignore_background\ndef ignore_background(target):\n    return helper(target)\n"
    function = cell(source, helper=lambda t: torch.where(t == BACKGROUND, IGNORE, t))["ignore_background"]
    result = lesson.check(function)
    assert result.earned == 0 and "name 'helper' is not defined" in str(result)


def test_wait_is_named_with_the_cells_line(lesson):
    source = "# exercise: ignore_background\n\ndef ignore_background(target):\n    n = (target == BACKGROUND).sum()\n" \
             "    if n > 0:\n        target = torch.where(target == BACKGROUND, IGNORE, target)\n    return target\n"
    result = lesson.check(cell(source)["ignore_background"])
    assert result.earned == 2 and 'at cell "ignore_background", line 5: `if n > 0:`' in str(result)
    assert result.timeline() is not None


def test_solved_cell_passes(lesson):
    source = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"
    result = lesson.check(cell(source)["ignore_background"])
    assert result.passed and "5 of 5" in lesson.score()


def test_score_is_the_best_of_the_session(lesson):
    assert "not checked yet (of 5)" in lesson.score()
    lesson.check_source("ignore_background", SOLVED)
    lesson.check(slow)
    assert "ignore_background        5 of 5" in lesson.score() and lesson.score().endswith(f" 5 of {lesson.lesson.max_points:g}")
    assert lesson.results["ignore_background"].earned == 0


def test_look_says_what_a_step_takes_and_counts_its_waits(lesson, capsys):
    def make_step(waits):
        x = torch.ones(8, device=lesson.device)
        return lambda: [x.sum().item() for _ in range(waits)]

    lesson.look(lambda: make_step(1), steps=1)
    lesson.look(lambda: make_step(2), steps=1)
    one, two = capsys.readouterr().out.split("a step takes ")[1:]
    assert ", 1 wait\n" in one and ", 2 waits\n" in two
    assert "0.00 ms  aten::item" not in one
    lesson.look(lambda: make_step(20), steps=1)
    many = capsys.readouterr().out
    assert many.count("aten::item") == 1 and " 20 × aten::item" in many


def test_several_gpus_are_the_lessons_card_unless_another_is_named(lesson):
    def product(rank, world, size):
        return rank, world, vgpu.card().key, torch.ones(size, device="vgpu:0").sum().item()

    for options, card in (({}, vgpu.card().key), ({"device": "t4"}, "t4")):
        found = lesson.on_gpus(2, product, 3, **options)
        assert [each.value for each in found] == [(0, 2, card, 3.0), (1, 2, card, 3.0)]


def test_checking_leaves_the_mode_and_the_clock_alone(lesson):
    lesson.check(slow)
    assert not gapless.vgpu.is_shape_only() and gapless.vgpu.timeline().host_ns == 0
    assert torch.ones(2, device=lesson.device).tolist() == [1.0, 1.0]


def test_card_is_the_one_asked_for():
    lesson = gapless.Notebook("02_masked_loss", device="vgpu:t4")
    assert "simulated Tesla T4" in str(lesson.check(slow))


def test_the_headline_shows_how_far_it_is(monkeypatch, capsys):
    import gapless.learner.notebook as module

    notebook = gapless.Notebook("02_masked_loss", device="vgpu:a10g")
    monkeypatch.setattr(module, "table", lambda lesson, figures: len(figures))
    monkeypatch.setattr(module, "measure_programs", lambda *arguments: iter([("figures", "trace")] * 4))
    assert notebook.headline(vars(notebook.handed_out)) == 4
    shown = capsys.readouterr().out.split("\r")
    assert shown[1].strip() == "░░░░ 0 of 4 programs measured" and shown[-1].strip() == "████ 4 of 4 programs measured"


def test_hints_come_in_three_stages_and_stay_at_the_last(lesson):
    hints = [lesson.hint("ignore_background") for _ in range(4)]
    assert [h.stage for h in hints] == [1, 2, 3, 3]
    assert "torch.where" not in hints[0].text and "last one" in str(hints[3])


@pytest.mark.parametrize("wrong", ["nothing", len])
def test_raises_when_the_name_is_no_exercise(lesson, wrong):
    with pytest.raises(ValueError, match="its exercises are ignore_background, zero_if_uniform"):
        lesson.check(wrong)


@pytest.mark.parametrize("wrong, says", [
    (torch.ones(2), r"check takes a function, but this is a Tensor. Give .* lesson.check\(ignore_background\)"),
    (lambda target: target, "'<lambda>' is not an exercise of this lesson"),
])
def test_raises_when_given_something_else_than_a_function_of_an_exercise(lesson, wrong, says):
    with pytest.raises(ValueError, match=says):
        lesson.check(wrong)


def test_a_name_in_place_of_the_function_needs_a_cell(lesson):
    assert "no cell that begins with the line '# exercise: ignore_background' has been run" in str(lesson.check("ignore_background")).lower()


def test_raises_when_the_lesson_is_unknown():
    with pytest.raises(ValueError, match="the course has .*02_masked_loss"):
        gapless.Notebook("99_nothing")


# -- progress, reset ------------------------------------------------------------------------------

SOLVED = "# exercise: ignore_background\ndef ignore_background(target):\n    return torch.where(target == BACKGROUND, IGNORE, target)\n"


def test_checks_and_hints_are_recorded_and_the_best_stays(lesson, progress_home):
    lesson.check_source("ignore_background", SOLVED)
    lesson.check(slow)
    lesson.hint("ignore_background")
    lesson.hint("ignore_background")
    first = lesson.progress().lessons[0].exercises[0]
    assert (first.name, first.best, first.state) == ("ignore_background", 5, "done")
    assert (first.record.last, first.record.attempts, first.record.hints) == (0, 2, 2)
    assert first.record.device == "NVIDIA A10G (simulated)"
    assert str(gapless.progress("02_masked_loss")) == str(lesson.progress())


def test_a_home_that_cannot_be_written_is_said_once_and_fails_nothing(lesson, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GAPLESS_HOME", str(tmp_path / "file" / "home"))
    first, second = lesson.check_source("ignore_background", SOLVED), lesson.check_source("ignore_background", SOLVED)
    assert first.passed and second.passed and lesson.hint("ignore_background").stage == 1
    assert "was not saved" in str(first) and "was not saved" in first._repr_html_()
    assert "was not saved" not in str(second) and "was not saved" not in second._repr_html_()


def test_source_is_checked_as_the_cell_is(lesson):
    assert lesson.check_source("ignore_background", SOLVED).passed
    assert "does not compile" in str(lesson.check_source("ignore_background", SOLVED.replace("):", ":")))


@pytest.mark.parametrize("place", ["cell", "function"])
def test_a_cell_that_ends_python_does_not(lesson, place):
    source = SOLVED + "raise SystemExit\n" if place == "cell" else SOLVED.replace("return ", "raise SystemExit\n    return ")
    assert "ends Python" in str(lesson.check_source("ignore_background", source))


def test_reset_gives_the_text_as_handed_out(lesson):
    back = lesson.reset("ignore_background")
    assert back.text.startswith("# exercise: ignore_background\ndef ignore_background(target):\n    background = torch.nonzero(")
    assert str(back) == back.text
    with pytest.raises(ValueError, match="not an exercise of this lesson"):
        lesson.reset("nothing")


def test_inputs_are_those_of_the_check(lesson):
    exercise = lesson.lesson.exercises["ignore_background"]
    given = lesson.inputs("ignore_background")
    assert list(given) == [case.name for case in exercise.cases(0)]
    assert all(isinstance(target, torch.Tensor) for target in given.values())
    with pytest.raises(ValueError, match="not an exercise of this lesson"):
        lesson.inputs("nothing")


def test_a_failed_check_says_how_to_look_at_its_input():
    tour = gapless.Notebook("01_profiler_tour", device="vgpu:a10g")
    wrong = tour.check_source("top_operators", "def top_operators(trace, k):\n    return []\n")
    (place,) = [line for line in str(wrong).splitlines() if "lesson.inputs" in line]
    trace, k = eval(place.partition(": ")[2], {"lesson": tour})
    assert trace.spans and k == 3
    right = tour.check_source("gpu_utilization", "def gpu_utilization(trace):\n    return None\n")
    assert 'lesson.inputs("gpu_utilization")["one stream"]' in right._repr_html_().replace("&quot;", '"')


def test_a_missing_package_is_said_once_and_first(monkeypatch):
    from gapless.lessons import find_lesson

    lesson = find_lesson("03_metric_collection")
    monkeypatch.setitem(lesson.__dict__, "packages", ("torch", "no_such_package", "PIL_of_the_future"))
    with pytest.raises(ModuleNotFoundError, match="03_metric_collection needs no_such_package, PIL_of_the_future, missing here: pip "):
        gapless.Notebook("03_metric_collection", device="vgpu:a10g")
