"""``gapless validate``: what it prints and writes."""

import argparse
import importlib.util
import json

import pytest
import torch

from gapless.commands import validate
from gapless.commands.cli import main
from gapless.commands.validate import ValidationError
from gapless.fidelity import against_measured, measured
from gapless.fidelity.validate import Figures
from gapless.measure.device import UnknownDevice

from .. import ROOT


def command(*arguments):
    parser = argparse.ArgumentParser()
    validate.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["validate", *arguments])
    return parsed.run(parsed)


def test_the_page_shows_the_record_and_the_record_is_what_is_predicted_today():
    spec = importlib.util.spec_from_file_location("validation", ROOT / "docs" / "validation.py")
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    text = docs.PAGE.read_text(encoding="utf-8")
    assert docs.page(text) == text, "run make records"
    kept = {(line["kind"], line["card"]): line for line in json.loads(docs.RECORD.read_text(encoding="utf-8"))["errors"]}
    rows = measured.read(measured.FOLDER / "operators.csv.gz")[::250]
    for line in against_measured.summary(against_measured.points(rows)):
        if line["rows"] >= 50:
            was = kept[line["kind"], line["card"]]
            assert abs(line["mean_abs_error"] - was["mean_abs_error"]) < 0.05, line


@pytest.mark.parametrize("arguments, message", [
    (["--measured", "nothing.csv"], "nothing.csv: No such file"),
    (["--measured", "--card", "t4"], "--measured goes without --card"),
    (["--measured", "--sample", "0"], "--sample is 0: it is 1 or more"),
    (["--picture", "p.png"], "--sample and --picture go with --measured"),
])
def test_what_goes_not_together_is_said(arguments, message, capsys):
    assert main(["validate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_measured_times_are_compared_in_a_table_a_record_and_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    table = tmp_path / "mine.csv"
    table.write_text("device,op,dims,latency_ms\nTesla T4,add,b=4096 h=4096,0.9\nNVIDIA L4,bmm,b=64 m=512 n=64 k=512,0.4\n")
    out, picture = tmp_path / "record.json", tmp_path / "picture.png"
    assert main(["validate", "--measured", str(table), "--out", str(out), "--picture", str(picture)]) == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    assert {(line["kind"], line["card"], line["rows"]) for line in record["errors"]} == {("elementwise", "t4", 1),
                                                                                        ("matrix products", "l4", 1)}
    assert "matrix products" in capsys.readouterr().out and picture.read_bytes().startswith(b"\x89PNG")


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


@pytest.mark.slow
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
