"""Lesson 00's workloads: its stopwatch, its training loops and its roofline against independent computations."""

import base64
import functools
import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import gapless
from gapless.course.answers import answer
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.plain import difference
from gapless.course.quick import how_often
from gapless.course.stage import LocalStage
from gapless.lessons import full_size
from gapless.lessons.two_clocks import look, workload
from gapless.lessons.two_clocks.lesson import LESSON
from gapless.lessons.two_clocks.look import draw_host_steps, draw_two_workers
from gapless.lessons.two_clocks.predict_step_ms import cases as predict_step_ms_cases
from gapless.lessons.two_clocks.predict_step_ms import right as predict_step_ms_right
from gapless.lessons.two_clocks.predict_step_ms import stage
from gapless.lessons.two_clocks.stage import ANSWER
from gapless.lessons.two_clocks.time_step import cases as time_step_cases
from gapless.lessons.two_clocks.time_step import explain as time_step_explain
from gapless.lessons.two_clocks.time_step import right as time_step_right
from gapless.lessons.two_clocks.time_step import slow as time_step_slow
from gapless.lessons.two_clocks.train import cases as train_cases
from gapless.lessons.two_clocks.train import explain as train_explain
from gapless.lessons.two_clocks.train import slow as train_slow

from .. import ROOT
from .answers.two_clocks import WRONG, into_a_buffer, seconds_for_milliseconds
from .reference import inputs, solution

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

CARDS = ("t4", "a10g", "a100", "h200")


def gathered(name, function, device="vgpu:a10g", seed=3):
    """(exercise, plan, evidence): what :func:`judge` is given."""
    exercise, where = LESSON.exercises[name], gapless.device(device)
    plan, _ = inputs(LESSON.id, name, seed, device)
    return exercise, plan, gather(exercise, LocalStage(function, where, exercise.asked.ask), plan, where, name=device)


@functools.cache
def judged(name, function, device="vgpu:a10g", seed=3):
    _, truth = inputs(LESSON.id, name, seed, device)
    return {v.id.partition(".")[2]: v for v in judge(*gathered(name, function, device, seed), truth)}


def answered(name, function, case, device):
    """What the function answers, in JSON's types."""
    exercise = LESSON.exercises[name]
    found = answer(exercise, LocalStage(function, device, exercise.asked.ask), case, device)
    assert found.error is None and found.unusable is None, found
    return found.plain


def timed(function, case, device):
    return answered("time_step", function, case, device)[ANSWER]


def test_points_are_those_the_notebook_states():
    assert LESSON.max_points == 18


# -- the deep step --------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS)
def test_the_queue_fills_within_two_dozen_steps_and_then_the_host_goes_at_the_devices_pace(card):
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        step = workload.deep_step(device)
        step()
        gapless.synchronize(device)
        host_ms = []
        for _ in range(24):
            start = gapless.clock_ms(device)
            step()
            host_ms.append(gapless.clock_ms(device) - start)
        true_ms = gapless.time_step(step, device=device).true_ms
        report = gapless.StepReport.from_trace(gapless.profile(step, device=device))
    assert host_ms[0] < true_ms / 4
    assert host_ms[-1] == pytest.approx(true_ms, rel=0.01)
    assert report.syncs_per_step == 0 and 6 < 1000 / report.kernels < 12


def test_picture_says_in_words_what_it_shows():
    pytest.importorskip("matplotlib")
    figure = draw_host_steps([1.0, 1.0, 6.0, 9.9, 9.9], 10.0, "simulated NVIDIA A10G")
    shown, _ = figure._repr_mimebundle_()
    assert "5 steps on simulated NVIDIA A10G" in shown["text/plain"] and "From step 2" in shown["text/plain"]
    assert shown["image/png"]
    assert "never has to wait" in draw_host_steps([1.0, 1.0], 10.0, "GPU").alt


# -- the stopwatch --------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("seed", range(2))
def test_truth_is_what_a_clock_at_both_ends_says(card, seed):
    device = gapless.device(f"vgpu:{card}")
    for case in time_step_cases.stopwatch_cases(seed):
        truth = timed(time_step_right.right_time_step, case, device)
        by_hand = timed(solution("00_two_clocks")["time_step"], case, device)
        assert by_hand == pytest.approx(truth, rel=0.005), case.name


