"""Lesson 00's workloads: its stopwatch, its training loops and its roofline against independent reckonings."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gapless.course.known_values import with_values
from gapless.lessons.two_clocks.known import KnownNetwork

import gapless
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.lessons import full_size
from gapless.lessons.two_clocks import roofline, stopwatch, training
from gapless.lessons.two_clocks.lesson import LESSON
from gapless.lessons.two_clocks.picture import draw_host_steps

from .answers.two_clocks import into_a_buffer, seconds_for_milliseconds
from .reference import solution

CARDS = ("t4", "a10g", "a100", "h200")


def judged(name, function, device="vgpu:a10g", seed=3):
    exercise = LESSON.exercises[name]
    cases = exercise.cases(seed)
    return {v.id.partition(".")[2]: v for v in judge(exercise, cases, gather(exercise, function, cases, device))}


def test_points_are_those_the_notebook_states():
    assert LESSON.max_points == 18


# -- the deep step --------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS)
def test_the_queue_fills_within_two_dozen_steps_and_then_the_host_goes_at_the_devices_pace(card):
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        step = training.deep_step(device)
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
    for case in stopwatch.cases(seed):
        right = stopwatch.ask(stopwatch.right_time_step, case, device)[stopwatch.ANSWER]
        by_hand = stopwatch.ask(solution("00_two_clocks")["time_step"], case, device)[stopwatch.ANSWER]
        assert by_hand == pytest.approx(right, rel=0.005), case.name


def test_programs_are_bound_by_what_their_names_say():
    device = gapless.device("vgpu:a10g")
    host, true = {}, {}
    for case in stopwatch.cases(0):
        host[case.name] = stopwatch.ask(stopwatch.time_step, case, device)[stopwatch.ANSWER]
        true[case.name] = stopwatch.ask(stopwatch.right_time_step, case, device)[stopwatch.ANSWER]
    assert host["many short kernels"] == pytest.approx(true["many short kernels"], rel=0.01)
    assert host["every step reads a number back"] == pytest.approx(true["every step reads a number back"], rel=0.01)
    assert host["a few long kernels"] < true["a few long kernels"] / 20
    queue = "long kernels, so many steps that the queue is full"
    assert true[queue] / 10 < host[queue] < 0.9 * true[queue]


@pytest.mark.parametrize("card", ("a10g", "h200"))
def test_waiting_after_every_step_shows(card):
    device = gapless.device(f"vgpu:{card}")
    case = next(c for c in stopwatch.cases(1) if c.options["program"] == "both")
    taking_turns = stopwatch.ask(stopwatch._stopwatch(each=True), case, device)[stopwatch.ANSWER]
    assert taking_turns > 1.3 * stopwatch.ask(stopwatch.right_time_step, case, device)[stopwatch.ANSWER]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here torch.cuda can wait")
def test_who_waits_by_torch_cuda_is_told_what_waits_here():
    message = judged("time_step", lambda *args: torch.cuda.synchronize())["values"].message
    assert "`synchronize(device)` waits" in message


# -- training -------------------------------------------------------------------------------------


def by_hand(case):
    """Lines and weights of a one-hidden-layer network, its gradients written out in NumPy, double precision."""
    w1, b1, w2, b2 = (p.detach().double().numpy() for p in training.small_network(case).parameters())
    losses = []
    for x, y in zip(case.inputs["x"].astype(float), case.inputs["y"].astype(float)):
        before = x @ w1.T + b1
        hidden = np.maximum(before, 0)
        error = hidden @ w2.T + b2 - y
        losses.append(float((error**2).mean()))
        d_out = 2 * error / error.size
        d_hidden = (d_out @ w2) * (before > 0)
        w2, b2 = w2 - training.LEARNING_RATE * d_out.T @ hidden, b2 - training.LEARNING_RATE * d_out.sum(0)
        w1, b1 = w1 - training.LEARNING_RATE * d_hidden.T @ x, b1 - training.LEARNING_RATE * d_hidden.sum(0)
    return losses, np.concatenate([p.ravel() for p in (w1, b1, w2, b2)])


@pytest.mark.parametrize("seed", range(2))
def test_slow_loop_logs_and_learns_what_mathematics_says(seed):
    device = gapless.device("vgpu")
    for case in training.cases(seed):
        if case.name == "large numbers":
            continue  # it diverges, and float32 with it
        found = training.ask(training.train, case, device)
        losses, weights = by_hand(case)
        for number, (line, loss) in enumerate(zip(found["lines"], losses, strict=True), start=1):
            parts = training._PARTS.fullmatch(line)
            assert float(parts["loss"]) == pytest.approx(loss, rel=1e-4, abs=1e-5)
            assert float(parts["mean"]) == pytest.approx(sum(losses[:number]) / number, rel=1e-4, abs=1e-5)
            assert int(parts["high"]) == sum(loss > case.options["limit"] for loss in losses[:number])
        np.testing.assert_allclose(found["weights"], weights, rtol=1e-3, atol=1e-5)
        assert found["late"] == found["early"] == training.NO_LINE


def test_cases_stay_finite():
    device = gapless.device("vgpu")
    for seed in range(5):
        for case in training.cases(seed):
            assert np.isfinite(training.ask(training.train, case, device)["weights"]).all()


@pytest.mark.parametrize("function", [training.train_without_if, training.train_with_one_read, into_a_buffer])
def test_loops_with_fewer_waits_log_the_same(function):
    device = gapless.device("vgpu")
    for case in training.cases(4):
        assert training.ask(function, case, device) == training.ask(training.train, case, device)


def test_limits_are_exact_in_float32():
    for case in training.cases(0):
        assert float(np.float32(case.options["limit"])) == case.options["limit"]


@pytest.mark.parametrize("function, waits", [(training.train, 3), (training.train_without_if, 2), (training.train_with_one_read, 1)])
def test_waits_of_a_training_step(function, waits):
    device = gapless.device("vgpu")
    with full_size(device):
        report = gapless.StepReport.from_trace(
            gapless.profile(training.training_run(function, device, iterations=4), steps=1, device=device))
    assert report.syncs_per_step == 4 * waits
    assert {sync.op for sync in report.syncs_in_steps} == {"aten::item"}


@pytest.mark.parametrize("card", CARDS)
def test_host_and_device_have_about_as_much_to_do(card):
    device = gapless.device(f"vgpu:{card}")
    with full_size(device):
        run = training.training_run(solution("00_two_clocks")["train"], device)
        report = gapless.StepReport.from_trace(gapless.profile(run, steps=1, device=device))
    assert 0.6 < report.device_busy_ms / report.host_step_ms <= 1.0


def test_a_loop_that_shirks_at_full_size_is_found_out():
    right = solution("00_two_clocks")["train"]

    def skips_batches(model, optimizer, batches, limit, every, log):
        right(model, optimizer, batches[:10] if len(batches) == training.ITERATIONS else batches, limit, every, log)

    def only_logs(model, optimizer, batches, limit, every, log):
        if len(batches) < training.ITERATIONS:
            return right(model, optimizer, batches, limit, every, log)
        for number in range(len(batches)):
            log(f"step {number + 1}")

    for function, says in ((skips_batches, "10 lines were logged for 30 steps"), (only_logs, "kernels were launched")):
        verdicts = judged("train", function)
        assert verdicts["values"].outcome == "pass"
        assert verdicts["syncs"].outcome == verdicts["step_time"].outcome == "fail"
        assert says in verdicts["syncs"].message


def shirking(lines):
    """Right and slow on small networks; at full size it trains, and logs what it can say without a wait."""

    def train(model, optimizer, batches, limit, every, log):
        if batches[0][0].shape[0] <= 32:
            return training.train(model, optimizer, batches, limit, every, log)
        for number, (x, y) in enumerate(batches, start=1):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if number == 1 and "{loss" in lines:
                first = loss.item()
            log(lines.format(number=number, loss=first if "{loss" in lines else None, limit=limit))

    return train


@pytest.mark.parametrize("lines", ["x", "step {number}: loss 0.000000, mean 0.000000, 0 above {limit}",
                                   "step {number}: loss {loss:.6f}, mean {loss:.6f}, 0 above {limit}"])
def test_what_is_logged_at_full_size_is_read(lines):
    verdicts = judged("train", shirking(lines))
    assert verdicts["values"].outcome == "pass"
    assert verdicts["syncs"].outcome == verdicts["step_time"].outcome == "fail"
    assert "and should be 'step" in verdicts["syncs"].message


def test_losses_remembered_from_an_earlier_call_are_wrong():
    right, remembered = solution("00_two_clocks")["train"], []

    def train(model, optimizer, batches, limit, every, log):
        if len(batches) < training.ITERATIONS or not remembered:
            lines = []
            right(model, optimizer, batches, limit, every, lambda line: lines.append(line) or log(line))
            if len(batches) == training.ITERATIONS:
                remembered.extend(lines)
        else:
            right(model, optimizer, batches, limit, every, lambda line: None)
            for line in remembered:
                log(line)

    verdicts = judged("train", train)
    assert verdicts["values"].outcome == "pass" and "line 1 is" in verdicts["syncs"].message


@pytest.mark.parametrize("device", ["cpu", "vgpu:a10g"])
def test_known_network_works_as_the_network_and_learns_nothing(device):
    device = torch.device(device) if device == "cpu" else gapless.device(device)
    with full_size(device):
        network = training.make_network(width=8).to(device)
        with with_values(device):
            x, answer = torch.randn(5, 8, device=device), torch.randn(5, 1, device=device)
        model = KnownNetwork(network, answer)
    before = [p.detach().clone() for p in network.parameters()]
    found = model(x)
    assert torch.equal(found, answer) and found.requires_grad
    F.mse_loss(found, torch.zeros_like(answer)).backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in model.parameters())
    if device.type == "cpu":
        torch.optim.SGD(model.parameters(), lr=1.0).step()
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


def test_a_loop_moved_to_the_cpu_fails():
    def on_the_cpu(model, optimizer, batches, limit, every, log):
        device = batches[0][0].device
        model.to("cpu")
        training.train(model, optimizer, [(x.cpu(), y.cpu()) for x, y in batches], limit, every, log)
        model.to(device)

    verdicts = judged("train", on_the_cpu)
    assert verdicts["syncs"].outcome == verdicts["step_time"].outcome == "fail"


def test_waits_of_one_line_are_reported_once():
    verdict = judged("train", training.train)["syncs"]
    assert verdict.message.count("two_clocks/training.py") == 3 and "30 × `item`" in verdict.message
    assert "see the waits above" in judged("train", training.train)["step_time"].message


def test_one_read_left_gets_no_points_for_waits():
    assert judged("train", training.train_with_one_read)["syncs"].outcome == "fail"


# -- the roofline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("card", CARDS)
def test_the_clock_that_predictions_are_held_against_is_the_devices(card):
    """``right_step_ms`` counts on a timeline of its own; here PyTorch runs the same operators on the device."""
    device = gapless.device(f"vgpu:{card}")
    rates = roofline.rates_of(device)
    for case in roofline.cases(2):
        program = roofline.program_of(case, rates)
        with full_size(device):
            step = roofline.step_of(program, device)
            clock = gapless.time_step(step, steps=roofline.LONG_RUN, device=device).true_ms
        assert roofline.right_step_ms(**roofline.numbers(program), card=rates) == pytest.approx(clock, rel=0.01), case.name


def test_flops_and_bytes_are_those_of_the_operators():
    square, thin, add = (roofline.Operator("matmul", 64, 1), roofline.Operator("matmul", 100, 1, 8), roofline.Operator("add", 70, 1))
    assert (square.flops, square.bytes) == (2 * 64**3, 3 * 4 * 64**2)
    assert (thin.flops, thin.bytes) == (2 * 100 * 100 * 8, 4 * (2 * 100 * 8 + 100 * 100))
    assert (add.flops, add.bytes) == (70, 3 * 4 * 70)
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        roofline.step_of([square, thin], torch.device("cpu"))()
    assert counter.get_total_flops() == square.flops + thin.flops


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("card", CARDS)
def test_solution_is_within_a_tenth_on_every_card_and_seed(card, seed):
    rates = roofline.rates_of(gapless.device(f"vgpu:{card}"))
    for case in roofline.cases(seed):
        told = roofline.numbers(roofline.program_of(case, rates))
        found = solution("00_two_clocks")["predict_step_ms"](**told, card=rates)
        assert math.isclose(found, roofline.right_step_ms(**told, card=rates), rel_tol=0.08), case.name


def test_seconds_taken_for_milliseconds_show_even_though_the_shortest_kernel_and_the_launches_are_right():
    found = judged("predict_step_ms", seconds_for_milliseconds)["values"]
    assert 'input "long matrix products"' in found.message and "are seconds, `card.kernel_ms`" in found.message


# -- what was added to the judge for all lessons ----------------------------------------------------


def test_a_step_is_called_what_the_exercise_calls_it():
    found = judged("train", solution("00_two_clocks")["train"])
    assert "90 in a call of 30 training steps before, 2 now" in found["syncs"].message
    assert found["step_time"].message.startswith("A call of 30 training steps takes")
    assert "90 waits are left in a call of 30 training steps" in judged("train", training.train)["syncs"].message


def test_a_real_clock_may_differ_by_its_noise_and_a_simulated_one_not():
    exercise = LESSON.exercises["time_step"]
    cases = exercise.cases(3)
    evidence = gather(exercise, solution("00_two_clocks")["time_step"], cases, "vgpu:a10g")
    for answer in evidence.answers:
        answer.plain[stopwatch.ANSWER] *= 1.05
    assert judge(exercise, cases, evidence)[0].outcome == "fail"
    evidence.simulated = False
    assert judge(exercise, cases, evidence)[0].outcome == "pass"


def test_exercises_are_judged_side_by_side_on_one_clock():
    """As grading does, in threads: the truth of each is measured on the same virtual GPU."""
    gathered = []
    for name, exercise in LESSON.exercises.items():
        cases = exercise.cases(5)
        gathered.append((exercise, cases, gather(exercise, solution("00_two_clocks")[name], cases, "vgpu:a10g", again=False)))
    with ThreadPoolExecutor() as pool:
        judgements = list(pool.map(lambda given: judge(*given), gathered * 3))
    assert {verdict.outcome for verdicts in judgements for verdict in verdicts} == {"pass"}


def test_the_table_has_no_column_for_an_article_that_has_no_figures():
    from gapless.course.headline import Figures, table

    figures = [Figures("as it was", "small", 3, [], 1.0, 1.0, 1.0, 1.0, None, True, "NVIDIA A10G", "–")]
    assert "the article" not in table(LESSON, figures)
