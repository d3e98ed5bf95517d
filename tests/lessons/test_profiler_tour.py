"""Lesson 01's workload, its traces and its reference answers, against independent truths."""

import base64
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

import gapless
from gapless import vgpu
from gapless.course.gather import gather
from gapless.course.headline import Figures, table
from gapless.course.judge import judge
from gapless.course.plain import as_plain, difference
from gapless.course.quick import how_often
from gapless.course.stage import Given, LocalStage
from gapless.evidence import views
from gapless.evidence.traces.trace import Trace, read_traces
from gapless.lessons import full_size
from gapless.lessons.profiler_tour import mistakes, real
from gapless.lessons.profiler_tour.achieved_occupancy import mistakes as achieved_occupancy_mistakes
from gapless.lessons.profiler_tour.cases import ONE_FITS
from gapless.lessons.profiler_tour.choose_batch_size.right import ENOUGH
from gapless.lessons.profiler_tour.disturbances import TRAPS
from gapless.lessons.profiler_tour.lesson import EXERCISES, LESSON, programs
from gapless.lessons.profiler_tour.memory_by_operator import mistakes as memory_by_operator_mistakes
from gapless.lessons.profiler_tour.quick import QUICK
from gapless.lessons.profiler_tour.real import real_step, real_trace
from gapless.lessons.profiler_tour.right import steps_of, steps_time
from gapless.lessons.profiler_tour.source_of import mistakes as source_of_mistakes
from gapless.lessons.profiler_tour.top_operators import mistakes as top_operators_mistakes
from gapless.lessons.profiler_tour.traces import busy_trace, training_trace
from gapless.lessons.profiler_tour.why_idle.right import idle_evidence
from gapless.lessons.profiler_tour.why_idle.traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS, idle_program
from gapless.lessons.profiler_tour.workload import (
    measure_on,
    puzzle,
    record,
    share_table,
    simulated,
    trace_at,
    write_traces,
)
from gapless.measure import profiler

from .. import ROOT
from .answers import profiler_tour as answers
from .reference import solution

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

CAUSES = {1: SMALL_KERNELS, 2: SLOW_LOADER, 3: SMALL_BATCH}


def asked(exercise, function, case):
    call = LocalStage(function, torch.device("cpu"), exercise.asked.ask).begin(Given({}, case.options))
    call.run()
    return call.finish()


def judged(exercise, function, seed):
    """Of one exercise: these have one check each."""
    device, plan = gapless.device("vgpu:a10g"), exercise.plan(seed)
    verdict, = judge(exercise, plan, gather(exercise, LocalStage(function, device, exercise.asked.ask), plan, device))
    return verdict


@pytest.fixture(scope="module")
def fixed():
    return solution("01_profiler_tour")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    files = write_traces(folder)
    return folder, files, {label: Trace.read(path) for label, path in files.items()}


@pytest.fixture(scope="module")
def small():
    """A training step of two layers with values, two streams and a read-back, profiled on the virtual GPU."""
    device = gapless.device("vgpu:a10g")
    vgpu.timeline().reset()
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    rows, side = torch.randn(128, 64, device=device), torch.vgpu.Stream()
    gapless.synchronize(device)
    with profiler.profile(device=device, schedule=profiler.schedule(wait=0, warmup=1, active=2, repeat=1), record_shapes=True,
                          profile_memory=True, with_stack=True) as prof:
        for _ in range(3):
            loss = network(rows).square().mean()
            loss.backward()
            with torch.vgpu.stream(side):
                rows.sin().cos()
            loss.item()
            prof.step()
    return prof.trace


def sampled(trace, value, count=200_000):
    """The mean over the steps' time of ``min(1, sum of value(kernel) of those running)``, at random moments."""
    begin, end = steps_time(trace)
    moments = np.random.default_rng(0).uniform(begin, end, count)
    running = np.zeros(count)
    for span in trace.spans:
        if span.category == "kernel":
            running += value(span) * ((moments >= span.start_us) & (moments < span.end_us))
    return np.minimum(running, 1).mean()


