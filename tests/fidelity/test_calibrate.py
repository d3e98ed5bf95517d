"""The fit of a card to measurements: made-up ones, whose truth is known."""

import copy
import json
import random

import pytest
import torch

from gapless.fidelity import calibrate, experiments
from gapless.fidelity.calibrate import CalibrationError, errors, fit, least_relative
from gapless.vgpu import Host

from .made_up import GPU, HOST, TRUTH


def noisy(measurements, share):
    rng, found = random.Random(0), copy.deepcopy(measurements)
    for point in found["kernels"]:
        point["seconds"] *= 1 + rng.uniform(-share, share)
    return found


# -- the line through the points ----------------------------------------------------------------------


def test_the_line_goes_through_exact_points():
    start, rate = least_relative([(n, x, 2e-6 * n + 3e-12 * x) for n, x in ((1, 1e4), (1, 1e6), (3, 1e7), (1, 1e9))])
    assert (start, rate) == pytest.approx((2e-6, 3e-12), rel=1e-6)


def test_one_odd_point_does_not_move_the_line():
    rows = [(1, x, 2e-6 + 3e-12 * x) for x in (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)]
    rows[3] = (1, 1e7, rows[3][2] * 9)
    assert least_relative(rows) == pytest.approx((2e-6, 3e-12), rel=1e-3)


def test_neither_start_nor_rate_is_negative():
    start, rate = least_relative([(1, x, 1e-12 * x**1.2) for x in (1e5, 1e6, 1e7)])
    assert start == 0 and rate > 0
    start, rate = least_relative([(1, 1e5, 3e-6), (1, 1e6, 2e-6), (1, 1e7, 1e-6)])
    assert start > 0 and rate == 0


# -- the card -----------------------------------------------------------------------------------------


def check(card, rel):
    for kind, share in TRUTH.memory_efficiency.items():
        if kind in calibrate.MEMORY_KINDS:
            assert card.memory_efficiency[kind] == pytest.approx(share, rel=rel), kind
    for name, factor in TRUTH.time_factors.items():
        assert card.time_factors[name] == pytest.approx(factor, rel=rel), name
    for name, share in TRUTH.math_efficiency.items():
        assert card.math_efficiency[name] == pytest.approx(share, rel=rel), name


def test_the_fit_finds_the_truth(exact):
    card = fit(exact)
    check(card, 0.02)  # starts are not scaled
    assert card.kernel_floor_ns == TRUTH.kernel_floor_ns
    for kind in ("pointwise", "reduction", "sort"):
        assert card.kernel_start_ns[kind] == pytest.approx(TRUTH.kernel_start_ns[kind], rel=0.05, abs=20)
    assert max(found["median_error"] for found in errors(card, exact).values()) < 0.01


def test_the_fit_stands_noise_and_outliers(exact):
    measured = noisy(exact, 0.02)
    for kind in ("pointwise", "reduction", "optimizer"):
        chosen = [point for point in measured["kernels"] if point["kind"] == kind]
        chosen[-1]["seconds"] *= 6
    check(fit(measured), 0.10)


def test_the_same_measurements_give_the_same_card(exact):
    assert fit(json.loads(json.dumps(exact))) == fit(exact)


def test_the_hosts_costs(exact):
    host = fit(exact).host
    assert host == Host(op_ns=6000, view_ns=1500, launch_ns=3000, sync_ns=4000, queue_length=1022, pinned_share=0.75,
                        pageable_share=0.25, library_op_ns=18_000, python_call_ns=400, cores=6, core_flops=9e10,
                        core_bytes_per_s=1.2e10, memory_bytes_per_s=4e10)


def test_measurements_from_before_the_processor_was_measured(exact):
    host = {name: value for name, value in exact["host"].items() if name in (
        "launch_s", "operator_s", "view_s", "synchronize_s", "queue_length") or (name.endswith("_bytes_per_s") and "_to_" in name)}
    found = fit({**exact, "host": host}).host
    assert found.op_ns == 6000 and found.python_call_ns == Host().python_call_ns and found.cores == Host().cores


def test_a_gpu_without_a_data_sheet_gets_the_best_rates_as_its_peaks(exact):
    unknown = {**exact, "gpu": {**GPU, "name": "NVIDIA GeForce RTX 5090"}}
    card = fit(unknown)
    assert card.name == "NVIDIA GeForce RTX 5090" and "best rates measured" in card.source
    # Products and rows follow shared constants there, and one factor: nearly right.
    assert max(found["median_error"] for found in errors(card, unknown).values()) < 0.12


@pytest.mark.parametrize("damage, told", [
    (lambda m: m["kernels"][0].update(seconds=0.0), "took 0.0 s"),
    (lambda m: m["kernels"][0].update(seconds=-1.0), "took -1.0 s"),
    (lambda m: m["kernels"][0].update(seconds=float("nan")), "took nan s"),
    (lambda m: m["kernels"][0].pop("model"), "not complete (KeyError: 'model')"),
    (lambda m: m.pop("host"), "not complete (KeyError: 'host')"),
    (lambda m: m["host"].update(queue_length=0), "card.host.queue_length is 0"),
    (lambda m: m["gpu"].update(memory_bytes=5), "card.memory_bytes is 5"),
])
def test_measurements_that_cannot_be_say_why(exact, damage, told):
    measured = copy.deepcopy(exact)
    damage(measured)
    with pytest.raises(CalibrationError) as raised:
        fit(measured)
    assert told in str(raised.value)


def test_measurements_are_what_the_fit_reads(planned, cpu_for_cuda, monkeypatch, capsys):
    smallest = {}
    for experiment in planned:
        known = smallest.get((experiment.kind, experiment.dtype))
        if experiment.bytes <= 2**23 and (known is None or experiment.bytes < known.bytes):
            smallest[experiment.kind, experiment.dtype] = experiment
    impossible = experiments.Experiment("impossible", "pointwise", "float32", 4, lambda device: torch.ones(2) @ torch.ones(3))
    few = [*(e for (kind, dtype), e in smallest.items() if kind in ("pointwise", "sort", "matmul") and dtype == "float32"),
           impossible]
    monkeypatch.setattr(experiments, "experiments", lambda: few)
    monkeypatch.setattr(experiments, "BEYOND_CACHE_BYTES", 2**20)
    measured = calibrate.take_measurements(cpu_for_cuda)
    assert [point["kind"] for point in measured["kernels"]] == [e.kind for e in few[:-1]]
    assert "left out: impossible in float32" in capsys.readouterr().err
    assert set(measured["host"]) == set(HOST)
    assert all(value > 0 for value in measured["host"].values())
    card = fit(json.loads(json.dumps(measured)))
    assert card.name == "No GPU" and card.memory_bytes == 2**34