def test_programs_are_bound_by_what_their_names_say():
    device = gapless.device("vgpu:a10g")
    host, true = {}, {}
    for case in time_step_cases.stopwatch_cases(0):
        host[case.name] = timed(time_step_slow.time_step, case, device)
        true[case.name] = timed(time_step_right.right_time_step, case, device)
    assert host["many short kernels"] == pytest.approx(true["many short kernels"], rel=0.01)
    assert host["every step reads a number back"] == pytest.approx(true["every step reads a number back"], rel=0.01)
    assert host["a few long kernels"] < true["a few long kernels"] / 20
    queue = "long kernels, so many steps that the queue is full"
    assert true[queue] / 10 < host[queue] < 0.9 * true[queue]


@pytest.mark.parametrize("card", ["a10g", "h200"])
def test_waiting_after_every_step_shows(card):
    device = gapless.device(f"vgpu:{card}")
    case = next(c for c in time_step_cases.stopwatch_cases(1) if c.options["program"] == "both")
    wrong = next(mistake for mistake in time_step_explain.MISTAKES if mistake.why.startswith("You wait after every step,"))
    taking_turns = timed(wrong.function, case, device)
    assert taking_turns > 1.3 * timed(time_step_right.right_time_step, case, device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here torch.cuda can wait")
def test_who_waits_by_torch_cuda_is_told_what_waits_here():
    message = judged("time_step", lambda *args: torch.cuda.synchronize())["values"].message
    assert "`synchronize(device)` waits" in message


# -- training -------------------------------------------------------------------------------------


def by_hand(case):
    """Lines and weights of a one-hidden-layer network, its gradients written out in NumPy, double precision."""
    w1, b1, w2, b2 = (weight.astype(float) for weight in case.inputs["weights"])
    losses, momentum, moved = [], case.options.get("momentum", 0.0), [0.0] * 4
    for x, y in zip(np.array(case.inputs["x"], float), np.array(case.inputs["y"], float)):
        before = x @ w1.T + b1
        hidden = np.maximum(before, 0)
        error = hidden @ w2.T + b2 - y
        losses.append(float((error**2).mean()))
        d_out = 2 * error / error.size
        d_hidden = (d_out @ w2) * (before > 0)
        gradients = d_hidden.T @ x, d_hidden.sum(0), d_out.T @ hidden, d_out.sum(0)
        moved = [momentum * old + gradient for old, gradient in zip(moved, gradients)]
        w1, b1, w2, b2 = (weight - workload.LEARNING_RATE * each for weight, each in zip((w1, b1, w2, b2), moved))
    return losses, (w1, b1, w2, b2)


@pytest.mark.parametrize("seed", range(2))
def test_slow_loop_logs_and_learns_what_mathematics_says(seed):
    device = gapless.device("vgpu")
    for case in train_cases.training_cases(seed):
        if case.name == "large numbers" or "nan" in case.name:
            continue  # it diverges, and float32 with it
        found = answered("train", train_slow.train, case, device)
        losses, weights = by_hand(case)
        for number, (line, loss) in enumerate(zip(found["lines"], losses, strict=True), start=1):
            parts = train_explain._PARTS.fullmatch(line)
            assert float(parts["loss"]) == pytest.approx(loss, rel=1e-4, abs=1e-5)
            assert float(parts["mean"]) == pytest.approx(sum(losses[:number]) / number, rel=1e-4, abs=1e-5)
            assert int(parts["high"]) == sum(loss > case.options["limit"] for loss in losses[:number])
        for own, wanted in zip(found["weights"], weights, strict=True):
            np.testing.assert_allclose(np.array(own), wanted, rtol=1e-3, atol=1e-5)
        assert found["late"] == found["early"] == train_cases.NO_LINE


def test_cases_stay_finite():
    device = gapless.device("vgpu")
    for seed in range(5):
        for case in train_cases.training_cases(seed):
            assert "nan" in case.name or all(np.isfinite(np.array(weight)).all() for weight in answered("train", train_slow.train, case, device)["weights"])


@pytest.mark.parametrize("function", [train_slow.train_without_if, train_slow.train_with_one_read, into_a_buffer])
def test_loops_with_fewer_waits_log_the_same(function):
    device = gapless.device("vgpu")
    for case in train_cases.training_cases(4):
        assert difference(answered("train", function, case, device), answered("train", train_slow.train, case, device), 0, 0) is None


def test_limits_are_exact_in_float32():
    for case in train_cases.training_cases(0):
        assert float(np.float32(case.options["limit"])) == case.options["limit"]


@pytest.mark.parametrize("function, waits", [(train_slow.train, 3), (train_slow.train_without_if, 2), (train_slow.train_with_one_read, 1)])
def test_waits_of_a_training_step(function, waits):
    device = gapless.device("vgpu")
    with full_size(device):
        report = gapless.StepReport.from_trace(
            gapless.profile(workload.training_run(function, device, iterations=4), steps=1, device=device))
    assert report.syncs_per_step == 4 * waits
    assert {sync.op for sync in report.syncs_in_steps} == {"aten::item"}


def host_alone(device):
    """The mended loop on one row a batch: the device has next to nothing to do."""
    model = workload.make_network().to(device)
    x, y = torch.randn(1, workload.WIDTH, device=device), torch.randn(1, 1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=workload.LEARNING_RATE)
    return lambda: solution("00_two_clocks")["train"](model, optimizer, [(x, y)] * workload.ITERATIONS, workload.LIMIT,
                                                      workload.EVERY, lambda text: None)


@pytest.mark.parametrize("card", CARDS)
def test_host_and_device_have_about_as_much_to_do(card):
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        run = workload.training_run(solution("00_two_clocks")["train"], device)
        report = gapless.StepReport.from_trace(gapless.profile(run, steps=1, device=device))
        slow_ms, mended_ms = (gapless.time_step(workload.training_run(function, device), steps=2, device=device).true_ms
                              for function in (train_slow.train, solution("00_two_clocks")["train"]))
        idle = gapless.StepReport.from_trace(gapless.profile(host_alone(device), steps=1, device=device))
    assert 0.95 < report.device_busy_ms / report.host_step_ms <= 1.0
    assert 0.85 < idle.host_step_ms / report.device_busy_ms < 1.15
    assert 1.35 < slow_ms / mended_ms < 1.6


@pytest.mark.parametrize("card", CARDS)
def test_the_trials_card_is_so_slow_that_its_device_has_as_much_to_do(card):
    *_, evidence = gathered("train", solution("00_two_clocks")["train"], device=f"vgpu:{card}")
    full, trial = (measured.learner.report.device_busy_ms for measured in (evidence.full, evidence.trial))
    assert 0.8 < trial / full < 1.25


def is_timed(batches):
    """Whether this is none of the small trainings, of width 6."""
    return batches[0][0].shape[1] > 50


def shirks(kind):
    """Right on small trainings, otherwise ``kind`` of something less."""
    good = solution("00_two_clocks")["train"]

    def train(model, optimizer, batches, limit, every, log):
        if not is_timed(batches):
            return good(model, optimizer, batches, limit, every, log)
        kind(model, optimizer, batches, limit, every, log)

    return train


def skips_batches(model, optimizer, batches, limit, every, log):
    solution("00_two_clocks")["train"](model, optimizer, batches[:-2], limit, every, log)


def only_logs(model, optimizer, batches, limit, every, log):
    for number in range(len(batches)):
        log(f"step {number + 1}: loss 1.000000, mean 1.000000, 0 above {limit}")


@pytest.mark.parametrize("kind, says", [(skips_batches, "The lines of the last 2 step(s) are missing"),
                                        (only_logs, "Even the first loss differs")])
def test_a_loop_that_shirks_where_it_is_timed_is_wrong(kind, says):
    verdicts = judged("train", shirks(kind))
    assert {v.outcome for v in verdicts.values()} == {"fail"} and says in verdicts["values"].message


def test_lines_remembered_from_an_earlier_call_are_wrong():
    good, remembered = solution("00_two_clocks")["train"], []

    def train(model, optimizer, batches, limit, every, log):
        if not is_timed(batches) or not remembered:
            lines = []
            good(model, optimizer, batches, limit, every, lambda line: lines.append(line) or log(line))
            remembered.extend(lines if is_timed(batches) else [])
        else:
            good(model, optimizer, batches, limit, every, lambda line: None)
            for line in remembered:
                log(line)

    verdicts = judged("train", train)
    assert {v.outcome for v in verdicts.values()} == {"fail"}


def test_a_loop_that_does_less_where_no_values_are_is_found_out():
    """At full size each batch is the same tensor."""
    good = solution("00_two_clocks")["train"]

    def train(model, optimizer, batches, limit, every, log):
        same = len(batches) > 1 and batches[0][0] is batches[1][0]
        good(model, optimizer, batches[:3] if same else batches, limit, every, log)

    verdicts = judged("train", train)
    assert {verdict.outcome for verdict in verdicts.values()} == {"fail"} and "does less" in verdicts["step_time"].message


def test_a_loop_moved_to_the_cpu_fails():
    def on_the_cpu(model, optimizer, batches, limit, every, log):
        device = batches[0][0].device
        model.to("cpu")
        train_slow.train(model, optimizer, [(x.cpu(), y.cpu()) for x, y in batches], limit, every, log)
        model.to(device)

    verdicts = judged("train", on_the_cpu)
    assert verdicts["syncs"].outcome == verdicts["step_time"].outcome == "fail"


def test_waits_of_one_line_are_reported_once():
    verdict = judged("train", train_slow.train)["syncs"]
    assert verdict.message.count("two_clocks/train/slow.py") == 3 and "12 × `item`" in verdict.message
    assert "see the waits above" in judged("train", train_slow.train)["step_time"].message


def test_one_read_left_gets_no_points_for_waits():
    assert judged("train", train_slow.train_with_one_read)["syncs"].outcome == "fail"


# -- the roofline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS)
def test_the_clock_that_predictions_are_held_against_is_the_devices(card):
    """``right_step_ms`` takes kernels that reach the rates; here PyTorch runs the same operators on the device."""
    device = gapless.device(f"vgpu:{card}")
    reached = stage.rates_of(device)
    for name, program in [("example", look.example_program(reached)),
                          *((case.name, stage.program_of(case.options["rows"], reached)) for case in predict_step_ms_cases.prediction_cases(2))]:
        with full_size(device):
            step = look.step_of(program, device)
            clock = gapless.time_step(step, steps=predict_step_ms_right.LONG_RUN, device=device).true_ms
        # Hopper cannot write a thin product's result while it computes.
        far = 0.25 if card == "h200" and "thin" in name else 0.1 if "thin" in name else 0.08
        assert predict_step_ms_right.right_step_ms(**stage.numbers(program), card=reached) == pytest.approx(clock, rel=far), name


@pytest.mark.parametrize("card", CARDS)
def test_rates_are_what_large_operators_reach_on_the_device(card):
    device = gapless.device(f"vgpu:{card}")
    reached = stage.rates_of(device)
    host = gapless.vgpu.card().host
    with full_size(device):
        product, large_sum, tiny = (stage.Operator("matmul", 4096, 1, 4096), stage.Operator("add", 10**8, 1),
                                    stage.Operator("add", stage.SMALL, 1000))
        product_ms, sum_ms, tiny_ms = (gapless.time_step(look.step_of([operator], device), device=device).true_ms
                                       for operator in (product, large_sum, tiny))
    assert product.flops / product_ms * 1e3 == pytest.approx(reached.flops_per_s, rel=0.05)
    assert large_sum.bytes / sum_ms * 1e3 == pytest.approx(reached.bytes_per_s, rel=0.01)
    assert tiny_ms / tiny.times == pytest.approx(reached.launch_ms, rel=0.01)
    assert host.op_ns < 1e6 * reached.launch_ms < host.library_op_ns


def test_words_become_programs_by_hand():
    """A card of 2 · 4096² · 1000 FLOP/ms and 12 · 10⁶ B/ms, whose host takes 0.01 ms for an operator."""
    card = stage.Rates("a10g", "by hand", 2 * 4096**2 * 1000 * 1e3, 12e9, 0.002, 0.01)
    program = stage.program_of([["matmul", 1.6, 2], ["add", 0.5, 3], ["add", None, 100], ["matmul", "2.0 share", 5]], card)
    assert program == [stage.Operator("matmul", 4096, 2, 1600), stage.Operator("add", 500_000, 3),
                       stage.Operator("add", stage.SMALL, 100), stage.Operator("matmul", 4096, 5, 2208)]  # 2 × 110 × 0.01 ms


def test_flops_and_bytes_are_those_of_the_operators():
    square, thin, add = (stage.Operator("matmul", 64, 1), stage.Operator("matmul", 100, 1, 8), stage.Operator("add", 70, 1))
    assert (square.flops, square.bytes) == (2 * 64**3, 3 * 4 * 64**2)
    assert (thin.flops, thin.bytes) == (2 * 100 * 100 * 8, 4 * (2 * 100 * 8 + 100 * 100))
    assert (add.flops, add.bytes) == (70, 3 * 4 * 70)
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        look.step_of([square, thin], torch.device("cpu"))()
    assert counter.get_total_flops() == square.flops + thin.flops


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("card", CARDS)
def test_solution_is_within_a_tenth_on_every_card_and_seed(card, seed):
    reached = stage.rates_of(gapless.device(f"vgpu:{card}"))
    for case in predict_step_ms_cases.prediction_cases(seed):
        told = stage.numbers(stage.program_of(case.options["rows"], reached))
        found = solution("00_two_clocks")["predict_step_ms"](**told, card=reached)
        assert math.isclose(found, predict_step_ms_right.right_step_ms(**told, card=reached), rel_tol=0.08), case.name


def test_seconds_taken_for_milliseconds_show_even_though_the_shortest_kernel_and_the_launches_are_right():
    found = judged("predict_step_ms", seconds_for_milliseconds)["values"]
    assert 'input "long matrix products"' in found.message and "are seconds, `card.kernel_ms`" in found.message


# -- what this lesson asks of the judge --------------------------------------------------------------


def test_a_step_is_called_what_the_exercise_calls_it():
    found = judged("train", solution("00_two_clocks")["train"])
    assert "36 in a call of 12 training steps before, 2 now" in found["syncs"].message
    assert found["step_time"].message.startswith("A call of 12 training steps takes")
    assert "36 waits are left in a call of 12 training steps" in judged("train", train_slow.train)["syncs"].message


def test_a_real_clock_may_differ_by_its_noise_and_a_simulated_one_not():
    exercise, plan, evidence = gathered("time_step", solution("00_two_clocks")["time_step"])
    for found in evidence.answers:
        found.plain[ANSWER] *= 1.05
    assert judge(exercise, plan, evidence)[0].outcome == "fail"
    evidence.simulated = False
    assert judge(exercise, plan, evidence)[0].outcome == "pass"


def test_exercises_are_judged_side_by_side_on_one_clock():
    """As grading does, in threads: the truth of each is measured on the same virtual GPU."""
    given = [gathered(name, solution("00_two_clocks")[name], seed=5) for name in LESSON.exercises]
    with ThreadPoolExecutor() as pool:
        judgements = list(pool.map(lambda each: judge(*each), given * 3))
    assert {verdict.outcome for verdicts in judgements for verdict in verdicts} == {"pass"}


def test_the_table_has_no_column_for_an_article_that_has_no_figures():
    from gapless.course.headline import Figures, table

    figures = [Figures("as it was", "small", 3, [], 1.0, 1.0, 1.0, 1.0, None, True, "NVIDIA A10G", "–")]
    assert "the article" not in table(LESSON, figures)


# -- quick questions and pictures -----------------------------------------------------------------


def test_quick_questions_are_answered_as_cuda_does():
    """Read off PyTorch's CUDA sources, not off the virtual GPU."""
    cuda = {"y = x @ x": 0, "total = x.sum().item()": 1, "if x.sum() > 0: pass": 1, "if x.shape[0] > 3: pass": 0,
            'text = f"loss {loss:.4f}"': 1, "host = x.cpu()": 1, "pinned.copy_(x, non_blocking=True)": 0,
            "z = torch.zeros(3, device=device)": 0, "t = torch.tensor(3.0, device=device)": 1, "high = max(loss, 1.0)": 1}
    device = gapless.device("vgpu:a10g")
    assert {quick.line: how_often(LESSON.quick, quick, device) for quick in LESSON.quick.questions} == cuda


def test_two_workers_picture_says_who_sets_the_pace():
    pytest.importorskip("matplotlib")
    short, long = draw_two_workers(12, 3, 4), draw_two_workers(12, 24, 4)
    # Launches end at 12, 24, 36 and 48 µs; the last kernel at 51, of which 12 are work.
    assert "the host sets the pace; the device idles 39 of 51 µs" in short.alt
    assert "the device sets the pace; the device idles 12 of 108 µs" in long.alt


def test_figures_in_the_notebook_are_those_of_docs_with_their_text():
    shown = 0
    for cell in json.loads((ROOT / "solutions/00_two_clocks/00_two_clocks.ipynb").read_text(encoding="utf-8"))["cells"]:
        for name, picture in cell.get("attachments", {}).items():
            kept = ROOT / "docs/figures" / name
            assert base64.b64decode(picture["image/png"]) == kept.read_bytes(), "run python docs/screenshots/embed.py"
            assert f"![{kept.with_suffix('.md').read_text(encoding='utf-8').strip()}](" in "".join(cell["source"])
            shown += 1
    assert shown == 2


@pytest.mark.parametrize("function, says", [(function, says) for name, function, says in WRONG if name == "predict_step_ms"][:12])
def test_causes_are_named_where_the_program_allows_tf32_too(function, says):
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert any(says in verdict.message for verdict in judged("predict_step_ms", function).values())
