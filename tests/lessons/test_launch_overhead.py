"""Lesson 06: what is handed out against PyTorch's own, and what the lesson says of each fix."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from gapless.course.answers import put
from gapless.course.exercise import full_size
from gapless.lessons import find_lesson
from gapless.lessons.launch_overhead.capture_step import slow as capture_step_slow
from gapless.lessons.launch_overhead.capture_step.look import small_step
from gapless.lessons.launch_overhead.clear_grads import slow as clear_grads_slow
from gapless.lessons.launch_overhead.clip import slow as clip_slow
from gapless.lessons.launch_overhead.clip.mistakes import clipping
from gapless.lessons.launch_overhead.training_without_debugging import cases, stage
from gapless.lessons.launch_overhead.training_without_debugging.look import training_to_look_at
from gapless.lessons.launch_overhead.training_without_debugging.stage import training_of
from gapless.lessons.launch_overhead.update_average import slow as update_average_slow
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile, time_step

from .answers.capturing import every_loss_read, synchronised
from .answers.making_optimizers import a_group_for_each_shape, adamw, fused_in_float32, real_ones_in_a_loop
from .answers.parameter_lists import mixed_lists, reads_once, with_decay_on_the_device
from .reference import solution
from .test_exercises import grade as grade_in

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run

CPU = torch.device("cpu")


def grade(name, function):
    return grade_in("06_launch_overhead", name, function)


def parameters_of(count=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = [nn.Parameter(torch.randn(3, place + 1, generator=generator)) for place in range(count)]
    for parameter in found:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return found


@pytest.mark.parametrize("max_norm, number", [(1.0, None), (1e3, None), (float("inf"), None), (1.0, float("inf")),
                                              (1.0, float("nan")), (0.0, None)])
def test_clipping_as_handed_out_is_torchs(max_norm, number):
    own, torchs = parameters_of(), parameters_of()
    for parameters in (own, torchs):
        if number is not None:
            parameters[2].grad[0, 0] = number
    norms = clip_slow.clip(own, max_norm), nn.utils.clip_grad_norm_(torchs, max_norm)
    torch.testing.assert_close(torch.tensor(norms[0]), norms[1], equal_nan=True)
    torch.testing.assert_close([each.grad for each in own], [each.grad for each in torchs], equal_nan=True)


def test_the_average_as_handed_out_is_torchs():
    parameters = parameters_of()
    averages = [torch.ones_like(parameter) for parameter in parameters]
    others = copy.deepcopy(averages)
    for _ in range(3):
        update_average_slow.update_average(averages, iter(parameters), 0.9)
        torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)(others, [each.detach() for each in parameters], None)
    torch.testing.assert_close(averages, others)


@pytest.mark.parametrize("settings, moves", [({"momentum": 0.9}, True), ({"weight_decay": 0.1}, True), ({}, False)])
def test_a_gradient_of_zero_moves_what_none_leaves(settings, moves):
    """What the exercise says: with momentum or weight decay, and without both it is all one."""
    found = []
    for clear in (clear_grads_slow.clear_grads, solution("06_launch_overhead")["clear_grads"]):
        parameters = parameters_of()
        optimizer = torch.optim.SGD(parameters, lr=0.1, **settings)
        optimizer.step()
        clear(parameters)
        optimizer.step()
        found.append([parameter.detach().clone() for parameter in parameters])
    assert all(torch.equal(*pair) for pair in zip(*found)) != moves


def test_what_cannot_be_fused_is_said_in_the_first_step():
    """The error that the exercise quotes. Making the optimizer raises nothing."""
    parameter = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    with pytest.raises(RuntimeError, match="all the params to be floating point Tensors of supported devices"):
        optimizer.step()


def test_each_fix_of_the_headline_saves_time_on_the_host():
    device, lesson, times = choose_device("vgpu:a100"), find_lesson("06_launch_overhead"), {}
    for program in lesson.programs(solution(lesson.id)):
        with full_size(device):
            times[program.name] = time_step(program.make_step(device), warmup=1, steps=2, device=device).host_ms
    assert list(times.values()) == sorted(times.values(), reverse=True)
    assert times["unoptimised"] > 8 * times["all heads at once"] > 80 * times["the step as one launch"]


def test_a_loop_that_does_not_wait_still_launches_as_much():
    """Waits and kernels are two checks: the one passes, the other says why not."""
    verdicts = grade("clip", clipping())
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == {
        "values": "pass", "syncs": "pass", "kernels": "fail", "host_time": "fail"}
    assert "one dtype" in verdicts["kernels"].message and "It does not wait: it calls too much" in verdicts["host_time"].message


def test_a_list_of_two_dtypes_is_no_faster_than_the_loop():
    verdicts = grade("update_average", mixed_lists)
    assert verdicts["values"].outcome == "fail" and "The function that you were given has them right too" in verdicts["values"].message
    assert verdicts["kernels"].outcome == "fail"


def test_a_number_brought_from_the_host_is_named_as_the_wait():
    verdicts = grade("update_average", with_decay_on_the_device)
    assert verdicts["kernels"].outcome == "fail" and "It waits for the device, in `" in verdicts["host_time"].message


@pytest.mark.parametrize("function, wait", [(synchronised, "`cudaDeviceSynchronize`"), (every_loss_read, "`item`")])
def test_a_captured_step_that_always_waits_loses_nothing_else(function, wait):
    verdicts = grade("capture_step", function)
    assert wait in verdicts["syncs"].message
    assert {check for check, verdict in verdicts.items() if verdict.outcome == "fail"} == {"syncs"}


def test_a_number_that_is_read_once_is_a_wait():
    verdicts = grade("clip", reads_once)
    assert verdicts["values"].outcome == verdicts["kernels"].outcome == "pass" and verdicts["syncs"].outcome == "fail"


@pytest.mark.parametrize("function, lost", [(real_ones_in_a_loop, {"syncs", "kernels", "step_time"}), (adamw(), {"syncs", "step_time"}),
                                            (fused_in_float32, {"syncs", "step_time"})])
def test_an_optimizer_that_is_not_fused_waits_under_a_scaler(function, lost):
    verdicts = grade("make_optimizer", function)
    assert {name for name, verdict in verdicts.items() if verdict.outcome == "fail"} == lost


def test_a_group_for_each_shape_is_too_many():
    verdicts = grade("make_optimizer", a_group_for_each_shape)
    assert "more groups than settings" in verdicts["kernels"].message
    assert {name for name, verdict in verdicts.items() if verdict.outcome == "fail"} == {"kernels", "step_time"}


def mean_ms(run):
    return sum(run.step_ms[1:]) / len(run.step_ms[1:])


@pytest.mark.parametrize("card", ["t4", "h200"])
def test_each_debug_aid_costs_and_is_needed_as_the_cases_have_it(card):
    """Not near the 10 % that decide, alone; and beside the others where its absence is asked for."""
    device = choose_device(f"vgpu:{card}")
    case = cases.training_case(np.random.default_rng(0), "all", list(stage.AIDS))
    training = training_of(put(case, device)[0])
    bare, full = training.run([]), training.run(training.aids)
    assert set(stage.AIDS) == {*cases.COSTLY, *cases.CHEAP, *cases.NEEDED, cases.NORM_KEPT}
    for name, kind in case.options["kinds"].items():
        cost = mean_ms(training.run([name])) / mean_ms(bare) - 1
        without = training.run([other for other in training.aids if other != name])
        assert (without.log != full.log) == (kind in cases.NEEDED), kind
        if kind not in cases.NEEDED:
            assert cost > 0.13 if name in cases.costly(case) else abs(cost) < 0.07, (kind, cost)


@pytest.mark.parametrize("card", ["t4", "a10g", "h200"])
@pytest.mark.parametrize("layers, share", [(2, 0.139), (4, 0.086)])
def test_one_aid_costs_more_than_a_tenth_of_a_short_step_and_less_of_a_long_one(card, layers, share):
    device = choose_device(f"vgpu:{card}")
    case = cases.training_case(np.random.default_rng(0), "one", [cases.NORM_KEPT], layers)
    training = training_of(put(case, device)[0])
    assert mean_ms(training.run(training.aids)) / mean_ms(training.run([])) - 1 == pytest.approx(share, abs=1e-3)
    on, off = (np.mean([stage._tabled_ms(number, kinds, 3, layers) for number in (1, 2, 3)]) for kinds in ({cases.NORM_KEPT}, set()))
    assert on / off - 1 == pytest.approx(share, abs=1e-3)
    assert len(cases.costly(case)) == (share > 0.1)


def test_the_table_for_a_real_gpu_says_what_the_aids_cost_on_the_virtual_a10g():
    device = choose_device("vgpu:a10g")
    case = cases.training_case(np.random.default_rng(0), "all", list(stage.AIDS))
    training = training_of(put(case, device)[0])
    for name, kind in [(None, None), *case.options["kinds"].items()]:
        run, kinds = training.run([name] if name else []), {kind} if kind else set()
        tabled = [stage._tabled_ms(number, kinds, case.options["every"], 2) for number in range(stage.STEPS)]
        assert np.mean(tabled[1:]) == pytest.approx(mean_ms(run), rel=0.03), kind
        assert tabled[0] == pytest.approx(run.step_ms[0], rel=0.1), kind


def test_which_aids_go_is_another_for_each_seed():
    """A fixed answer is right on few of them."""
    found = {tuple(sorted(name for name, kind in case.options["kinds"].items() if kind in cases.COSTLY))
             for seed in range(10) for case in cases.debug_cases(seed)[:2]}
    assert len(found) > 10


def test_an_aid_of_no_training_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="no aid is called 'anomaly mode'; there are verify_1"):
        training_to_look_at(choose_device("vgpu:a10g")).run(["anomaly mode"])


def test_a_captured_step_is_one_launch_of_a_graph_and_the_plain_step_one_for_each_kernel():
    device, launches = choose_device("vgpu:a10g"), []
    for capture_step in (capture_step_slow.capture_step, solution("06_launch_overhead")["capture_step"]):
        with full_size(device):
            trace = profile(small_step(capture_step, device), steps=1, device=device)
        names = [event["name"] for event in trace.events if event.get("cat") == "cuda_runtime"]
        launches.append((names.count("cudaLaunchKernel"), names.count("cudaGraphLaunch")))
    # Beside the graph: two copies of the batch, and one of the loss.
    assert launches[0][0] > 50 and launches == [(launches[0][0], 0), (3, 1)]
