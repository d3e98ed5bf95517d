import numpy as np
import pytest

from gapless.fidelity.fit import networks as fit
from gapless.fidelity.measured import Network
from gapless.vgpu.hardware.cards import fitted

pytest.importorskip("timm")


def network(model, mode="infer", format="channels_last", card="rtx3090", ms=100.0, compiled=False):
    return Network(card, model, mode, format, 64, 160, ms, compiled)


@pytest.fixture(scope="module")
def steps():
    rows = [network(model, mode, format) for model in ("resnet18", "mobilenetv2_100")
            for mode in ("train", "infer") for format in ("channels_last", "contiguous")]
    return fit.Steps([*rows, network("resnet18", compiled=True), network("no_such_network")])


def known():
    shared = fitted.constants("tensor_cores")
    return shared, {"rtx3090": {"math": 1.0, "bandwidth": 1.0}}


def test_what_is_compiled_or_unknown_is_left_out(steps):
    assert len(steps.rows) == 8


def test_kernels_times_are_those_of_the_virtual_gpu(steps):
    shared = fitted.constants("tensor_cores", "rtx3090")
    from gapless.fidelity import networks

    whole = steps.predicted_s(shared, {})
    simulated = [found.ms / 1e3 for found in networks.predicted(steps.rows)]
    # The simulated step has a host, and rounds each kernel to ns and up to the floor.
    assert np.all(np.array(simulated) >= 0.97 * whole)
    long = [i for i, row in enumerate(steps.rows) if row.mode == "infer" and row.model == "resnet18"]
    assert np.allclose(whole[long], np.array(simulated)[long], rtol=0.1)


def test_a_slower_bandwidth_takes_longer(steps):
    shared, own = known()
    slower = {"rtx3090": {"math": 1.0, "bandwidth": 0.5}}
    assert np.all(steps.predicted_s(shared, slower) > steps.predicted_s(shared, own))


def test_the_fit_finds_a_card_that_is_slower_than_the_constants_say(steps):
    shared, own = known()
    steps.measured_s = 1.3 * steps.predicted_s(shared, own)
    found = fit.constants(steps)
    again = steps.predicted_s(found["shared"], found["cards"])
    assert np.mean(np.abs(again / steps.measured_s - 1)) < 0.05
    assert all(0 < found["shared"][name] <= fit.MOST_MEMORY for name in fit._MEMORY)


def test_a_sample_is_the_same_at_every_call_and_uncompiled():
    rows = [network(f"net{i}", compiled=i % 2 == 0) for i in range(100)]
    chosen = fit.sampled(rows, 20)
    assert chosen == fit.sampled(rows, 20) and len(set(chosen)) == 20 and not any(row.compiled for row in chosen)
