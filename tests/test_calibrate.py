"""The fit of a card to measurements: made-up ones, whose truth is known."""

import argparse
import copy
import dataclasses
import json
import random
import time
from types import SimpleNamespace

import pytest
import torch

from gapless import vgpu
from gapless.fidelity import calibrate, experiments
from gapless.fidelity.calibrate import CalibrationError, errors, fit, least_relative
from gapless.measure.device import UnknownDevice
from gapless.vgpu import CARDS, Host, find_card
from gapless.vgpu.hardware.cardfile import card_from_json
from gapless.vgpu.hardware.costs import Kernel

TRUTH = dataclasses.replace(
    CARDS["a100"],
    memory_efficiency={**CARDS["a100"].memory_efficiency, "pointwise": 0.91, "reduction": 0.62, "sort": 0.33,
                       "gather": 0.71,
                       "scatter": 0.22, "scan": 0.55, "normalization": 0.68, "optimizer": 0.87, "memset": 0.95},
    math_efficiency={"matmul:float32": 0.81, "matmul:tf32": 0.66, "matmul:float16": 0.74, "matmul:bfloat16": 0.72,
                     "convolution:tf32": 0.35, "convolution:bfloat16": 0.41, "attention:float32": 0.3,
                     "attention:bfloat16": 0.47},
    kernel_floor_ns=1700,
    kernel_start_ns={"pointwise": 900, "reduction": 2500, "matmul": 3000, "sort": 1200},
)
HOST = {
    "launch_s": 3e-6, "operator_s": 9e-6, "view_s": 1.5e-6, "synchronize_s": 4e-6, "queue_length": 1022,
    "pinned_to_device_bytes_per_s": 24e9, "device_to_pinned_bytes_per_s": 24e9, "pageable_to_device_bytes_per_s": 8e9,
    "device_to_pageable_bytes_per_s": 8e9,
}
GPU = {"name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 42_000_000_000, "sm_count": 108, "compute_capability": [8, 0]}


@pytest.fixture(scope="module")
def planned():
    return experiments.experiments()


@pytest.fixture(scope="module")
def exact(planned):
    """What a GPU exactly like TRUTH would measure."""
    points = []
    for experiment in planned:
        model = experiment.model()
        seconds = sum(Kernel("", **kernel).duration_ns(TRUTH) for kernel in model) / 1e9
        points.append({"what": experiment.what, "kind": experiment.kind, "dtype": experiment.dtype, "seconds": seconds,
                       "model": model})
    return {"gpu": GPU, "host": HOST, "kernels": points}


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
    for name, share in TRUTH.math_efficiency.items():
        assert card.math_efficiency[name] == pytest.approx(share, rel=rel), name


def test_the_fit_finds_the_truth(exact):
    card = fit(exact)
    check(card, 0.01)
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
                        pageable_share=0.25)


def test_a_gpu_without_a_data_sheet_gets_the_best_rates_as_its_peaks(exact):
    unknown = {**exact, "gpu": {**GPU, "name": "NVIDIA GeForce RTX 4090"}}
    card = fit(unknown)
    assert card.name == "NVIDIA GeForce RTX 4090" and "best rates measured" in card.source
    assert max(found["median_error"] for found in errors(card, unknown).values()) < 0.01


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


# -- the command --------------------------------------------------------------------------------------


def command(*arguments):
    parser = argparse.ArgumentParser()
    calibrate.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["calibrate", *arguments])
    return parsed.run(parsed)


def test_a_card_file_is_fitted_again_and_can_be_used(exact, tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "cards" / "Mine.json"
    old.write_text(json.dumps({"measurements": exact, "gpu": GPU["name"], "date": "2026-01-02"}))
    assert command("--fit", str(old), "--out", str(new)) == 0
    assert "share of bandwidth" in capsys.readouterr().out
    card = find_card(str(new))
    assert card.key == "mine" and "measured on NVIDIA A100-SXM4-40GB, 2026-01-02" in card.source
    check(card, 0.01)
    file = json.loads(new.read_text())
    assert card_from_json(file) == fit(file["measurements"], "mine", "2026-01-02")
    again = tmp_path / "Mine.json"
    assert command("--fit", str(new), "--out", str(again)) == 0
    assert again.read_text() == new.read_text()


@pytest.mark.parametrize("content, told", [(None, "No such file"), ("{", "not JSON"), ("[]", "no measurements"),
                                           ("{}", "no measurements")])
def test_a_file_without_measurements(tmp_path, content, told):
    path = tmp_path / "m.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CalibrationError, match=told):
        command("--fit", str(path), "--out", str(tmp_path / "out.json"))
    assert not (tmp_path / "out.json").exists()


def test_a_simulated_device_is_not_measured(tmp_path):
    with pytest.raises(CalibrationError, match="simulated"):
        command("--device", "vgpu", "--out", str(tmp_path / "out.json"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    with pytest.raises(UnknownDevice, match="PyTorch sees none"):
        command("--out", str(tmp_path / "out.json"))


# -- the experiments ------------------------------------------------------------------------------------


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


# -- the measuring, with a CPU in the place of a GPU ----------------------------------------------------


class FakeEvent:
    """A CUDA event on a device that is never behind."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time_s = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.time_s - self.time_s) * 1e3


@pytest.fixture
def cpu_for_cuda(monkeypatch):
    """What the measuring calls of ``torch.cuda``, for the CPU: shows that it runs, not what a GPU would take."""
    vgpu.enable()  # pins memory without a driver
    properties = SimpleNamespace(name="No GPU", total_memory=2**34, multi_processor_count=8, major=8, minor=0)
    for name, stand_in in {"Event": FakeEvent, "_sleep": lambda cycles: None, "synchronize": lambda device=None: None,
                           "empty_cache": lambda: None, "get_device_properties": lambda device: properties,
                           "get_device_name": lambda device=None: "No GPU",
                           "current_stream": lambda device: SimpleNamespace(synchronize=lambda: None)}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return torch.device("cpu")


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


def test_a_block_takes_the_calls_in_turn(cpu_for_cuda):
    taken = []
    calls = [lambda number=number: taken.append(number) for number in range(3)]
    seconds, host_s = experiments._block(calls, 7, 1e-6)
    assert taken == [0, 1, 2, 0, 1, 2, 0]
    assert seconds > 0 and host_s > 0
