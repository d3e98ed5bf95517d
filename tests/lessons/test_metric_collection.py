"""Lesson 03's workload and functions: against plain Python, against one another, alone and in two processes."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torchmetrics import MeanMetric

import gapless
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.stage import LocalStage
from gapless.lessons import full_size
from gapless.lessons.metric_collection.cases import logits_and_labels
from gapless.lessons.metric_collection.collect.slow import collect
from gapless.lessons.metric_collection.evaluate.slow import evaluate
from gapless.lessons.metric_collection.lesson import LESSON
from gapless.lessons.metric_collection.stage import CLASSES, IGNORE, METRICS
from gapless.lessons.metric_collection.step_time_metric.stage import device_group
from gapless.lessons.metric_collection.update_loss.slow import update_loss
from gapless.lessons.metric_collection.workload import (
    LABELS,
    SMALL_SIZE,
    Size,
    TrainingMetrics,
    make_network,
    training_step,
    waits_by_block,
)

from .. import ROOT, forked
from .reference import solution

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def solutions():
    return solution(LESSON.id)


def by_hand(predictions, targets):
    """The four macro averages, class by class, in plain Python."""
    pairs = [(t, p) for t, p in zip(targets, predictions) if t != IGNORE]
    rows = []
    for c in {c for pair in pairs for c in pair}:
        right = sum(pair == (c, c) for pair in pairs)
        actual, predicted = sum(t == c for t, _ in pairs), sum(p == c for _, p in pairs)
        rows.append((right / actual if actual else 0, right / predicted if predicted else 0, 2 * right / (actual + predicted)))
    recall, precision, f1 = (sum(column) / len(rows) for column in zip(*rows)) if rows else (0, 0, 0)
    return {"accuracy": recall, "precision": precision, "recall": recall, "f1": f1}


def batches(seed, shape=(3, 40), ignored=0.0):
    rng = np.random.default_rng(seed)
    logits, labels = logits_and_labels(rng, shape)
    return logits, np.where(rng.random(shape) < ignored, IGNORE, labels)


def on_device(device, array):
    return [torch.from_numpy(np.array(each)).to(device) for each in array]


def values(found):
    return {name: value.item() for name, value in found.items()}


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignored", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(3, 40), (1, 1), (5, 7)])
def test_slow_and_fixed_evaluation_are_the_averages_by_hand(solutions, shape, ignored):
    logits, targets = batches(1, shape, ignored)
    wanted = by_hand(logits.argmax(-1).flatten().tolist(), targets.flatten().tolist())
    loader = list(zip(on_device(CPU, logits), on_device(CPU, targets)))
    slow = values(evaluate(nn.Identity(), loader, CPU))
    assert slow == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    assert values(solutions["evaluate"](nn.Identity(), loader, CPU)) == slow  # to the last bit


@pytest.mark.parametrize("seed", range(3))
def test_collected_averages_are_those_of_separate_metrics_to_the_last_bit(solutions, seed):
    logits, targets = batches(seed)
    slow = values(collect(on_device(CPU, logits), on_device(CPU, targets)))
    assert slow == pytest.approx(by_hand(logits.argmax(-1).flatten().tolist(), targets.flatten().tolist()), rel=1e-5)
    device = gapless.device("vgpu")
    assert values(solutions["collect"](on_device(device, logits), on_device(device, targets))) == slow


def variants(device, solutions):
    """TrainingMetrics unoptimised, and with every fix."""
    mean_class = solutions["suppress_nan_check"](type("Mean", (MeanMetric,), {}))
    return [TrainingMetrics(device, classes=CLASSES),
            TrainingMetrics(device, solutions["update_loss"], mean_class, shared=True, classes=CLASSES)]


def take_in(metrics, seed, device, ranks=slice(None)):
    logits, targets = batches(seed, (4, 33))
    losses = np.random.default_rng(seed).uniform(0.5, 7, 4).astype(np.float32)
    for loss, output, target in list(zip(*(on_device(device, array) for array in (losses, logits, targets))))[ranks]:
        metrics.update(loss, output, target)


def test_fixed_training_metrics_equal_the_naive_ones_after_compute_and_reset(solutions):
    for device in (CPU, gapless.device("vgpu")):
        naive, fixed = variants(device, solutions)
        for seed in (1, 2):
            for metrics in (naive, fixed):
                take_in(metrics, seed, device)
            assert fixed.compute() == naive.compute()  # and on from there, nothing reset
        for metrics in (naive, fixed):
            metrics.reset()
            take_in(metrics, 3, device)
        assert fixed.compute() == naive.compute()


def test_weights_count():
    metric = MeanMetric()
    for loss, batch in ((2.0, 30), (5.0, 10)):
        update_loss(metric, torch.tensor(loss), batch)
    assert metric.compute().item() == (2 * 30 + 5 * 10) / 40


# -- several processes ----------------------------------------------------------------------------


def _rank(rank, world_size, backend, device_name, path, results):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    device = gapless.device(device_name) if device_name != "cpu" else CPU
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=world_size)
    functions = solution(LESSON.id)
    found = []
    for metrics in variants(device, functions):
        take_in(metrics, 5, device, slice(rank, None, world_size))
        found.append(metrics.compute())
        metrics.reset()
        take_in(metrics, 6, device, slice(rank, None, world_size))
        found.append(metrics.compute())
    own, left = functions["step_time_metric"](device), MeanMetric()
    for metric in (own, left):
        metric.update(10.0 + rank)
    try:
        gathered = left.compute().item()
    except RuntimeError as error:
        gathered = str(error)
    torch.save({"found": found, "own": own.compute().item(), "gathered": gathered}, f"{results}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("backend, device, gathers", [("cpu:gloo", "cpu", True), ("vgpu:gloo", "vgpu:a40", False)])
def test_in_two_processes(solutions, tmp_path, backend, device, gathers):
    """Naive and fixed metrics agree to the last bit, and with one process that sees all; a CPU metric gathers only where the
    group serves the CPU, and a step time is each process's own."""
    arguments = (2, backend, device, str(tmp_path / "store"), str(tmp_path))
    done = forked.run("-c", "import torch.multiprocessing\nfrom tests.lessons.test_metric_collection import _rank\n"
                            f"torch.multiprocessing.start_processes(_rank, {arguments}, nprocs=2, start_method='fork')", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    for rank, of_rank in enumerate(seen):
        naive, naive_again, fixed, fixed_again = of_rank["found"]
        assert fixed == naive and fixed_again == naive_again
        assert of_rank["own"] == 10.0 + rank
        assert of_rank["gathered"] == (10.5 if gathers else "No backend type associated with device type cpu")
    assert seen[0]["found"] == seen[1]["found"]
    alone, _ = variants(CPU, solutions)
    for number, seed in enumerate((5, 6)):
        take_in(alone, seed, CPU)
        assert seen[0]["found"][number] == pytest.approx(alone.compute(), rel=1e-6)
        alone.reset()


def test_the_articles_error_and_its_cures_in_a_group_of_one():
    device = gapless.device("vgpu")
    for metric, right in ((MeanMetric(), False), (MeanMetric(sync_on_compute=False), True), (MeanMetric().to(device), True)):
        metric.update(3.0)
        with device_group(device):
            with pytest.raises(RuntimeError, match="is open in this Python process"), device_group(device):
                pass
            if right:
                assert metric.compute().item() == 3.0
            else:
                with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
                    metric.compute()
    assert not dist.is_initialized()


# -- the training step and what it shows ----------------------------------------------------------


def profiled(make_metrics, device):
    with full_size(device, LABELS):
        step = training_step(device, make_metrics(), Size(4, 64), CLASSES)
        return gapless.StepReport.from_trace(gapless.profile(step, steps=2, device=device))


def test_waits_of_the_training_step_are_those_the_lesson_names(solutions):
    device = gapless.device("vgpu")
    naive, fixed = (profiled(lambda: variants(device, solutions)[which], device) for which in (0, 1))
    assert [sync.op for sync in naive.syncs_in_steps if sync.step == 0] == ["aten::to", "aten::item", "aten::item"]
    assert re.match(r"metric_collection/\w+/slow.py:\d+", naive.syncs[0].location)
    assert fixed.syncs_per_step == profiled(lambda: None, device).syncs_per_step == 0
    assert fixed.kernels < naive.kernels


def true_ms(device, batch, make_metrics=lambda: None, host_ms=0.0):
    with full_size(device, LABELS):
        step = training_step(device, make_metrics(), Size(batch, 224))
        return gapless.time_step(lambda: (gapless.host_work(host_ms), step()), device=device).true_ms


@pytest.mark.parametrize("card", ["a10g", "a40"])
def test_what_the_notebook_says_of_its_batch(solutions, card):
    """Metrics cost nearly a tenth of a step; nearly all of it lies in what comes behind the waits; the fixes undo it."""
    device, batch = gapless.device(f"vgpu:{card}"), SMALL_SIZE.batch

    def loss_only():
        metrics = TrainingMetrics(device)
        metrics.four = []
        return metrics

    reference, loss, naive = (true_ms(device, batch, made) for made in
                              (lambda: None, loss_only, lambda: TrainingMetrics(device)))
    mean_class = solutions["suppress_nan_check"](type("Mean", (MeanMetric,), {}))
    unchecked, shared = (true_ms(device, batch, lambda shared=shared: TrainingMetrics(
        device, solutions["update_loss"], mean_class, shared)) for shared in (False, True))
    assert 0.06 < naive / reference - 1 < 0.12
    assert loss - reference < 0.3 * (naive - reference)
    assert reference <= shared < unchecked < 1.02 * reference


def test_host_work_is_free_without_metrics_and_counts_in_full_behind_a_wait():
    device, work = gapless.device("vgpu:a40"), 7.0
    without, without_busy = (true_ms(device, 128, host_ms=ms) for ms in (0, work))
    naive, naive_busy = (true_ms(device, 128, lambda: TrainingMetrics(device), ms) for ms in (0, work))
    assert 0.005 < naive / without - 1 < 0.03  # a little over 1 %
    assert without_busy - without < 0.1 * work
    assert naive_busy - naive == pytest.approx(work, rel=0.02)


def test_blocks_hold_their_waits():
    from torch.profiler import record_function

    device = gapless.device("vgpu")
    x = torch.ones(3, device=device)

    def step():
        with record_function("outer"):
            x.sum().item()
            with record_function("inner"):
                x.sum().item(), x.sum().item()
            with record_function("free"):
                x.sum()

    table = waits_by_block(gapless.StepReport.from_trace(gapless.profile(step, steps=2, device=device)))
    assert re.findall(r"\| (\w+) \| (\d) \|", table) == [("outer", "1"), ("inner", "2"), ("free", "0")]


def test_training_step_trains_on_vgpu_as_on_the_cpu(monkeypatch):
    """Same parameters and the same metrics after two exact steps."""
    from gapless.lessons.metric_collection import workload

    found = []
    for device in (CPU, gapless.device("vgpu")):
        networks, make = [], make_network
        monkeypatch.setattr(workload, "make_network", lambda classes: networks.append(make(classes)) or networks[-1])
        metrics = TrainingMetrics(device, classes=10)
        torch.manual_seed(0)
        step = training_step(device, metrics, Size(2, 32), classes=10)
        step(), step()
        found.append(({k: v.cpu() for k, v in networks[0].state_dict().items()}, metrics.compute()))
        monkeypatch.undo()
    # ResNet-18 at 32×32 ends in a normalisation over two values, which enlarges rounding.
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def gathered(name, function, seed=1):
    """What :func:`judge` is given."""
    device, exercise = gapless.device("vgpu"), LESSON.exercises[name]
    plan = exercise.plan(seed)
    return exercise, plan, gather(exercise, LocalStage(function, device, exercise.asked.ask), plan, device)


def judged(name, function):
    return judge(*gathered(name, function))


def test_exercises_are_judged_side_by_side_and_one_process_group_disturbs_nobody(solutions):
    """As grading does, in threads."""
    with ThreadPoolExecutor() as pool:
        given = [gathered(name, solutions[name]) for name in LESSON.exercises]
        judgements = list(pool.map(lambda each: judge(*each), given * 2))
    assert {verdict.outcome for verdicts in judgements for verdict in verdicts} == {"pass"}


def test_a_function_that_shirks_where_it_is_timed_is_wrong():
    def shirker(outputs, targets):
        if outputs[0].shape[0] == 128:
            return {name: torch.zeros((), device=outputs[0].device) for name in METRICS}
        return collect(outputs, targets)

    values, *others = judged("collect", shirker)
    assert {values.outcome, *(v.outcome for v in others)} == {"fail"}
    assert "depends on the size of its input, or counts its calls" in values.message


def test_an_answer_remembered_by_shape_is_wrong(solutions):
    known = {}

    def collected(outputs, targets):
        if outputs[0].shape[0] < 128:
            return solutions["collect"](outputs, targets)
        if outputs[0].shape not in known:
            known[outputs[0].shape] = solutions["collect"](outputs, targets)
        return known[outputs[0].shape]

    assert "call 2 gave the answer of call 1" in judged("collect", collected)[0].message


def test_a_metric_that_takes_nothing_in_where_it_is_timed_is_wrong():
    made = []

    def deaf(device):
        made.append(device)
        hears = len(made) <= len(LESSON.exercises["step_time_metric"].cases(1))

        class Mean(MeanMetric):
            def update(self, value, weight=1.0):
                if hears:
                    super().update(value, weight)

            def compute(self):
                return super().compute() if hears else torch.tensor(81.5)

        return Mean(sync_on_compute=False)

    values, waits = judged("step_time_metric", deaf)
    assert values.outcome == waits.outcome == "fail" and "it is 81.5 and should be" in values.message


def test_an_answer_on_the_cpu_is_wrong_where_it_is_timed_too(solutions):
    def collected(outputs, targets):
        found = solutions["collect"](outputs, targets)
        return {name: value.cpu() for name, value in found.items()} if outputs[0].shape[0] == 128 else found

    assert "'accuracy' is a tensor on the device cpu" in judged("collect", collected)[0].message


def test_a_text_beside_the_averages_does_not_stop_the_explanation():
    exercise = LESSON.exercises["collect"]
    case = exercise.cases(1)[0]
    wanted = dict.fromkeys(METRICS, 0.5)
    found = {"note": "x", "list": [], **wanted, "accuracy": float("nan")}
    assert "NaN is 0 / 0" in exercise.teaching.explain(case, found, wanted)


def test_what_is_said_of_waits_is_about_torchmetrics():
    """The general advice, a plain Python number for the operator, is the mistake here."""
    told = {name: judged(name, LESSON.exercises[name].slow)[1].message for name in ("update_loss", "step_time_metric", "collect")}
    assert all("TorchMetrics makes a tensor of a Python number" in told[name] for name in ("update_loss", "step_time_metric"))
    assert "the plain Python number" not in "".join(told.values())
    assert "A value on the CPU is asked there" in told["step_time_metric"]
    assert "`update` shares; calling it (its `forward`) does not" in told["collect"]


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("logits", [False, True])
def test_what_section_10_says_of_labels_that_are_too_large(solutions, average, logits):
    """Two distinct labels, one of them too large: validation lets it pass; macro fails obscurely, micro counts an error."""
    labels = torch.tensor([0, 7, 7, 0])
    given = torch.nn.functional.one_hot(torch.tensor([0, 0, 1, 0]), 5).float() if logits else torch.tensor([0, 0, 1, 0])
    metric = METRICS["accuracy"](num_classes=5, average=average, validate_args=True)
    if average == "macro":
        with pytest.raises(RuntimeError, match="shape"):
            metric(given, labels)
    else:
        assert metric(given, labels).item() == 0.5
    known = torch.zeros(3, CLASSES)
    known[:, 0] = 1
    found = values(solutions["evaluate"](nn.Identity(), [(known, torch.tensor([0, 0, CLASSES]))], CPU))
    assert set(found.values()) == {1.0}  # as if ignored


def test_points_are_those_the_notebook_states():
    assert LESSON.max_points == 24