@pytest.mark.parametrize("options", [{}, {"streams": 3}, {"within": True}, {"late": True, "copies": True}, {"streams": 2, "small": True}])
def test_overview_measures_are_what_random_moments_show(options):
    trace = Trace(busy_trace(np.random.default_rng(5), **options))
    assert views.gpu_utilization(trace) == pytest.approx(sampled(trace, lambda span: 1.0), abs=0.005)
    assert views.sm_efficiency(trace) == pytest.approx(sampled(trace, lambda span: span.args["blocks per SM"]), abs=0.005)


@pytest.mark.parametrize("name, tolerance", [
    # work in flight when the recording begins: the views leave its time out
    ("gpu_utilization", 0.02), ("sm_efficiency", 0.02), ("achieved_occupancy", 0.02),
    ("top_operators", 1e-6), ("memory_by_operator", 1e-6),
])
def test_solution_agrees_with_the_views_on_a_profiled_program(fixed, small, name, tolerance):
    options = {"k": 6} if name == "top_operators" else {}
    assert difference(fixed[name](small, **options), LESSON.exercises[name].right.function(small, **options), tolerance, 1e-3) is None


def test_sources_are_this_files_lines(fixed, small):
    for row in views.kernel_view(small):
        found = fixed["source_of"](small, row.name)
        assert found == pytest.approx(LESSON.exercises["source_of"].right.function(small, row.name), abs=1e-3)
        assert all(line.startswith("lessons/test_profiler_tour.py:") for line in found)


def test_cases_leave_no_answer_to_the_last_digit():
    """Whatever the seed: batch sizes and causes are clear, and the steps' time is what the tools take it to be."""
    for seed in random.Random(1).sample(range(10**6), 12):
        for case in LESSON.exercises["why_idle"].cases(seed):
            trace = Trace(case.options["events"])
            launching, filled = idle_evidence(trace)
            assert launching < 0.3 or (launching > 0.7 and (filled < 0.4 or filled > 0.6))
            assert views._window(trace) == pytest.approx(steps_time(trace), abs=1e-6)
        for case in LESSON.exercises["choose_batch_size"].cases(seed):
            fits = {int(b): int(b) / row["step_ms"] for b, row in case.options["table"].items() if row is not None}
            assert (len(fits) >= 3 or case.name == ONE_FITS) and all(abs(speed / max(fits.values()) - ENOUGH) > 0.0009 for speed in fits.values())
        for name in ("gpu_utilization", "sm_efficiency"):
            for case in LESSON.exercises[name].cases(seed):
                trace = Trace(case.options["events"])
                if case.name != "no kernel at all":
                    assert views._window(trace) == pytest.approx(steps_time(trace), abs=1e-6)


def test_answers_by_other_routes_hold_for_many_seeds(fixed):
    for seed in range(8):
        for exercise in EXERCISES:
            for case in exercise.cases(seed):
                wanted = asked(exercise, exercise.right.function, case)
                for function in [fixed[exercise.name], *answers.OTHER_ROUTES[exercise.name]]:
                    found = as_plain(asked(exercise, function, case))
                    assert difference(found, wanted, 1e-5, 1e-3) is None, (seed, exercise.name, case.name)


@pytest.mark.parametrize("name, function, says", answers.WRONG, ids=range(len(answers.WRONG)))
def test_no_seed_lets_a_wrong_answer_pass(name, function, says):
    exercise = LESSON.exercises[name]
    for seed in range(2):
        assert any(differs(exercise, function, case, asked(exercise, exercise.right.function, case)) for case in exercise.cases(seed)), seed


@pytest.mark.parametrize("name", LESSON.exercises)
def test_every_known_mistake_is_wrong_on_some_input(name):
    """Whatever the seed; so its words are never said of a right answer."""
    exercise = LESSON.exercises[name]
    for seed in (1, 2):
        left = [mistake for mistake in exercise.teaching.mistakes if not mistake.why.startswith("Two things.")]
        assert len(left) >= 8
        for case in exercise.cases(seed):
            wanted = asked(exercise, exercise.right.function, case)
            left = [mistake for mistake in left if not differs(exercise, mistake.function, case, wanted)]
        assert [mistake.why for mistake in left] == []


def differs(exercise, function, case, wanted):
    try:
        found = as_plain(asked(exercise, function, case))
    except Exception:  # of a wrong answer, which counts as one
        return True
    return difference(found, wanted, exercise.right.relative_tolerance, exercise.right.absolute_tolerance) is not None


