"""What is run on a GPU to calibrate a card."""

import pytest
import torch

from gapless.fidelity import calibrate, experiments


def test_every_kind_and_dtype_has_its_experiments(planned):
    kinds = {experiment.kind for experiment in planned}
    assert kinds == {*calibrate.MEMORY_KINDS, *calibrate.MATH_KINDS}
    for experiment in planned:
        model = experiment.model()
        assert any(kernel["kind"] == experiment.kind for kernel in model), experiment.what
        if experiment.kind in calibrate.MATH_KINDS:
            assert {kernel["dtype"] for kernel in model} == {experiment.dtype}


@pytest.mark.parametrize("kind", [*calibrate.MEMORY_KINDS, "attention"])
def test_the_smallest_of_each_kind_runs(planned, kind):
    experiment = min((e for e in planned if e.kind == kind and e.dtype == "float32"), key=lambda e: e.bytes)
    experiment.make(torch.device("cpu"))()


def test_a_block_takes_the_calls_in_turn(cpu_for_cuda):
    taken = []
    calls = [lambda number=number: taken.append(number) for number in range(3)]
    seconds, host_s = experiments._block(calls, 7, 1e-6)
    assert taken == [0, 1, 2, 0, 1, 2, 0]
    assert seconds > 0 and host_s > 0
