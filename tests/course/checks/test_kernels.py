"""The check of what a step launches."""

from types import SimpleNamespace

import pytest
import torch

from gapless.course.check import Look
from gapless.course.checks.kernels import Kernels, _listed, kernels_of
from gapless.course.evidence import Measured, Run
from gapless.course.exercise import Measurement
from gapless.course.verdicts import FAIL, PASS
from gapless.measure.device import device as choose_device
from gapless.measure.profile import profile

LOOK = Look(SimpleNamespace(step_capitalised="A pass", measurement=Measurement(None)), None, None, None)


def run(step):
    device = choose_device("vgpu:a10g")
    x = torch.ones(100, device=device)
    return Run(1.0, 1.0, [], profile(lambda: step(x), steps=2, warmup=1, device=device))


def slow(x):
    return (x.cos() + x.sin()).relu()


def test_kernels_are_counted_by_name_for_one_step():
    assert kernels_of(run(lambda x: (x + 1, x + 2)).report).most_common() == [("pointwise_kernel(add)", 2)]


@pytest.mark.parametrize("step, fewer, unwanted, outcome, says", [
    (lambda x: x.cos().relu(), 2, "", PASS, "A pass launches 2 kernels, 4 in the slow function. Fewer by: 1 × "),
    (lambda x: x.cos().relu(), 3, "", FAIL, "at most 1 are wanted. As often as before, or more often: 1 × "),
    (slow, 1, "", FAIL, "at most 3 are wanted"),
    (lambda x: x.cos().relu(), 2, "sin|cos", FAIL, "Among them are still: 1 × `pointwise_kernel(cos)`. Try this."),
    (lambda x: x.relu(), 0, "sin|cos", PASS, "Fewer by"),
])
def test_what_is_launched_is_held_against_the_slow_function(step, fewer, unwanted, outcome, says):
    found, message = Kernels(1, fewer, unwanted, "Try this.").judge_one(LOOK, Measured(run(slow), run(step)))
    assert found == outcome and says in message


def test_a_cell_that_uses_torchscript_is_told_that_it_fuses_nothing_here():
    look = Look(LOOK.exercise, None, SimpleNamespace(simulated=True), None, {"e": "scripted = torch.jit.script(slow)"})
    outcome, message = Kernels(1, fewer=1, advice="Try this.").judge_one(look, Measured(run(slow), run(slow)))
    assert outcome == FAIL and "does not model TorchScript's fuser" in message and "Try this" not in message


def test_kernels_that_read_alike_are_counted_together():
    name = "void at::native::vectorized_elementwise_kernel<{}, at::native::BinaryFunctor<float> >(int)"
    assert _listed({name.format(4): 3, name.format(8): 2, "gemm": 1}) == "5 × `vectorized_elementwise_kernel (BinaryFunctor)`, 1 × `gemm`"