@pytest.mark.parametrize("name, right", [
    ("gpu_utilization", mistakes.gpu_utilization), ("sm_efficiency", mistakes.sm_efficiency),
    ("achieved_occupancy", achieved_occupancy_mistakes.achieved_occupancy), ("top_operators", top_operators_mistakes.top_operators),
    ("memory_by_operator", memory_by_operator_mistakes.memory_by_operator), ("source_of", source_of_mistakes.source_of),
])
def test_what_mistakes_are_made_from_is_right_before(name, right):
    exercise = LESSON.exercises[name]
    for seed in range(4):
        for case in exercise.cases(seed):
            assert not differs(exercise, right, case, asked(exercise, exercise.right.function, case)), case.name


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_trap_adds_something_and_changes_no_input(trap):
    rng = np.random.default_rng(0)
    changed = 0
    for events in (training_trace(rng), busy_trace(rng, steps=2), idle_program(rng, SLOW_LOADER, "a10g", steps=2)):
        before = json.dumps(events)
        after = trap.add(rng, events)
        assert json.dumps(events) == before
        changed += json.dumps(after) != before
        assert len(steps_of(Trace(after))) == 2
    assert changed


def test_real_trace_has_a_backward_thread_and_operators_whose_self_and_total_differ(fixed):
    trace = real_trace()
    assert not trace.simulated and len(steps_of(trace)) == 2
    threads = {span.thread for span in trace.spans if span.category == "runtime"}
    assert len(threads) == 2 and steps_of(trace)[0].thread in threads
    rows = fixed["top_operators"](trace, 100)
    assert sum(row["device_total_us"] > 1.5 * row["device_self_us"] > 0 for row in rows) >= 1
    step = Trace(real_step())
    assert len(steps_of(step)) == 1 and 2000 < len(step.events) < len(trace.events)
    calls = {span.args["correlation"] for span in step.spans if span.category == "runtime"}
    assert all(span.args["correlation"] in calls for span in step.spans if span.category == "kernel")
    assert (real.FILE.parent / "LICENSE").is_file() and real.FILE.stat().st_size < 300_000


def test_quick_questions_have_the_answers_that_their_reasons_give():
    device = gapless.device("vgpu:a10g")
    found = "".join("y" if how_often(QUICK, quick, device) else "n" for quick in QUICK.questions)
    assert found == "nynynynnyn"


@pytest.mark.parametrize("name", LESSON.exercises)
def test_odd_answers_are_told_and_break_nothing(name):
    odd = [None, True, -1, 1e300, float("nan"), "text", [], [[]], [None], {}, {"a": None}, {"a": []}, [{"name": []}],
           [{"name": [], "device_self_us": "much"}], {"aten::linear": {"size_increase_bytes": []}}]
    exercise = LESSON.exercises[name]
    for value in odd:
        verdict = judged(exercise, lambda *args, **options: value, 1)
        assert verdict.outcome == "fail" and verdict.message


def test_training_traces_are_nested_and_in_time():
    trace = Trace(training_trace(np.random.default_rng(0)))
    starts = {span.args["correlation"]: span.start_us for span in trace.spans if span.category == "runtime"}
    for span in trace.spans:
        if span.category == "kernel":
            assert span.start_us > starts[span.args["correlation"]]


# -- the lesson's own traces ------------------------------------------------------------------------


def test_written_traces_are_the_same_twice_and_leave_the_card_as_it_was(traces, tmp_path):
    device = gapless.device("vgpu:t4")
    again = write_traces(tmp_path)
    assert vgpu.card().key == "t4" and not vgpu.is_shape_only()
    assert torch.ones(2, device=device).sum().item() == 2
    _, files, _ = traces
    assert {label: path.read_bytes() for label, path in again.items()} == {label: path.read_bytes() for label, path in files.items()}


