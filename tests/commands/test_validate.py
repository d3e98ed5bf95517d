"""``gapless validate``: what it prints and writes."""

import argparse
import json

import pytest
import torch

from gapless.commands import validate
from gapless.commands.validate import ValidationError
from gapless.fidelity.validate import Figures
from gapless.measure.device import UnknownDevice


def command(*arguments):
    parser = argparse.ArgumentParser()
    validate.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["validate", *arguments])
    return parsed.run(parsed)


def test_predictions_are_labelled_and_repeat(capsys, tmp_path):
    chosen = ("--predict-only", "--card", "h100", "--workload", "unet", "--dtype", "bf16")
    assert command(*chosen, "--out", str(tmp_path / "new" / "v.json")) == 0
    text = capsys.readouterr().out
    assert "Predicted with NVIDIA H100 80GB HBM3" in text and "simulated, compared with nothing" in text
    record = json.loads((tmp_path / "new" / "v.json").read_text())
    assert record["simulated"] is True and record["gpu"] is None and record["median_step_error"] is None
    case, = record["cases"]
    assert (case["workload"], case["dtype"]) == ("unet", "bf16") and "measured" not in case
    assert command(*chosen, "--json") == 0
    assert json.loads(capsys.readouterr().out)["cases"] == record["cases"]


def test_what_was_measured_is_set_beside_the_prediction(capsys, monkeypatch):
    """The comparison with made-up measurements, since a GPU may not be there."""
    def figures(ms):
        return Figures(ms, ms, {"matmul": ms}, 10, 2**30)

    predicted = {("vit", "fp32"): figures(9.0), ("vit", "bf16"): figures(6.0)}
    measured = {("vit", "fp32"): 10.0, ("vit", "bf16"): 5.0}
    monkeypatch.setattr(validate, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(validate, "device_name", lambda device: "NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(validate, "_predict_in_a_process_of_its_own", lambda card, cases: predicted)
    monkeypatch.setattr("gapless.fidelity.validate.measure", lambda device, *case: figures(measured[case]))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *a: "NVIDIA A100-SXM4-40GB")
    assert command("--workload", "vit") == 0
    text = capsys.readouterr().out
    assert "-10%" in text and "+20%" in text and "median 15%, worst 20%" in text
    assert "matmul 9.0 (10.0)" in text


def test_the_prediction_in_a_process_of_its_own_is_the_same():
    cases = [("unet", "bf16")]
    assert validate._predict_in_a_process_of_its_own("t4", cases) == validate.predict("t4", cases)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(UnknownDevice, match="PyTorch sees none"):
        command()


def test_a_simulated_device_is_not_measured():
    with pytest.raises(ValidationError, match="--predict-only"):
        command("--device", "vgpu")
