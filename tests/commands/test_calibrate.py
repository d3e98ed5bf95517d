"""``gapless calibrate``: what it reads and writes."""

import argparse
import json

import pytest
import torch

from gapless.commands import calibrate
from gapless.fidelity.calibrate import CalibrationError, fit
from gapless.measure.device import UnknownDevice
from gapless.vgpu import find_card
from gapless.vgpu.hardware.cards.cardfile import card_from_json

from ..fidelity.made_up import GPU, exact_measurements


def command(*arguments):
    parser = argparse.ArgumentParser()
    calibrate.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["calibrate", *arguments])
    return parsed.run(parsed)


def test_a_card_file_is_fitted_again_and_can_be_used(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "cards" / "Mine.json"
    old.write_text(json.dumps({"measurements": exact_measurements(), "gpu": GPU["name"], "date": "2026-01-02"}))
    assert command("--fit", str(old), "--out", str(new)) == 0
    assert "share of bandwidth" in capsys.readouterr().out
    card = find_card(str(new))
    assert card.key == "mine" and "measured on NVIDIA A100-SXM4-40GB, 2026-01-02" in card.source
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