def test_written_traces_have_three_steps_shapes_memory_and_lines(traces):
    folder, files, read = traces
    assert list(files) == ["batch 4", "batch 32"]
    assert sorted(read_traces(folder)) == sorted(path.name for path in files.values())
    for batch, trace in zip((4, 32), read.values()):
        assert trace.simulated and trace.device_name == vgpu.CARDS["h100"].name
        assert len(steps_of(trace)) == 3
        dims = [span.args["Input Dims"][0] for span in trace.spans if span.name == "aten::convolution"]
        assert dims[0] == [batch, 3, 224, 224] and len(dims) == 3 * 53
        assert {span.name for span in trace.spans if span.category == "annotation"} >= {"forward", "backward", "copy the batch"}
        assert any(row.allocation_bytes for row in views.memory_by_operator(trace))
        name = next(span.name for span in trace.spans if span.name.startswith("convolution_forward_tf32("))
        assert {row.location.partition(":")[0] for row in views.source_of(trace, name) if row.location} \
            == {"profiler_tour/workload.py"}


def test_larger_batch_fills_the_fast_card(traces):
    small, large = traces[2].values()
    assert views.gpu_utilization(small) < 0.5 < 0.9 < views.gpu_utilization(large)
    assert views.gpu_utilization(trace_at(4, "t4")) > 0.9  # and a slow card needs none


def test_beside_a_real_gpu_another_process_simulates():
    """In a process of its own: where Dynamo has compiled, it has wrapped PyTorch's optimizers, which takes the host longer."""
    code = ("import torch\nfrom gapless.lessons.profiler_tour import workload\n"
            "if __name__ == '__main__':\n    here = workload.trace_at(4).events\n"
            "    torch.cuda.is_available = lambda: True  # here, and not in the other process\n"
            "    workload.simulated = None\n    assert workload.trace_at(4).events == here")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_simulated_restores_the_card_after_an_error():
    gapless.device("vgpu:a100")
    with pytest.raises(ZeroDivisionError), simulated("t4"):
        1 / 0
    assert vgpu.card().key == "a100"


@pytest.mark.parametrize("card", ["t4", "a10g", "a100", "h200"])
@pytest.mark.parametrize("number", CAUSES)
def test_puzzles_are_idle_for_the_stated_reason(fixed, card, number):
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        trace = record(puzzle(number, device), device)
    assert views.gpu_utilization(trace) < 0.9
    assert fixed["why_idle"](trace) == CAUSES[number]


def test_measure_gives_throughput_and_runs_out_of_memory():
    measure = measure_on(gapless.device("vgpu:a10g"))
    assert 4 / measure(4).step_ms < 16 / measure(16).step_ms
    with pytest.raises(torch.OutOfMemoryError):
        measure(1024)


def test_programs_say_how_many_samples_a_step_has():
    assert [(program.name, program.samples) for program in programs({})] == [(f"batch {n}", n) for n in (4, 8, 16, 32)]


def test_share_table_shows_what_cannot_be_told_as_a_dash(traces):
    text = share_table({"one": traces[2]["batch 4"]}, {"half": lambda trace: 0.5, "nothing": lambda trace: None})
    assert text.splitlines()[1].split() == ["one", "50.0", "%", "—"]


def test_table_gives_the_speed_up_of_a_sample_where_batches_differ():
    def figures(name, samples, ms):
        return Figures(name, "size", 0, [], 1.0, 1.0, 1.0, ms, None, True, "a card", "—", samples)

    text = table(LESSON, [figures("small", 4, 10.0), figures("large", 32, 20.0)])
    assert "| speed-up a sample |" in text and "| 4.00× |" in text
    assert "| speed-up |" in table(LESSON, [figures("slow", 1, 10.0), figures("fast", 1, 5.0)])


def test_screenshots_in_the_notebook_are_those_of_docs_and_have_alternative_text():
    cells = json.loads((ROOT / "solutions/01_profiler_tour/01_profiler_tour.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = {}
    for cell in cells:
        for name, picture in cell.get("attachments", {}).items():
            shown[name] = base64.b64decode(picture["image/png"])
            text = "".join(cell["source"])
            assert len(text.split(f"](attachment:{name})")[0].rpartition("![")[2]) > 60
    kept = {path.name: path.read_bytes() for path in (ROOT / "docs/screenshots").glob("*.png")}
    kept.pop("check.png")  # the README's
    assert shown.keys() == kept.keys()
    assert shown == kept, "run python docs/screenshots/embed.py and make notebooks"
